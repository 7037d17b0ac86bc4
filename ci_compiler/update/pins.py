"""Pins that are not releases of packages: nixpkgs commits, actions, and the programs in runner images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ci_compiler.plan.pins import COMMIT, HASH
from ci_compiler.recipes.compiled import NIXPKGS
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.changes import Nixpkgs, places
from ci_compiler.update.editing import Edit
from ci_compiler.update.remote import Remote, upstream_facts
from ci_compiler.update.versions import newest, order, releases
from ci_compiler.workflows.pins import action_pins


class StalePin(NamedTuple):
    """A pin, the branch that it is of ('': of none), its value now and the right one, and the edits of the spec."""

    what: str
    branch: str
    now: str
    right: str
    why: str
    edits: tuple[Edit, ...] = ()


def stale_nixpkgs(spec: Spec, remote: Remote, nixpkgs: Nixpkgs) -> Iterator[StalePin]:
    """The nixpkgs commits for which a branch of nixpkgs has a newer one with the same versions."""
    for branch in spec.branches.values():
        wanted = {
            one.attribute: branch.versions[one.name]
            for one in spec.packages.values()
            if one.name in branch.versions and one.on(branch.name) and one.may_be(RecipeKind.COMPILED)
        }
        for place in places(spec, branch.name):
            now = place.row.get(COMMIT, "")
            own = {spec.packages[name].attribute for name in {**branch.sources, **(place.row.get("sources") or {})}}
            heads = nixpkgs.heads() if now else []
            if not now or now in heads:
                continue
            right = next((one for one in heads if _has(nixpkgs, one, wanted, own)), "")
            if right:
                hash_ = [Edit((*place.path, HASH), remote.hash(NIXPKGS, right, submodules=False))]
                edits = (Edit((*place.path, COMMIT), right), *(hash_ if place.row.get(HASH) else ()))
                yield StalePin("nixpkgs", branch.name, now, right, "newer, with the same versions", edits)


def _has(nixpkgs: Nixpkgs, commit: str, wanted: Mapping[str, str], own: set[str]) -> bool:
    return all(name in own or nixpkgs.version(commit, name) == version for name, version in wanted.items())


def stale_actions(spec: Spec, remote: Remote, _: Nixpkgs) -> Iterator[StalePin]:
    """The actions with a newer release, and those whose tag names another commit than the pin."""
    for action, bundled in action_pins().items():
        own = spec.pins.get(action)
        tag, commit = (own.tag, own.commit) if own else (bundled["tag"], bundled["commit"])
        tags = remote.tags(action)
        found = releases(Upstream(), tags)
        latest = found.get(newest(found))
        if latest and order(latest.version) > order(tag):
            edit = Edit(("pins", action), {"tag": latest.tag, "commit": latest.commit})
            yield StalePin(action, "", tag, latest.tag, "a newer release", (edit,))
        elif tags.get(tag, commit) != commit:
            why = f"the tag {tag} names another commit now; find out why before you take it"
            yield StalePin(action, "", commit, tags[tag], why)


def stale_programs(remote: Remote, programs: Mapping[str, str]) -> Iterator[StalePin]:
    """The programs with a newer release, of those whose upstream is known; they come with the compiler."""
    for name, version in programs.items():
        row = upstream_facts()["programs"].get(name)
        if row is None:
            continue
        latest = newest(releases(Upstream(tags=row["tags"]), remote.tags(row["repository"])))
        if latest and order(latest) > order(version):
            yield StalePin(name, "", version, latest, "a newer release; it comes with a newer ci-compiler")


KINDS: Mapping[str, Callable[[Spec, Remote, Nixpkgs], Iterator[StalePin]]] = {
    "nixpkgs": stale_nixpkgs,
    "actions": stale_actions,
}
"""The pins that a spec can state, by the word that `ci-compile update` knows them by."""
