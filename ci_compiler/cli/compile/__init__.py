"""`ci-compile`: its subcommands, one module each."""

from __future__ import annotations

from ci_compiler.cli import quiet_interrupts

with quiet_interrupts():
    from ci_compiler.cli.app import run
    from ci_compiler.cli.program import Program

    PROGRAM = Program.load("ci-compile")


def main() -> int:
    """The entry point of `ci-compile`."""
    return run(PROGRAM)
