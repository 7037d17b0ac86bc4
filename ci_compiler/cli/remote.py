"""Access to GitHub and to the machine that runs runners, for the commands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_compiler.github.client import Client, Patience
    from ci_compiler.github.registration import Registrar
    from ci_compiler.runner.controller.containers import ContainerEngine
    from ci_compiler.runner.controller.host_runner import ProcessEngine
    from ci_compiler.spec.model import Spec


def client_of(arguments: argparse.Namespace, root: Path, patience: Patience | None = None) -> Client:
    """A client for GitHub, with access from the environment and the checkout. Raises InputError."""
    from ci_compiler.cli.console import note
    from ci_compiler.github.access import access
    from ci_compiler.github.client import PATIENT, Client

    return Client(access(os.environ, root, arguments.repository), say=note, patience=patience or PATIENT)


def engine_of(arguments: argparse.Namespace) -> ContainerEngine | ProcessEngine:
    """The engine that runs runners here: `--host`, `--engine`, or the first one installed. Raises InputError."""
    from ci_compiler.runner.controller.containers import find_engine
    from ci_compiler.runner.controller.host_runner import ProcessEngine

    return ProcessEngine(arguments.host) if arguments.host else find_engine(arguments.engine)


def engine_if_any(arguments: argparse.Namespace) -> ContainerEngine | ProcessEngine | None:
    """Like `engine_of`, but None if none was requested and none is installed. Raises InputError."""
    from ci_compiler.errors import InputError

    try:
        return engine_of(arguments)
    except InputError:
        if arguments.host or arguments.engine:
            raise
        return None


def registrars_of(client: Client, spec: Spec) -> dict[str, Registrar]:
    """Where runners may be registered, by scope: the repository, and its organisation if a pool has a group."""
    from ci_compiler.github.registration import Registrar

    found = [Registrar(client)]
    if any(pool.runs_on.group for pool in spec.pools):
        found.append(Registrar(client, organisation=True))
    return {one.scope: one for one in found}


def this_machine() -> str:
    """The part of runner names that identifies this machine."""
    import socket

    from ci_compiler.runner.controller.runner_names import host_tag

    try:
        machine_id = Path("/etc/machine-id").read_text("utf-8").strip()
    except OSError:
        machine_id = ""
    return host_tag(socket.gethostname(), machine_id)
