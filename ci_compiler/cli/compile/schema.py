"""`ci-compile schema`: prints the JSON Schema of the spec."""

from __future__ import annotations

import argparse


def configure(_: argparse.ArgumentParser) -> None:
    """Adds nothing."""


def run(_: argparse.Namespace) -> int:
    """Prints the schema."""
    from ci_compiler.spec.schema import schema_text

    print(schema_text(), end="")
    return 0
