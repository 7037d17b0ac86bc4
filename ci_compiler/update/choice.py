"""Which release each branch goes to: the newest of its own line, or the one that was asked for.

Releases of torch take those of torchvision and torchaudio with them, as the release table says (`spec.releases`).
`packaging` is not used: tags become versions by a pattern that leaves numbers alone, which need no more than an order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, nearest, wrong
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.spec.model import Branch, Package, RecipeKind, Spec
from ci_compiler.spec.releases import TORCH, companions, companions_of_torch, series, toolkit_refusal, toolkits
from ci_compiler.spec.upstream import Upstream
from ci_compiler.units import numbers
from ci_compiler.update.remote import Remote, upstream_facts

_VERSION = r"[0-9]+(?:\.[0-9]+)*(?:\.post[0-9]+)?"
_PLACE = "@version@"


class Release(NamedTuple):
    """A final release: its tag, and the commit that the tag names. Both are '' where only the index knows it."""

    version: str
    tag: str
    commit: str


def releases(upstream: Upstream, tags: Mapping[str, str]) -> dict[str, Release]:
    """The final releases among `tags` (commits by tag), by version; tags of any other form are left out."""
    before, after = map(re.escape, upstream.tags.split(_PLACE))
    form = re.compile(f"{before}({_VERSION}){after}")
    found = ((form.fullmatch(tag), tag, commit) for tag, commit in tags.items())
    return {match[1]: Release(match[1], tag, commit) for match, tag, commit in found if match}


def is_final(version: str) -> bool:
    """Whether `version` is that of a final release: numbers, and no more than a post-release after them."""
    return re.fullmatch(_VERSION, version) is not None


def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, by which releases are ordered. 2.9 and 2.9.0 are equal."""
    final, _, post = version.partition(".post")
    found = numbers(final)
    return (*found, *[0] * (6 - len(found)), int(post or 0))


def newest(versions: Iterable[str]) -> str:
    """The newest of `versions`; '' for none."""
    return max(versions, key=order, default="")


def in_line(version: str, line: str) -> bool:
    """Whether `version` begins with the numbers of `line` ('' for all): 2.9.1 is in 2.9, 2.91 is not."""
    return not line or f"{version}.".startswith(f"{line}.")


def line_of(version: str, count: int) -> str:
    """The first `count` numbers of a version."""
    return ".".join(version.split(".")[:count])


class Asked(NamedTuple):
    """What the user asked for: packages (none: all), a version or line to go to, branches (none: all).

    `leaves_line`: without `to`, a branch goes to the newest release of all, not of its own line.

    `checkouts`: the folders of branches, in which the repository's own recipes can be edited.

    `revisions`: where other sources of these recipes go with the release, by OWNER/NAME.
    """

    packages: tuple[str, ...] = ()
    to: str = ""
    branches: tuple[str, ...] = ()
    leaves_line: bool = False
    checkouts: Mapping[str, Path] = MappingProxyType({})
    revisions: Mapping[str, str] = MappingProxyType({})

    def leads(self, package: Package, branch: str) -> bool:
        """Whether an update can move `package` on `branch`: recipes that it writes, or own ones that it can edit."""
        wanted = not self.packages or package.name in self.packages
        return is_written(package) or (wanted and branch in self.checkouts)

    def covers(self, branch: str) -> bool:
        """Whether `branch` is asked for ('': what is not of any branch)."""
        return not branch or not self.branches or branch in self.branches


class Move(NamedTuple):
    """A package of a branch that goes to another release of `upstream`; `lead` is the package that it follows."""

    branch: str
    package: str
    before: str
    release: Release
    upstream: Upstream
    lead: str


class Choice(NamedTuple):
    """The moves, and what kept a branch where it is."""

    moves: tuple[Move, ...]
    findings: tuple[Finding, ...]


class OfferedReleases(NamedTuple):
    """The releases of a package by version, without those that were yanked."""

    releases: Mapping[str, Release]
    yanked: frozenset[str]


Offer = Callable[[Upstream], OfferedReleases]


def upstream_of(package: Package) -> Upstream | None:
    """Where the package's releases are: as the spec says, or else as the bundled table does; None if neither does."""
    known = upstream_facts()["packages"].get(package.attribute)
    return package.upstream or (Upstream(**known) if known else None)


def offered(remote: Remote, upstream: Upstream) -> OfferedReleases:
    """What `upstream` offers: its tags, or without a repository the versions of the index. Raises InputError."""
    asks_index = upstream.index and (remote.has_index or not upstream.repository)
    listed = remote.index_versions(upstream.index) if asks_index else {}
    yanked = frozenset(version for version, gone in listed.items() if gone)
    if upstream.repository:
        found = releases(upstream, remote.tags(upstream.repository))
    else:
        found = {version: Release(version, "", "") for version in listed if is_final(version)}
    return OfferedReleases({version: one for version, one in found.items() if version not in yanked}, yanked)


class _Led(NamedTuple):
    """A package on a branch, and where its releases are."""

    spec: Spec
    branch: Branch
    package: Package
    upstream: Upstream

    @property
    def now(self) -> str:
        """Its version on the branch."""
        return self.branch.versions[self.package.name]

    def warning(self, code: Code, message: str) -> Finding:
        """A warning about its version on the branch."""
        path = ("branches", self.branch.name, "versions", self.package.name)
        return self.spec.finding(path, code, message, tolerated=True)

    def move(self, version: str, offer: Offer, lead: str = "") -> Move:
        """Its move to `version`."""
        release, name = offer(self.upstream).releases[version], self.package.name
        return Move(self.branch.name, name, self.now, release, self.upstream, lead or name)


def choose(spec: Spec, asked: Asked, offer: Offer) -> Choice:
    """The moves that `asked` leads to. Raises InputError for a request that cannot be met."""
    _check(spec, asked)
    moves: list[Move] = []
    findings: list[Finding] = []
    fits = False
    for led in (led for branch in filter(asked.covers, spec.branches) for led in _leads(spec, branch, asked)):
        try:
            version, kept = _target(led, offer, asked)
            findings += kept
            fits = fits or bool(version)
            if version not in {"", led.now}:
                moves += [led.move(version, offer), *_followers(led, version, offer, asked)]
        except InputError as error:
            if asked.to:
                raise InputError([replace(finding, tolerated=False) for finding in error.findings]) from None
            if any(not finding.tolerated for finding in error.findings):
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
        if not (is_written(spec.packages[name]) or asked.checkouts.keys() & {*(asked.branches or spec.branches)}):
            message = f"the recipes of {name} are the repository's own; check out the branch on which to edit them"
            raise InputError([spec.finding(("packages", name), Code.WRONG_OPTION, message, key=True)])
    if asked.to and not asked.packages:
        raise wrong("--to", Code.WRONG_OPTION, "name the package that goes to this version")


def leads(spec: Spec, branch: Branch, asked: Asked) -> Iterator[Package]:
    """The packages on `branch` whose releases are looked up; torch's companions follow it."""
    yield from (led.package for led in _leads(spec, branch.name, asked))


def _leads(spec: Spec, name: str, asked: Asked) -> Iterator[_Led]:
    branch, names = spec.branches[name], asked.packages
    there = [package for package in spec.packages.values() if is_on(spec, package, name)]
    known = [package for package in there if package.repository is None and asked.leads(package, name)]
    mine = [_Led(spec, branch, package, upstream) for package in known if (upstream := upstream_of(package))]
    followers = {led.package.name for led in mine if _follows(led.package)}
    has_torch = any(led.package.attribute == TORCH for led in mine)
    for led in mine:
        named = {led.package.name} | (followers if led.package.attribute == TORCH else set())
        if not (has_torch and led.package.name in followers) and (not names or named & {*names}):
            yield led


def is_on(spec: Spec, package: Package, branch: str) -> bool:
    """Whether `package` is built on `branch`, and the spec states its version there."""
    return package.name in spec.branches[branch].versions and package.on(branch)


def is_written(package: Package) -> bool:
    """Whether the version in the spec decides what is built; the repository's own recipes state their own."""
    compiled = package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE)
    return compiled or (package.command is not None and package.upstream is not None)


def own_recipes(spec: Spec) -> tuple[Package, ...]:
    """The packages with known releases that are not looked up, since the repository's own recipes state the version."""
    return tuple(package for package in spec.packages.values() if upstream_of(package) and not is_written(package))


def not_looked_up(spec: Spec, asked: Asked) -> Mapping[str, Sequence[str]]:
    """The packages that an update does not look up, by the reason."""
    packages = [package for package in spec.packages.values() if package.repository is None]
    return {
        "no branch is checked out that has recipes of them": [
            package.name
            for package in own_recipes(spec)
            if not any(is_on(spec, package, name) for name in asked.checkouts)
        ],
        "nothing says where their releases are (`upstream`)": [
            package.name for package in packages if not upstream_of(package)
        ],
    }


def _follows(package: Package) -> bool:
    return package.attribute in companions_of_torch()


def _target(led: _Led, offering: Offer, asked: Asked) -> tuple[str, tuple[Finding, ...]]:
    """The version that the branch goes to, '' if it stays, and a warning about its toolkits. Raises InputError."""
    offer, count = offering(led.upstream), led.upstream.line
    if not asked.to:
        line = "" if asked.leaves_line else line_of(led.now, count)
        newer = [version for version in offer.releases if in_line(version, line) and order(version) > order(led.now)]
        best = newest(version for version in newer if not _refusals(led, version))
        refused = newest(newer) if newest(newer) != best else ""
        return best or _warned(led, offer), _about_toolkits(led, refused or best)
    if not asked.branches and line_of(led.now, count) != line_of(asked.to, count):
        return "", ()
    name = led.package.name
    if asked.to in offer.yanked:
        raise wrong(name, Code.RELEASE_YANKED, f"{asked.to} was yanked from the index; take another release")
    of_line = newest(version for version in offer.releases if in_line(version, asked.to))
    best = asked.to if asked.to in offer.releases else of_line
    if not best:
        message = f"has no release {asked.to}; its newest release is {newest(offer.releases)}"
        raise wrong(name, Code.UNKNOWN_RELEASE, message)
    warnings = _about_toolkits(led, best)
    if _refusals(led, best):
        raise InputError(warnings)
    return best, warnings


def _refusals(led: _Led, version: str) -> list[str]:
    """Why `version` of torch cannot be built with the branch's toolkits; none for other packages."""
    toolkits = led.branch.toolkits if led.package.attribute == TORCH else ()
    return [refusal for toolkit in toolkits if (refusal := toolkit_refusal(version, toolkit))]


def _about_toolkits(led: _Led, version: str) -> tuple[Finding, ...]:
    """Warnings about toolkits of the branch: those that `version` of torch refuses, or that PyTorch dropped."""
    if led.package.attribute != TORCH or not version:
        return ()
    own = toolkits(version)
    dropped = [
        toolkit for toolkit in led.branch.toolkits if own and toolkit in toolkits(led.now) and toolkit not in own
    ]
    kit, rest = family_of(DEFAULT).toolkit, f"by PyTorch, but with {', '.join(own)}"
    problems = _refusals(led, version) or [f"is no longer built with {kit} {one} {rest}" for one in dropped]
    messages = (f"{led.package.name} {version} {problem}" for problem in problems)
    return tuple(led.warning(Code.TOOLKIT_NOT_OF_TORCH, message) for message in messages)


def _warned(led: _Led, offer: OfferedReleases) -> str:
    """'', or an error where the branch's own version was yanked and nothing newer of its line is there."""
    if led.now not in offer.yanked:
        return ""
    message = f"{led.now} of {led.package.name} was yanked from the index, and its line has nothing newer; see why"
    raise InputError([led.warning(Code.RELEASE_YANKED, message)])


def _followers(torch: _Led, version: str, offer: Offer, asked: Asked) -> Iterator[Move]:
    """The moves of the packages whose releases belong to `version` of torch. Raises InputError if one is missing."""
    spec, branch = torch.spec, torch.branch
    table = companions(version, spec.releases)
    # The releases that the spec itself assigns.
    own = {**spec.releases.get(series(version), {}), **spec.releases.get(version, {})}
    stays = f"{branch.name} stays at {torch.now}"
    for package in spec.packages.values() if torch.package.attribute == TORCH else ():
        if not (_follows(package) and package.name in branch.versions and asked.leads(package, branch.name)):
            continue
        upstream, right = upstream_of(package), table.get(package.attribute, "")
        led = _Led(spec, branch, package, upstream or torch.upstream)
        if not right or upstream is None:
            message = f"no table says which {package.name} belongs to {torch.package.name} {version}; {stays}"
            raise InputError([led.warning(Code.RELEASE_INCOMPLETE, f"{message} until `releases` of the spec does")])
        there = offer(upstream).releases
        wanted = _companion(version, right, there, own=right in own.values())
        if wanted not in there:
            message = f"{torch.package.name} {version} goes with {package.name} {wanted}, which is not released"
            raise InputError([led.warning(Code.RELEASE_INCOMPLETE, f"{message}; {stays}")])
        if wanted != led.now:
            yield led.move(wanted, offer, torch.package.name)


def _companion(torch: str, right: str, there: Mapping[str, Release], *, own: bool) -> str:
    """The release that belongs to `torch`. In a series, it has torch's third number; the spec's own may have any."""
    if right != series(right):
        return right
    if own:
        return newest(version for version in there if in_line(version, right)) or right
    return f"{right}.{torch.removeprefix(series(torch)).lstrip('.') or '0'}"
