"""The builds that the options of `dispatch` and `waves` ask for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ci_compiler.github.dispatch import ShardOrder, orders
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import names_of_profile
from ci_compiler.reports.load import Load, load_of
from ci_compiler.spec.triggers import PROFILE
from ci_compiler.spec.versions import NIGHT


def wanted_of(arguments: argparse.Namespace, decided: Plan) -> tuple[ShardOrder, ...]:
    """The orders that the options ask for, of what the profile builds if they name one. Raises InputError."""
    found = orders(
        decided,
        arguments.patterns,
        branch=arguments.branch or None,
        shard=arguments.shard or None,
        unpublished=arguments.unpublished,
    )
    profile = getattr(arguments, PROFILE, "")
    return tuple(_of_profile(decided, found, profile)) if profile else found


def _of_profile(decided: Plan, found: Iterable[ShardOrder], profile: str) -> Iterator[ShardOrder]:
    """The orders of what a profile builds. Each run leaves out by itself what its profile does not build."""
    names = {branch: names_of_profile(decided, profile, branch) for branch in decided.spec.branches}
    for order in found:
        if chosen := tuple(name for name in order.chosen if name in names[order.shard.branch]):
            yield replace(order, chosen=chosen)


def load_of_orders(decided: Plan, wanted: Iterable[ShardOrder], *, publish: bool) -> Load:
    """The load of the orders."""
    return load_of(decided, {(order.shard.branch, name) for order in wanted for name in order.chosen}, publish=publish)


def waves_inputs(arguments: argparse.Namespace, patterns: str, about: str, request: str = "") -> dict[str, str]:
    """The inputs of `waves.yml` for the options."""
    texts = {name: getattr(arguments, name) for name in ("branch", "shard", NIGHT)}
    texts |= {"patterns": patterns, "about": about, PROFILE: getattr(arguments, PROFILE, "")}
    switches = {name: "true" for name in ("unpublished", "publish", "again") if getattr(arguments, name)}
    return {name: text for name, text in (texts | switches | {"request": request}).items() if text}
