"""The machine that runs runners, for the commands that start and remove them."""

from __future__ import annotations

import argparse
import os
import socket

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import text_of
from ci_compiler.runner.controller.containers import ContainerEngine, find_engine
from ci_compiler.runner.controller.host_runner import ProcessEngine
from ci_compiler.runner.controller.runner_names import host_tag
from ci_compiler.secret import Secret

BUILDER_KEY_FILE = "CI_RUNNER_BUILDER_KEY_FILE"
"""The variable that names the file with the builder's key."""

Engine = ContainerEngine | ProcessEngine


def engine_of(arguments: argparse.Namespace) -> Engine:
    """The engine that runs runners here: `--host`, `--engine`, or the first one installed. Raises InputError."""
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
