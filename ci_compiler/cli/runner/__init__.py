"""`ci-runner`: its subcommands, one module each."""

from __future__ import annotations

import os

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts

with quiet_interrupts():
    from ci_compiler.cli.app import run
    from ci_compiler.cli.program import Program
    from ci_compiler.files.compiled_by import COMPILED_BY, is_older

    PROGRAM = Program.load("ci-runner")


def main() -> int:
    """The entry point of `ci-runner`. It refuses a job that a newer version of ci-compile compiled."""
    compiler = os.environ.get(COMPILED_BY, "")
    if is_older(__version__, compiler):
        from ci_compiler.cli.console import print_findings
        from ci_compiler.codes import Code
        from ci_compiler.errors import wrong

        message = (
            f"ci-runner {__version__} is older than ci-compile {compiler}, which compiled this workflow; to fix it: "
            f"install ci-compiler=={compiler} on the machine, or start its runners from the images of {compiler}"
        )
        print_findings(wrong("this machine", Code.OLDER_RUNNER, message).findings)
        return 2
    return run(PROGRAM)
