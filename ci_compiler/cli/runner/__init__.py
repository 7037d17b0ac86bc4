"""`ci-runner`: its subcommands, one module each."""

from __future__ import annotations

from ci_compiler.cli.app import Program, run

PROGRAM = Program.load("ci-runner")


def main() -> int:
    """The entry point of `ci-runner`."""
    return run(PROGRAM)
