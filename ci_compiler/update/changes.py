"""The edits of the spec that moves to other releases need: versions, nixpkgs commits, sources with their hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.plan.pins import COMMIT, HASH
from ci_compiler.recipes.compiled import NIXPKGS
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Branch, Package, RecipeKind, Source, Spec
from ci_compiler.spec.releases import facts, series, version_in
from ci_compiler.update.choice import Asked, Move, is_written
from ci_compiler.update.editing import Edit
from ci_compiler.update.remote import Remote, nixpkgs_heads, upstream_facts

_STATED = re.compile(r'^\s*(pname|version) = "([^"]+)";', re.MULTILINE)


def stated_version(text: str, attribute: str) -> str:
    """The version that a package's file in nixpkgs states; '' for none, or for several of which none is its own.

    The files of large packages define the packages that only they need first, with versions of their own.
    """
    stated = _STATED.findall(text)
    versions: dict[str, str] = {}
    for (before, name), (key, version) in pairwise([("", ""), *stated]):
        if key == "version":
            versions.setdefault(name if before == "pname" else "", version)
    different = set(versions.values())
    return versions.get(attribute) or (different.pop() if len(different) == 1 else "")


class Nixpkgs:
    """What the commits of nixpkgs have: the heads of its branches, and the known commits (`spec/releases.json`)."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._facts = upstream_facts()["nixpkgs"]
        self._versions: dict[tuple[str, str], str] = {}

    def heads(self) -> list[str]:
        """The commits of its branches, those of the unstable branches first. Raises InputError."""
        return nixpkgs_heads(self._remote.heads(NIXPKGS, *self._facts["branches"]), self._facts["stable"])

    def commits(self) -> list[str]:
        """The heads, then the known commits, the newest of which is the last."""
        return list(dict.fromkeys([*self.heads(), *reversed(facts()["pins"])]))

    def version(self, commit: str, attribute: str) -> str:
        """The version of `attribute` in `commit`; '' if its file does not state one."""
        key = (commit, attribute)
        if key not in self._versions:
            self._versions[key] = version_in(commit, attribute) or stated_version(
                self.text(commit, attribute), attribute
            )
        return self._versions[key]

    def text(self, commit: str, attribute: str) -> str:
        """The first file of the package in `commit` that states a version, or else the last; '' for none.

        Only heads of branches are read: a mirror need not serve any other commit.
        """
        last = ""
        for form in self._facts["files"] if commit in self.heads() else ():
            path = form.format(attribute=attribute, start=attribute[:2].lower())
            last = self._remote.file(NIXPKGS, commit, path) or last
            if stated_version(last, attribute):
                break
        return last


class CommitPlace(NamedTuple):
    """A place of the spec that may state a nixpkgs commit: a branch, or one of its toolkits. `row` is its value."""

    path: Path_
    row: Mapping[str, Any]


def places(spec: Spec, branch: str) -> Iterator[CommitPlace]:
    """The branch's own place first."""
    row = spec.document.value["branches"][branch]
    yield CommitPlace(("branches", branch), row)
    toolkits = row.get(SHORT_FAMILY)
    for toolkit, entry in toolkits.items() if isinstance(toolkits, dict) else ():
        if entry:
            yield CommitPlace(("branches", branch, SHORT_FAMILY, toolkit), entry)


def moved_tags(spec: Spec, asked: Asked, remote: Remote) -> Iterator[Finding]:
    """An error for each tag of a source that names another commit than its hash was taken from. Raises InputError.

    The sources are those of the branches that are `asked` for.

    A tag that several sources have is reported once, at the first of them.
    """
    seen: set[tuple[str, str, str]] = set()
    for branch in filter(asked.covers, spec.branches):
        for place in places(spec, branch):
            for name, source in (place.row.get("sources") or {}).items():
                key = (source["repository"], source["tag"], source.get("commit", ""))
                if not key[-1] or key in seen:
                    continue
                seen.add(key)
                now = source["commit"]
                with remote.lookup():
                    now = remote.tags(source["repository"]).get(source["tag"], "")
                if now != source["commit"]:
                    where = f"names {now[:12]} now" if now else "is gone"
                    message = (
                        f"the tag {source['tag']} of {source['repository']} {where}, and its hash is of "
                        f"{source['commit'][:12]}; find out why before you write another commit and hash"
                    )
                    yield spec.finding((*place.path, "sources", name, "tag"), Code.TAG_MOVED, message)


def edits(spec: Spec, moves: Iterable[Move], remote: Remote, nixpkgs: Nixpkgs) -> list[Edit]:
    """The edits that `moves` need, in the order of the spec. Raises InputError."""
    by_branch: dict[str, list[Move]] = {}
    for move in moves:
        by_branch.setdefault(move.branch, []).append(move)
    found: list[Edit] = []
    for name, of_branch in by_branch.items():
        found += [Edit(("branches", name, "versions", move.package), move.release.version) for move in of_branch]
        nix = [move for move in of_branch if spec.packages[move.package].command is None]
        own = [move for move in nix if not is_written(spec.packages[move.package])]
        nix = [move for move in nix if move not in own]
        for place in places(spec, name) if own else ():
            listed = place.row.get("sources") or {}
            known = (move for move in own if move.package in listed)
            found += [Edit((*place.path, "sources", move.package), source(spec, move, remote)) for move in known]
        if nix:
            commit = _commit_for(spec, spec.branches[name], nix, nixpkgs)
            for place in places(spec, name):
                found += _at(spec, place, nix, commit, remote, nixpkgs)
    return found


def _commit_for(spec: Spec, branch: Branch, moves: list[Move], nixpkgs: Nixpkgs) -> str:
    """The commit that has the first of `moves` and the most others, and every version that stays; '' for none."""
    new = {move.package: move.release.version for move in moves}
    staying = [
        package
        for package in spec.packages.values()
        if package.on(branch.name) and package.name in branch.versions and _of_nixpkgs(package, branch, new)
    ]
    best, most = "", 0
    for commit in nixpkgs.commits():
        has = [nixpkgs.version(commit, spec.packages[package].attribute) == version for package, version in new.items()]
        stay = all(nixpkgs.version(commit, package.attribute) == branch.versions[package.name] for package in staying)
        if has[0] and stay and sum(has) > most:
            best, most = commit, sum(has)
    return best


def _of_nixpkgs(package: Package, branch: Branch, new: Mapping[str, str]) -> bool:
    """Whether the package's version on the branch comes from nixpkgs, and stays."""
    return package.name not in {*new, *branch.sources} and package.may_be(RecipeKind.COMPILED)


def _at(
    spec: Spec, place: CommitPlace, moves: list[Move], commit: str, remote: Remote, nixpkgs: Nixpkgs
) -> Iterator[Edit]:
    """The edits at one place. A toolkit's place that states neither a commit nor a source needs none."""
    own = place.path[-2] == "branches"
    stated: str = place.row.get(COMMIT, "")
    if stated and commit and stated != commit:
        yield Edit((*place.path, COMMIT), commit)
        if place.row.get(HASH):
            yield Edit((*place.path, HASH), remote.hash(NIXPKGS, commit, submodules=False))
    used = (commit or stated) if stated else (commit or spec.document.value["branches"][place.path[1]].get(COMMIT, ""))
    for move in moves:
        package, sources = spec.packages[move.package], place.row.get("sources") or {}
        if used and nixpkgs.version(used, package.attribute) == move.release.version:
            if move.package in sources:
                yield Edit((*place.path, "sources", move.package), None)
        elif own or stated or move.package in sources:
            yield Edit((*place.path, "sources", move.package), source(spec, move, remote))
        pname = (place.row.get("pnames") or {}).get(move.package, "")
        old, new = (series(version).replace(".", "") for version in (move.before, move.release.version))
        if pname.endswith(old) and old != new:
            yield Edit((*place.path, "pnames", move.package), pname.removesuffix(old) + new)


def source(spec: Spec, move: Move, remote: Remote) -> dict[str, Any]:
    """The `sources` entry of the release. Raises InputError without a repository, or where its hash is not the one."""
    upstream, release = move.upstream, move.release
    path = ("branches", move.branch, "versions", move.package)
    if not release.commit:
        message = (
            f"no nixpkgs has {move.package} {release.version}, and its `upstream` names no repository for a source"
        )
        raise InputError([spec.finding(path, Code.UNKNOWN_RELEASE, message)])
    found = remote.hash(upstream.repository, release.commit, submodules=upstream.submodules)
    for other_path, other in _same_tag(spec, upstream.repository, release.tag):
        if other.hash != found and other.submodules == upstream.submodules:
            message = f"the tag {release.tag} of {upstream.repository} has the hash {found} when it is fetched now"
            raise InputError([spec.finding((*other_path, "hash"), Code.HASH_DIFFERS, message)])
    made: dict[str, Any] = {"repository": upstream.repository, "tag": release.tag, "hash": found}
    return made | ({"submodules": True} if upstream.submodules else {}) | {"commit": release.commit}


def _same_tag(spec: Spec, repository: str, tag: str) -> Iterator[tuple[Path_, Source]]:
    for branch, row in spec.branches.items():
        for name, other in row.sources.items():
            if (other.repository, other.tag) == (repository, tag):
                yield ("branches", branch, "sources", name), other
