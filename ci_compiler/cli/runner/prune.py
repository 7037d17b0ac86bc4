"""`ci-runner prune`: removes what runners left behind."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json
from ci_compiler.cli.engines import leftovers
from ci_compiler.github.errors import GitHubError
from ci_compiler.runner.controller import prune
from ci_compiler.runner.controller.engine import EngineError


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    parser.add_argument("--everywhere", action="store_true", help="also remove offline registrations of other machines")
    parser.add_argument("--stores", action="store_true", help="also remove stores that the next jobs would use")
    options.shared(parser, "json", "engine", "host", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Removes what is left over and prints a line for each; returns 1 if something could not be removed."""
    engine, github, items = leftovers(arguments)
    say = note if arguments.json else print
    rows = []
    for item in items:
        if not item.left_over:
            continue
        what, result = f"{item.kind} {item.name}: {item.left_over}", "left over"
        if arguments.dry_run:
            say(f"would remove {what}")
        else:
            try:
                result = "removed" if prune.remove(item, engine, github) else "kept"
            except (EngineError, GitHubError) as error:
                result = "failed"
                note(str(error))
            else:
                say(f"removed {what}" if result == "removed" else f"kept {item.kind} {item.name}: it is busy")
        rows.append({"kind": item.kind.value, "name": item.name, "pool": item.pool, "left_over": item.left_over})
        rows[-1]["result"] = result
    if arguments.json:
        print_json(rows)
    return 1 if any(row["result"] == "failed" for row in rows) else 0
