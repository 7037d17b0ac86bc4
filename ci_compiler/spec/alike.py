"""Names that would collide as file names: those of packages, of branches, and of git's own files for branches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.spec.model import Spec


def alike_findings(spec: Spec) -> Iterator[Finding]:
    """An error for names that differ only in case or in `/` and `-`, and for a branch below another one."""
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
