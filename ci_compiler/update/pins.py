"""Pins that are not releases of packages: nixpkgs commits, actions, and the programs in runner images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ci_compiler.hardware.families import family_of
from ci_compiler.plan.pins import COMMIT, HASH
from ci_compiler.recipes.compiled import NIXPKGS
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.model import Branch, Package, RecipeKind, Spec
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.changes import CommitPlace, Nixpkgs, places
from ci_compiler.update.choice import Offer, in_line, line_of, newest, order, own_recipes, releases, upstream_of
from ci_compiler.update.editing import Edit
from ci_compiler.update.registry import image
from ci_compiler.update.remote import Remote, upstream_facts
from ci_compiler.workflows.pins import action_pins


class StalePin(NamedTuple):
    """A pin, the branch that it is of ('': of none), its value now and the right one, and the edits of the spec.

    `file`: the file of the repository that the edits belong to; '' for the spec.
    """

    what: str
    branch: str
    now: str
    right: str
    why: str
    edits: tuple[Edit, ...] = ()
    file: str = ""


def stale_nixpkgs(spec: Spec, remote: Remote, nixpkgs: Nixpkgs) -> Iterator[StalePin]:
    """The nixpkgs commits for which a branch of nixpkgs has a newer one with the same versions.

    A commit that has the release of a source by itself comes first, and the source is removed.
    """
    for branch in spec.branches.values():
        for place in places(spec, branch.name):
            if now := place.row.get(COMMIT, ""):
                yield from _newer_nixpkgs(spec, branch, place, now, remote, nixpkgs)


def _newer_nixpkgs(
    spec: Spec, branch: Branch, place: CommitPlace, now: str, remote: Remote, nixpkgs: Nixpkgs
) -> Iterator[StalePin]:
    packages = [package for package in spec.packages.values() if package.on(branch.name)]
    if not any(package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE) for package in packages):
        return  # the repository's own recipes state the commit
    packages = [package for package in packages if package.name in branch.versions and package.command is None]
    own = {*branch.sources, *(place.row.get("sources") or {})}

    def there(commit: str, package: Package) -> str:
        return nixpkgs.version(commit, package.attribute)

    def fits(commit: str, package: Package) -> bool:
        wanted, version = branch.versions[package.name], there(commit, package)
        if package.name not in own:
            return version == wanted
        # A source replaces an older version of nixpkgs, not a newer one; and its nixpkgs does not go back.
        return not version or order(there(now, package)) <= order(version) <= order(wanted)

    def without_source(commit: str) -> list[Package]:
        stated = [package for package in packages if _is_removable(spec, branch, place, package.name)]
        return [package for package in stated if there(commit, package) == branch.versions[package.name]]

    heads = [commit for commit in nixpkgs.heads() if all(fits(commit, package) for package in packages)]
    known = [now, *heads] if now in nixpkgs.heads() else heads
    right = max(known, key=lambda commit: len(without_source(commit)), default="")
    needless = without_source(right) if right else []
    if not right or (right == now and not needless):
        return
    edits = [Edit((*place.path, "sources", package.name), None) for package in needless]
    if right != now:
        edits += [Edit((*place.path, COMMIT), right)]
        if place.row.get(HASH):
            edits += [Edit((*place.path, HASH), remote.hash(NIXPKGS, right, submodules=False))]
    has = ", ".join(f"{package.name} {branch.versions[package.name]}" for package in needless)
    why = f"has {has}, which needs no source then" if has else "newer, with the same versions"
    kit = "" if place.path[-2] == "branches" else f" for {family_of(SHORT_FAMILY).toolkit} {place.path[-1]}"
    yield StalePin(f"nixpkgs{kit}", branch.name, now, right, why, tuple(edits))


def _is_removable(spec: Spec, branch: Branch, place: CommitPlace, name: str) -> bool:
    """Whether the source of `name` is stated at `place`, and is that of no toolkit with another nixpkgs commit."""
    others = [other for other in places(spec, branch.name) if other.path != place.path and other.row.get(COMMIT)]
    is_own = place.path[-2] != "branches" or all(name in (other.row.get("sources") or {}) for other in others)
    return name in (place.row.get("sources") or {}) and is_own


def stale_own(spec: Spec, remote: Remote, offer: Offer) -> Iterator[StalePin]:
    """The versions of the repository's own recipes for which their line has a newer release."""
    for package in own_recipes(spec):
        upstream = upstream_of(package)
        for branch in spec.branches.values() if upstream else ():
            if upstream and package.on(branch.name) and (now := branch.versions.get(package.name, "")):
                line = line_of(now, upstream.line)
                with remote.lookup():
                    latest = newest(version for version in offer(upstream).releases if in_line(version, line))
                    if latest and order(latest) > order(now):
                        why = "a newer release; its recipes are your own"
                        yield StalePin(package.name, branch.name, now, latest, why)


def stale_actions(spec: Spec, remote: Remote, _: Nixpkgs) -> Iterator[StalePin]:
    """The actions with a newer release, and those whose tag names another commit than the pin."""
    for action, bundled in action_pins().items():
        own = spec.pins.get(action)
        tag, commit = (own.tag, own.commit) if own else (bundled["tag"], bundled["commit"])
        with remote.lookup():
            tags = remote.tags(action)
            found = releases(Upstream(), tags)
            latest = found.get(newest(found))
            if latest and order(latest.version) > order(tag):
                edit = Edit(("pins", action), {"tag": latest.tag, "commit": latest.commit})
                yield StalePin(action, "", tag, latest.tag, "a newer release", (edit,))
            elif tags.get(tag, commit) != commit:
                why = f"the tag {tag} names another commit now; find out why before you take it"
                yield StalePin(action, "", commit, tags[tag], why)


def stale_images(spec: Spec, remote: Remote, _: Nixpkgs) -> Iterator[StalePin]:
    """The images of pools, given by tag and digest, whose tag names another digest now."""
    for pool in spec.pools:
        named, _at, pinned = pool.image.partition("@")
        with remote.lookup():
            if pinned and image(pool.image).tag and (digest := remote.digest(named)) != pinned:
                edit = Edit(("runners", pool.name, "image"), f"{named}@{digest}")
                yield StalePin(f"{pool.name}: {named}", "", pinned, digest, "the tag names another digest", (edit,))


def latest_program(remote: Remote, upstream: Mapping[str, Any]) -> str:
    """The newest release of a program whose `upstream` is known; '' if there is none."""
    return newest(releases(Upstream(tags=upstream["tags"]), remote.tags(upstream["repository"])))


def stale_programs(remote: Remote, programs: Mapping[str, str]) -> Iterator[StalePin]:
    """The programs with a newer release, of those whose upstream is known; they come with the compiler."""
    for name, version in programs.items():
        row = upstream_facts()["programs"].get(name)
        if row is None:
            continue
        with remote.lookup():
            latest = latest_program(remote, row)
            if latest and order(latest) > order(version):
                yield StalePin(name, "", version, latest, "a newer release; it comes with a newer ci-compiler")
