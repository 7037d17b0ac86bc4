"""`ci-runner list`: the runners that `ci-runner start` created, and what they left behind."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import print_rows
from ci_compiler.cli.engines import leftovers
from ci_compiler.runner.controller import runner_logs
from ci_compiler.runner.controller.prune import metrics

COLUMNS = {"kind": "kind", "name": "name", "pool": "pool", "state": "state", "left_over": "left over"}
"""What JSON and the table show of an item, with the headers of the table."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--here", action="store_true", help="only what is on this machine, without asking GitHub")
    parser.add_argument("--metrics", action="store_true", help="print counts in the text format of Prometheus")
    options.shared(parser, "json", "engine", "host", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints registrations, containers, stores and garbage collector roots, and why one is left over; or counts."""
    _, _, items = leftovers(arguments, ask=not arguments.here)
    if arguments.metrics:
        print(metrics(items, lost=runner_logs.count()), end="")
        return 0
    rows = [{key: str(getattr(item, key)) for key in COLUMNS} for item in items]
    print_rows(rows, COLUMNS, as_json=arguments.json)
    return 0
