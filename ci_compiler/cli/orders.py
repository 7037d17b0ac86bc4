"""The builds that the options of `dispatch` and `waves` ask for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ci_compiler.github.dispatch import ShardOrder, orders
from ci_compiler.plan.pipeline import Plan
from ci_compiler.reports.load import Load, load_of
from ci_compiler.spec.triggers import PROFILE
from ci_compiler.spec.versions import NIGHT


def wanted_of(arguments: argparse.Namespace, decided: Plan) -> tuple[ShardOrder, ...]:
    """The orders that the options ask for, of what the profile builds if they name one. Raises InputError."""
    return orders(
        decided,
        arguments.patterns,
        branch=arguments.branch or None,
        shard=arguments.shard or None,
        unpublished=arguments.unpublished,
        profile=getattr(arguments, PROFILE, ""),
    )


def load_of_orders(decided: Plan, wanted: Iterable[ShardOrder], *, publish: bool) -> Load:
    """The load of the orders."""
    return load_of(decided, {(order.shard.branch, name) for order in wanted for name in order.chosen}, publish=publish)


def waves_inputs(arguments: argparse.Namespace, patterns: str, about: str, request: str = "") -> dict[str, str]:
    """The inputs of `waves.yml` for the options."""
    texts = {name: getattr(arguments, name) for name in ("branch", "shard", NIGHT)}
    texts |= {"patterns": patterns, "about": about, PROFILE: getattr(arguments, PROFILE, "")}
    switches = {name: "true" for name in ("unpublished", "publish", "again") if getattr(arguments, name)}
    return {name: text for name, text in (texts | switches | {"request": request}).items() if text}
