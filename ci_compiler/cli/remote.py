"""Access to GitHub for the commands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ci_compiler.cli.console import note
from ci_compiler.github.access import APP, TOKENS, Access, access
from ci_compiler.github.client import PATIENT, Client, Patience
from ci_compiler.workflows.common import WORKFLOW_TOKEN


def client_of(arguments: argparse.Namespace, root: Path, patience: Patience = PATIENT) -> Client:
    """A client for GitHub, with access from the environment and the checkout. Raises InputError."""

    def found() -> Access:
        return access(os.environ, root, arguments.repository)

    return Client(found(), say=note, patience=patience, renewed=found)


def workflow_client_of(arguments: argparse.Namespace, root: Path) -> Client:
    """As `client_of`, with the token of the workflow itself where the environment has one. Raises InputError."""
    token = os.environ.get(WORKFLOW_TOKEN)
    if not token:
        return client_of(arguments, root)
    others = {name: value for name, value in os.environ.items() if name not in {*TOKENS, *APP}}
    return Client(access(others | {TOKENS[0]: token}, root, arguments.repository), say=note)
