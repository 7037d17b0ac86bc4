"""The machine that runs runners, for the commands that start, list and remove them."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING

from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.clock import Clock
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.outside import text_of
from ci_compiler.runner.controller.containers import ContainerEngine, find_engine
from ci_compiler.runner.controller.engine import EngineError
from ci_compiler.runner.controller.host_runner import ProcessEngine
from ci_compiler.runner.controller.prune import Leftover, Survey, find
from ci_compiler.runner.controller.runner_names import host_tag
from ci_compiler.secret import Secret

if TYPE_CHECKING:  # PyGithub is slow to import, and `list --here` does not need it
    from ci_compiler.github.registration import Registrar

BUILDER_KEY_FILE = "CI_RUNNER_BUILDER_KEY_FILE"
"""The variable that names the file with the builder's key."""

Engine = ContainerEngine | ProcessEngine


def engine_of(arguments: argparse.Namespace) -> Engine:
    """The engine that runs runners here: `--host`, `--engine`, or the first one installed. Raises InputError."""
    if sys.platform == "win32" or (arguments.host and sys.platform != "linux"):
        message = "ci-runner starts no runners on this system; install GitHub's own service there"
        raise wrong("this machine", Code.CANNOT_START, message)
    if arguments.host:
        return ProcessEngine(arguments.host)
    return find_engine(arguments.engine, _builder_key())


def _builder_key() -> Secret | None:
    """The key with which the Nix daemons of this machine sign builds. Raises InputError."""
    path = os.environ.get(BUILDER_KEY_FILE)
    if not path:
        return None
    try:
        return Secret(text_of(path).strip())
    except OSError:
        message = "cannot be read; create it with `nix-store --generate-binary-cache-key`"
        raise wrong(BUILDER_KEY_FILE, Code.WRONG_OPTION, f"{path} {message}") from None


def this_machine() -> str:
    """The part of runner names that identifies this machine."""
    try:
        machine_id = text_of("/etc/machine-id").strip()
    except OSError:
        machine_id = ""
    return host_tag(socket.gethostname(), machine_id)


def leftovers(
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
    github = {registrar.scope: registrar for registrar in registrars}
    options = {key: getattr(arguments, key, False) for key in ("everywhere", "stores")}
    try:
        with progress("looking for what runners left behind"):
            items = find(Survey(host=this_machine(), now=Clock().now(), **options), spec, engine, github)
    except EngineError as error:
        raise wrong("--engine", Code.ENGINE_FAILS, str(error)) from None
    return engine, github, items
