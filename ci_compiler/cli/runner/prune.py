"""`ci-runner prune`: removes what runners left behind."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, root_of, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from ci_compiler.github.registration import Registrar
    from ci_compiler.runner.controller.containers import ContainerEngine
    from ci_compiler.runner.controller.host_runner import ProcessEngine
    from ci_compiler.runner.controller.prune import Leftover
    from ci_compiler.spec.model import Spec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds what to remove."""
    from ci_compiler.cli.remote import add_engine, add_repository

    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    parser.add_argument("--everywhere", action="store_true", help="also remove offline registrations of other machines")
    parser.add_argument("--stores", action="store_true", help="also remove stores that the next jobs would use")
    add_engine(parser)
    add_repository(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Removes what is left over and prints a line for each; returns 1 if something could not be removed."""
    from ci_compiler.cli.console import note
    from ci_compiler.cli.remote import client_of, engine_if_any, registrars_of, this_machine
    from ci_compiler.github.errors import GitHubError
    from ci_compiler.runner.controller.containers import EngineError
    from ci_compiler.runner.controller.prune import remove

    spec, engine = spec_of(arguments), engine_if_any(arguments)
    github = registrars_of(client_of(arguments, root_of(arguments)), spec)
    options = {"everywhere": arguments.everywhere, "stores": arguments.stores}
    failed = 0
    for item in found(spec, engine, github, host=this_machine(), **options):
        if not item.left_over:
            continue
        what = f"{item.kind} {item.name}: {item.left_over}"
        if arguments.dry_run:
            print(f"would remove {what}")
            continue
        try:
            gone = remove(item, engine, github)
        except (EngineError, GitHubError) as error:
            failed += 1
            note(str(error))
        else:
            print(f"removed {what}" if gone else f"kept {item.kind} {item.name}: it is busy")
    return 1 if failed else 0


def found(
    spec: Spec,
    engine: ContainerEngine | ProcessEngine | None,
    github: Mapping[str, Registrar],
    *,
    host: str,
    everywhere: bool = False,
    stores: bool = False,
) -> tuple[Leftover, ...]:
    """Everything that controllers made. Raises GitHubError, or InputError if the engine does not work."""
    from ci_compiler.clock import Clock
    from ci_compiler.errors import wrong
    from ci_compiler.runner.controller.containers import EngineError
    from ci_compiler.runner.controller.prune import find

    try:
        now = Clock().now()
        return find(spec, engine, github, host=host, now=now, everywhere=everywhere, stores=stores)
    except EngineError as error:
        raise wrong("--engine", Code.ENGINE_FAILS, str(error)) from None
