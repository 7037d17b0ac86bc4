"""Access to GitHub for the commands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ci_compiler.cli.console import note
from ci_compiler.github.access import Access, access
from ci_compiler.github.client import PATIENT, Client, Patience


def client_of(arguments: argparse.Namespace, root: Path, patience: Patience = PATIENT) -> Client:
    """A client for GitHub, with access from the environment and the checkout. Raises InputError."""

    def found() -> Access:
        return access(os.environ, root, arguments.repository)

    return Client(found(), say=note, patience=patience, renewed=found)
