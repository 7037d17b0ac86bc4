"""How the commands of the stages run: ended in order by SIGTERM, their failures told on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ci_compiler.cli.console import print_findings
from ci_compiler.runner.jobs.failure import StageError
from ci_compiler.runner.jobs.programs import Secrets, ending_in_order, taking_secrets


def reported(work: Callable[[Secrets], int]) -> int:
    """The exit code of `work`, which gets the publishing secrets that are given, and whose programs inherit none.

    It is 1 where the stage failed, with its findings and the end of its log told.
    """
    try:
        with ending_in_order(), taking_secrets() as secrets:
            return work(secrets)
    except StageError as error:
        sys.stdout.flush()
        print_findings(error.findings)
        for line in error.tail:
            print(f"    {line}", file=sys.stderr)
        return 1
