"""What an event builds of what a change rebuilds: the profiles of the spec, applied to cells.

A variant that a profile leaves out stays as it is published; the schedule, or a dispatch, builds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest, wrong
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Spec
from ci_compiler.spec.triggers import PULL_REQUEST, AnyOf


def conditions_of(spec: Spec, profile: str) -> AnyOf:
    """The conditions of `profile`, of which one must hold. Raises InputError for a profile that the spec lacks."""
    known = spec.profiles.variants
    if profile not in known:
        raise wrong("profile", Code.UNKNOWN_PROFILE, f"the spec has no profile {profile!r}{nearest(profile, known)}")
    return known[profile]


def builds(spec: Spec, event: str, cell: Cell, labels: Iterable[str] = ()) -> bool:
    """Whether the profile for `event` builds `cell`; `labels` are those of a pull request. Raises InputError."""
    conditions = conditions_of(spec, event)
    if not conditions:
        return True
    added = spec.profiles.pull_request.labels
    axes = cell.conditions
    return any(when.holds(axes) for when in (*conditions, *(when for name in labels for when in added.get(name, ()))))


def names_built(
    spec: Spec, event: str, cells: Iterable[Cell], names: Collection[str], labels: Collection[str] = ()
) -> list[str]:
    """Those of `names`, variants of `cells`, that the profile for `event` builds."""
    if not conditions_of(spec, event):
        return list(names)
    kept = {variant.name for cell in cells if builds(spec, event, cell, labels) for variant in cell.variants}
    return [name for name in names if name in kept]


def unused(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for each condition of a profile that no cell meets."""
    every = [cell.conditions for cell in cells]
    for path, when in spec.profiles.conditions:
        if not any(map(when.holds, every)):
            yield spec.finding(path, Code.UNUSED_CONDITION, f"{when} holds for no variant")
    labels = spec.profiles.pull_request.labels
    if labels and not spec.profiles.pull_request.variants:
        message = "a pull request builds all variants already; say with `variants` which it builds without a label"
        yield spec.finding(("profiles", PULL_REQUEST, "labels"), Code.UNUSED_CONDITION, message, key=True)
