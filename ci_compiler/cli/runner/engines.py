"""The machine that runs runners, for the commands that start and remove them."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

from ci_compiler.runner.controller.containers import ContainerEngine, find_engine
from ci_compiler.runner.controller.host_runner import ProcessEngine
from ci_compiler.runner.controller.runner_names import host_tag

Engine = ContainerEngine | ProcessEngine


def engine_of(arguments: argparse.Namespace) -> Engine:
    """The engine that runs runners here: `--host`, `--engine`, or the first one installed. Raises InputError."""
    return ProcessEngine(arguments.host) if arguments.host else find_engine(arguments.engine)


def this_machine() -> str:
    """The part of runner names that identifies this machine."""
    try:
        machine_id = Path("/etc/machine-id").read_text("utf-8").strip()
    except OSError:
        machine_id = ""
    return host_tag(socket.gethostname(), machine_id)
