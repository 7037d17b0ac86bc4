"""Which release each branch goes to: the newest of its own line, or the one that was asked for.

Releases of torch take those of torchvision and torchaudio with them, as the release table says (`spec.releases`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, nearest, wrong
from ci_compiler.spec.model import Branch, Package, RecipeKind, Spec
from ci_compiler.spec.releases import TORCH, companions, companions_of_torch, series, toolkit_refusal, toolkits
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.remote import Remote, upstream_facts
from ci_compiler.update.versions import Release, in_line, is_final, line_of, newest, order, releases


class Asked(NamedTuple):
    """What the user asked for: packages (none: all), a version or line to go to, branches (none: all).

    `leaves_line`: without `to`, a branch goes to the newest release of all, not of its own line.
    """

    packages: tuple[str, ...] = ()
    to: str = ""
    branches: tuple[str, ...] = ()
    leaves_line: bool = False

    def covers(self, branch: str) -> bool:
        """Whether `branch` is asked for ('': what is not of any branch)."""
        return not branch or not self.branches or branch in self.branches


class Move(NamedTuple):
    """A package of a branch that goes to another release of `upstream`."""

    branch: str
    package: str
    before: str
    release: Release
    upstream: Upstream


class Choice(NamedTuple):
    """The moves, and what kept a branch where it is."""

    moves: tuple[Move, ...]
    findings: tuple[Finding, ...]


class Offered(NamedTuple):
    """The releases of a package by version, without those that were yanked."""

    releases: Mapping[str, Release]
    yanked: frozenset[str]


Offer = Callable[[Upstream], Offered]


def upstream_of(package: Package) -> Upstream | None:
    """Where the package's releases are: as the spec says, or else as the bundled table does; None if neither does."""
    known = upstream_facts()["packages"].get(package.attribute)
    return package.upstream or (Upstream(**known) if known else None)


def offered(remote: Remote, upstream: Upstream) -> Offered:
    """What `upstream` offers: its tags, or without a repository the versions of the index. Raises InputError."""
    asks_index = upstream.index and (remote.has_index or not upstream.repository)
    listed = remote.index_versions(upstream.index) if asks_index else {}
    yanked = frozenset(version for version, gone in listed.items() if gone)
    if upstream.repository:
        found = releases(upstream, remote.tags(upstream.repository))
    else:
        found = {version: Release(version, "", "") for version in listed if is_final(version)}
    return Offered({version: one for version, one in found.items() if version not in yanked}, yanked)


def choose(spec: Spec, asked: Asked, offer: Offer) -> Choice:
    """The moves that `asked` leads to. Raises InputError for a request that cannot be met."""
    _check(spec, asked)
    moves: list[Move] = []
    findings: list[Finding] = []
    fits = False
    for branch in spec.branches.values():
        for lead in leads(spec, branch, asked.packages) if asked.covers(branch.name) else ():
            try:
                version, kept = _target(spec, branch, lead, offer, asked)
                findings += kept
                fits = fits or bool(version)
                if version not in {"", branch.versions[lead.name]}:
                    moves += [_move(branch, lead, version, offer), *_followers(spec, branch, lead, version, offer)]
            except InputError as error:
                if asked.to:
                    raise InputError([replace(one, tolerated=False) for one in error.findings]) from None
                if any(not one.tolerated for one in error.findings):
                    raise
                findings += error.findings
    if asked.to and not fits:
        message = f"no branch is of the line of {asked.to}; name the branch that goes there with --branch"
        raise wrong("--to", Code.UNKNOWN_RELEASE, message)
    return Choice(tuple(moves), tuple(findings))


def _check(spec: Spec, asked: Asked) -> None:
    for name in asked.packages:
        if name not in spec.packages:
            raise wrong(name, Code.UNKNOWN_PACKAGE, f"is no package of the spec{nearest(name, spec.packages)}")
        if upstream_of(spec.packages[name]) is None:
            message = "nothing says where its releases are; declare `upstream`"
            raise InputError([spec.finding(("packages", name), Code.UNKNOWN_RELEASE, message, key=True)])
        if not is_written(spec.packages[name]):
            message = f"the recipes of {name} are the repository's own and state their version; edit them"
            raise InputError([spec.finding(("packages", name), Code.WRONG_OPTION, message, key=True)])
    if asked.to and not asked.packages:
        raise wrong("--to", Code.WRONG_OPTION, "name the package that goes to this version")


def leads(spec: Spec, branch: Branch, names: Collection[str]) -> Iterator[Package]:
    """The packages on `branch` whose releases are looked up, of `names` (none: all); torch's companions follow it."""
    here = [one for one in spec.packages.values() if one.name in branch.versions and one.on(branch.name)]
    mine = [one for one in here if one.repository is None and upstream_of(one) and is_written(one)]
    torch = next((one for one in mine if one.attribute == TORCH), None)
    for package in mine:
        follows = _follows(package) and torch is not None
        named = {package.name} | ({one.name for one in mine if _follows(one)} if package is torch else set())
        if not follows and (not names or named & {*names}):
            yield package


def is_written(package: Package) -> bool:
    """Whether the version in the spec decides what is built; the repository's own recipes state their own."""
    compiled = package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE)
    return compiled or (package.command is not None and package.upstream is not None)


def own_recipes(spec: Spec) -> tuple[Package, ...]:
    """The packages with known releases that are not looked up, since the repository's own recipes state the version."""
    return tuple(one for one in spec.packages.values() if upstream_of(one) and not is_written(one))


def not_looked_up(spec: Spec) -> Mapping[str, Sequence[str]]:
    """The packages that an update does not look up, by the reason."""
    unknown = (one for one in spec.packages.values() if one.repository is None and not upstream_of(one))
    return {
        "their recipes are the repository's own": [one.name for one in own_recipes(spec)],
        "nothing says where their releases are (`upstream`)": [one.name for one in unknown],
    }


def _follows(package: Package) -> bool:
    return package.attribute in companions_of_torch()


def _target(
    spec: Spec, branch: Branch, package: Package, offering: Offer, asked: Asked
) -> tuple[str, tuple[Finding, ...]]:
    """The version that the branch goes to, '' if it stays, and a warning about its toolkits. Raises InputError."""
    now, upstream = branch.versions[package.name], _known_upstream(package)
    offer = offering(upstream)
    if not asked.to:
        line = "" if asked.leaves_line else line_of(now, upstream.line)
        newer = [one for one in offer.releases if in_line(one, line) and order(one) > order(now)]
        best = newest(one for one in newer if not _refusals(branch, package, one))
        refused = newest(newer) if newest(newer) != best else ""
        return best or _warned(spec, branch, package, offer), _about_toolkits(spec, branch, package, refused or best)
    if not asked.branches and line_of(now, upstream.line) != line_of(asked.to, upstream.line):
        return "", ()
    if asked.to in offer.yanked:
        raise wrong(package.name, Code.RELEASE_YANKED, f"{asked.to} was yanked from the index; take another release")
    best = asked.to if asked.to in offer.releases else newest(one for one in offer.releases if in_line(one, asked.to))
    if not best:
        latest = newest(offer.releases)
        message = f"has no release {asked.to}; its newest release is {latest}"
        raise wrong(package.name, Code.UNKNOWN_RELEASE, message)
    found = _about_toolkits(spec, branch, package, best)
    if _refusals(branch, package, best):
        raise InputError(found)
    return best, found


def _refusals(branch: Branch, package: Package, version: str) -> list[str]:
    """Why `version` of torch cannot be built with the branch's toolkits; none for other packages."""
    found = (toolkit_refusal(version, cuda) for cuda in branch.toolkits) if package.attribute == TORCH else ()
    return [one for one in found if one]


def _about_toolkits(spec: Spec, branch: Branch, package: Package, version: str) -> tuple[Finding, ...]:
    """Warnings about toolkits of the branch: those that `version` of torch refuses, or that PyTorch dropped."""
    if package.attribute != TORCH or not version:
        return ()
    said, now = _refusals(branch, package, version), branch.versions[package.name]
    own = toolkits(version)
    for cuda in branch.toolkits if own and not said else ():
        if cuda in toolkits(now) and cuda not in own:
            said.append(f"is no longer built with CUDA {cuda} by PyTorch, but with {', '.join(own)}")
    path = ("branches", branch.name, "versions", package.name)
    messages = (f"{package.name} {version} {one}" for one in said)
    return tuple(spec.finding(path, Code.TOOLKIT_NOT_OF_TORCH, one, tolerated=True) for one in messages)


def _known_upstream(package: Package) -> Upstream:
    found = upstream_of(package)
    assert found is not None  # noqa: S101 - only packages with an upstream are looked up
    return found


def _warned(spec: Spec, branch: Branch, package: Package, offer: Offered) -> str:
    """'', or an error where the branch's own version was yanked and nothing newer of its line is there."""
    now = branch.versions[package.name]
    if now not in offer.yanked:
        return ""
    message = f"{now} of {package.name} was yanked from the index, and its line has nothing newer; see why"
    path = ("branches", branch.name, "versions", package.name)
    raise InputError([spec.finding(path, Code.RELEASE_YANKED, message, tolerated=True)])


def _move(branch: Branch, package: Package, version: str, offer: Offer) -> Move:
    upstream = _known_upstream(package)
    release = offer(upstream).releases[version]
    return Move(branch.name, package.name, branch.versions[package.name], release, upstream)


def _followers(spec: Spec, branch: Branch, torch: Package, version: str, offer: Offer) -> Iterator[Move]:
    """The moves of the packages whose releases belong to `version` of torch. Raises InputError if one is missing."""
    table = companions(version, spec.releases)
    for package in spec.packages.values() if torch.attribute == TORCH else ():
        if not _follows(package) or package.name not in branch.versions or not is_written(package):
            continue
        upstream, right = upstream_of(package), table.get(package.attribute, "")
        path = ("branches", branch.name, "versions", package.name)
        if not right or upstream is None:
            message = (
                f"no table says which {package.name} belongs to {torch.name} {version}; {branch.name} stays at "
                f"{branch.versions[torch.name]} until `releases` of the spec does"
            )
            raise InputError([spec.finding(path, Code.RELEASE_INCOMPLETE, message, tolerated=True)])
        there = offer(upstream).releases
        wanted = _companion(version, right, there, own=right in _own(spec, version))
        if wanted not in there:
            message = (
                f"{torch.name} {version} goes with {package.name} {wanted}, which is not released; {branch.name} stays "
                f"at {branch.versions[torch.name]}"
            )
            raise InputError([spec.finding(path, Code.RELEASE_INCOMPLETE, message, tolerated=True)])
        if wanted != branch.versions[package.name]:
            yield _move(branch, package, wanted, offer)


def _own(spec: Spec, version: str) -> Sequence[str]:
    """The releases that the spec itself assigns to `version` of torch."""
    return [*spec.releases.get(version, {}).values(), *spec.releases.get(series(version), {}).values()]


def _companion(torch: str, right: str, there: Mapping[str, Release], *, own: bool) -> str:
    """The release that belongs to `torch`. In a series, it has torch's third number; the spec's own may have any."""
    if right != series(right):
        return right
    if own:
        return newest(one for one in there if in_line(one, right)) or right
    return f"{right}.{torch.removeprefix(series(torch)).lstrip('.') or '0'}"
