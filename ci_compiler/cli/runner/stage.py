"""How the commands of the stages run: SIGTERM ends them in order, and failures are printed on standard error."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from ci_compiler.cli.console import print_findings
from ci_compiler.errors import StageError
from ci_compiler.process import ending_in_order
from ci_compiler.runner.jobs.setting import Secrets, taking_secrets


def reported(work: Callable[[argparse.Namespace, Secrets], int]) -> Callable[[argparse.Namespace], int]:
    """The command for `work`, which gets the publishing secrets; the programs that it starts inherit none.

    Its exit code is 1 if the stage failed; then the findings and the end of the log are printed.
    """

    @wraps(work)
    def run(arguments: argparse.Namespace) -> int:
        try:
            with ending_in_order(), taking_secrets() as secrets:
                return work(arguments, secrets)
        except StageError as error:
            sys.stdout.flush()
            print_findings(error.findings)
            for line in error.tail:
                print(f"    {line}", file=sys.stderr)
            return 1

    return run


def wants_again(arguments: argparse.Namespace) -> bool:
    """Whether tests that passed before run again: by `--again`, or by `again` in the form of the run's dispatch.

    The event of a dispatch has the values of its form as `inputs`; jobs of called workflows see the same event.
    """
    if arguments.again:
        return True
    try:
        event = json.loads(Path(os.environ.get("GITHUB_EVENT_PATH", "")).read_text("utf-8"))
        return str(event["inputs"]["again"]).lower() == "true"
    except (OSError, ValueError, KeyError, TypeError):
        return False
