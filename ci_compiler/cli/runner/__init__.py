"""`ci-runner`: its subcommands, one module each."""

from __future__ import annotations

import os

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts
from ci_compiler.files import COMPILED_BY

with quiet_interrupts():
    from ci_compiler.cli.app import run
    from ci_compiler.cli.program import Program

    PROGRAM = Program.load("ci-runner")


def main() -> int:
    """The entry point of `ci-runner`. It refuses a job that a newer version of ci-compile compiled."""
    compiler = os.environ.get(COMPILED_BY, "")
    return run(PROGRAM) if not compiler or _is_served(compiler) else 2


def _is_served(compiler: str) -> bool:
    """Whether this version runs what the version `compiler` compiled; if not, it says what would."""
    from ci_compiler.cli.console import print_findings  # only a job needs them, not `--help`
    from ci_compiler.codes import Code
    from ci_compiler.errors import wrong
    from ci_compiler.files.compiled_by import is_older

    if older := is_older(__version__, compiler):
        message = (
            f"ci-runner {__version__} is older than ci-compile {compiler}, which compiled this workflow; to fix it: "
            f"install ci-compiler=={compiler} on the machine, or start its runners from the images of {compiler}"
        )
        print_findings(wrong("this machine", Code.OLDER_RUNNER, message).findings)
    return not older
