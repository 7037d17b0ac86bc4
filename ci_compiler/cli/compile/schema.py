"""`ci-compile schema`: the JSON Schema of a spec."""

from __future__ import annotations

import argparse


def configure(_: argparse.ArgumentParser) -> None:
    """Adds nothing."""


def run(_: argparse.Namespace) -> int:
    """Prints the schema."""
    from ci_compiler.spec.schema import SCHEMA

    print(SCHEMA.read_text("utf-8"), end="")
    return 0
