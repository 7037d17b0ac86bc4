"""`ci-runner list`: the runners that `ci-runner start` created, and what they left behind."""

from __future__ import annotations

import argparse

from ci_compiler.cli.console import print_json, table
from ci_compiler.cli.remote import client_of, engine_if_any, registrars_of, this_machine
from ci_compiler.cli.runner.prune import found
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.runner.controller.prune import Leftover


def run(arguments: argparse.Namespace) -> int:
    """Prints registrations, containers, stores and garbage collector roots, and why one is left over."""
    spec, engine = spec_of(arguments), engine_if_any(arguments)
    github = {} if arguments.here else registrars_of(client_of(arguments, root_of(arguments)), spec)
    items = found(spec, engine, github, host=this_machine())
    if arguments.json:
        print_json([as_json(item) for item in items])
    else:
        table(["kind", "name", "pool", "state", "left over"], [list(as_json(item).values()) for item in items])
    return 0


def as_json(item: Leftover) -> dict[str, str]:
    """An item as JSON and the table show it."""
    return {
        "kind": item.kind.value,
        "name": item.name,
        "pool": item.pool,
        "state": item.state,
        "left_over": item.left_over,
    }
