"""`ci-runner prune`: removes what runners left behind."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ci_compiler.cli.console import note, print_json
from ci_compiler.cli.progress import progress
from ci_compiler.cli.runner.engines import Engine, engine_of, this_machine
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.clock import Clock
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.runner.controller import prune
from ci_compiler.runner.controller.engine import EngineError
from ci_compiler.runner.controller.prune import Leftover

if TYPE_CHECKING:  # PyGithub is slow to import, and `list --here` does not need it
    from ci_compiler.github.registration import Registrar


def run(arguments: argparse.Namespace) -> int:
    """Removes what is left over and prints a line for each; returns 1 if something could not be removed."""
    from ci_compiler.github.errors import GitHubError

    engine, github, items = find(arguments)
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


def find(
    arguments: argparse.Namespace, *, ask: bool = True
) -> tuple[Engine | None, dict[str, Registrar], tuple[Leftover, ...]]:
    """The engine if there is one, GitHub's registrars by scope, and everything that controllers made.

    The registrars are those of the repository, and of its organisation if a pool has a group; none unless `ask`.
    Raises GitHubError, or InputError if the engine does not work or if the requested one is not installed.
    """
    spec, engine, registrars = spec_of(arguments), None, []
    try:
        engine = engine_of(arguments)
    except InputError:
        if arguments.host or arguments.engine:
            raise
    if ask:
        from ci_compiler.cli.remote import client_of
        from ci_compiler.github.registration import Registrar

        client = client_of(arguments, root_of(arguments))
        registrars = [Registrar(client)]
        if any(pool.runs_on.group for pool in spec.pools):
            registrars.append(Registrar(client, organisation=True))
    github = {one.scope: one for one in registrars}
    options = {key: getattr(arguments, key, False) for key in ("everywhere", "stores")}
    try:
        with progress("looking for what runners left behind"):
            items = prune.find(spec, engine, github, host=this_machine(), now=Clock().now(), **options)
    except EngineError as error:
        raise wrong("--engine", Code.ENGINE_FAILS, str(error)) from None
    return engine, github, items
