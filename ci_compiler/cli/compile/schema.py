"""`ci-compile schema`: prints the JSON Schema of the spec."""

from __future__ import annotations

import argparse

from ci_compiler.spec.schema import schema_text


def run(_: argparse.Namespace) -> int:
    """Prints the schema."""
    print(schema_text(), end="")
    return 0
