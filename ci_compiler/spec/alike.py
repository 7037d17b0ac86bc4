"""Names that would collide: of packages and branches as file names, of git's own files for branches, and tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.spec.model import Spec


def alike_findings(spec: Spec) -> Iterator[Finding]:
    """An error for names that differ only in case or in `/` and `-`, a branch below another one, and a shared tag."""
    yield from _tags_shared(spec)
    for path, kind, names in (("packages", "package", spec.packages), ("branches", "branch", spec.branches)):
        seen: dict[str, str] = {}
        for name in names:
            key = name.replace("/", "-").casefold()
            if key in seen:
                message = f"the {kind} {name!r} and {seen[key]!r} cannot be told apart in file names"
                yield spec.finding((path, name), Code.DUPLICATE_NAME, message, key=True)
            seen[key] = name
    for name in spec.branches:
        for above in map(str, PurePosixPath(name).parents):
            if above in spec.branches:
                message = f"git cannot have the branch {name!r} beside {above!r}, which would be a file and a folder"
                yield spec.finding(("branches", name), Code.DUPLICATE_NAME, message, key=True)


def _tags_shared(spec: Spec) -> Iterator[Finding]:
    """An error for each release on GitHub that would have the tag of another one.

    A version that only a run decides on may be that of another package; on each branch of one package it differs.
    """
    seen: list[tuple[str, str, str, str]] = []
    every = [(package, branch) for package in spec.packages.values() for branch in spec.branches.values()]
    for package, branch in every:
        publisher = package.command.publisher if package.command else None
        tags = publisher.tags(package.name, branch.name) if publisher else ""
        if not tags or not branch.publish or not package.on(branch.name):
            continue
        version = branch.versions.get(package.name, "")
        for other, there, known, taken in seen:
            same = known == version if known and version else package.name != other
            if taken == tags and same:
                apart = "package" if package.name != other else "branch"
                message = (
                    f"{package.name} on {branch.name} and {other} on {there} would be one release, "
                    f"{tags.replace('{version}', version or 'VERSION')}; "
                    f'give each a tag of its own, such as `tag: "{{{apart}}}-v{{version}}"`'
                )
                yield spec.finding(("packages", package.name, "command", "publish"), Code.TAG_SHARED, message)
                break
        seen.append((package.name, branch.name, version, tags))
