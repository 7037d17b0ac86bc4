"""`ci-runner list`: the runners that `ci-runner start` created, and what they left behind."""

from __future__ import annotations

import argparse

from ci_compiler.cli.console import print_rows
from ci_compiler.cli.remote import client_of, engine_if_any, registrars_of, this_machine
from ci_compiler.cli.runner.prune import found
from ci_compiler.cli.where import root_of, spec_of

COLUMNS = {"kind": "kind", "name": "name", "pool": "pool", "state": "state", "left_over": "left over"}
"""What JSON and the table show of an item, with the headers of the table."""


def run(arguments: argparse.Namespace) -> int:
    """Prints registrations, containers, stores and garbage collector roots, and why one is left over."""
    spec, engine = spec_of(arguments), engine_if_any(arguments)
    github = {} if arguments.here else registrars_of(client_of(arguments, root_of(arguments)), spec)
    items = found(spec, engine, github, host=this_machine())
    rows = [{key: str(getattr(item, key)) for key in COLUMNS} for item in items]
    print_rows(rows, COLUMNS, as_json=arguments.json)
    return 0
