"""How the commands of the stages run: SIGTERM ends them in order, and failures are printed on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ci_compiler.cli.console import print_findings
from ci_compiler.errors import StageError
from ci_compiler.process import ending_in_order
from ci_compiler.runner.jobs.setting import Secrets, taking_secrets


def reported(work: Callable[[Secrets], int]) -> int:
    """The exit code of `work`, which gets the publishing secrets; the programs that it starts inherit none.

    It is 1 if the stage failed; then the findings and the end of the log are printed.
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
