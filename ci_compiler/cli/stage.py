"""How the commands of the stages run: SIGTERM ends them in order, and failures are printed on standard error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path

from ci_compiler.cli.console import print_findings
from ci_compiler.cli.where import branch_of, chosen_of, root_of, spec_of
from ci_compiler.errors import InputError, StageError
from ci_compiler.git import Git
from ci_compiler.outside import bytes_of, object_of
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.process import ending_in_order
from ci_compiler.runner.jobs.manifest import read_manifest
from ci_compiler.runner.jobs.needed import Offered
from ci_compiler.runner.jobs.reproduce import commands, report_failure
from ci_compiler.runner.jobs.setting import Secrets, taking_secrets
from ci_compiler.runner.targets import find


def reported(work: Callable[[argparse.Namespace, Secrets], int]) -> Callable[[argparse.Namespace], int]:
    """The command for `work`, which gets the publishing secrets; the programs that it starts inherit none.

    Its exit code is 1 if the stage failed; then the findings and the end of the log are printed.
    """

    @wraps(work)
    def run(arguments: argparse.Namespace) -> int:
        try:
            with ending_in_order(), taking_secrets(_declared(arguments)) as secrets:
                return work(arguments, secrets)
        except StageError as error:
            sys.stdout.flush()
            print_findings(error.findings)
            for line in error.tail:
                print(f"    {line}", file=sys.stderr)
            return 1

    return run


def _declared(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The names of secrets in the spec, which is read once; none if it cannot be read, which `work` then says."""
    with suppress(InputError):
        arguments.known_spec = spec = spec_of(arguments)
        return spec.publishing_secrets
    return ()


def reproducible(
    logs: Sequence[str], test: Callable[[argparse.Namespace], str] = lambda _: ""
) -> Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]:
    """The decorator of a command whose failure ends with the error in its log and the commands that reproduce it.

    `logs` are the names of the logs in the folder `--out`, as patterns, and `test` is the command that follows the
    build. An input error has no such end: nothing ran, and its message is all that there is.
    """

    def decorate(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
        @wraps(run)
        def whole(arguments: argparse.Namespace) -> int:
            code = run(arguments)
            if code:
                _report(arguments, logs, test(arguments))
            return code

        return whole

    return decorate


def _report(arguments: argparse.Namespace, logs: Sequence[str], test: str) -> None:
    """Shows how to reproduce a failure, unless the variant is unknown or was not built here (`--python`)."""
    manifest: Path | None = getattr(arguments, "manifest", None)
    if test and not manifest:
        return
    with suppress(InputError, StageError):
        spec, root = spec_of(arguments), root_of(arguments)
        own = read_manifest(manifest).branch if manifest else ""
        branch = getattr(arguments, "branch", None) or own or branch_of(arguments, spec, root)
        built = find(spec, arguments.name, branch)
        commit = ""
        with suppress(InputError):
            commit = Git(root).resolve("HEAD")
        found = [path for log in logs for path in sorted(arguments.out.glob(log))]
        report_failure(arguments.name, [*commands(spec, built, commit, test)], found)


def offered_to(built: BuiltVariant, arguments: argparse.Namespace) -> Offered:
    """The outputs of other builds that the options of a command offer `built`. Raises InputError."""
    if arguments.chosen is None:
        return Offered(arguments.needs)
    from ci_compiler.runner.jobs.publish_run import reported_to  # few builds need others

    chosen, legs = (chosen_of(arguments, option).get("", []) for option in ("chosen", "legs"))
    return Offered(arguments.needs, chosen, reported_to(built, arguments.reported), legs)


def wants_again(arguments: argparse.Namespace) -> bool:
    """Whether tests that passed before run again: by `--again`, or by `again` in the form of the run's dispatch.

    The event of a dispatch has the values of its form as `inputs`; jobs of called workflows see the same event.
    """
    if arguments.again:
        return True
    try:
        event = object_of(bytes_of(os.environ.get("GITHUB_EVENT_PATH", "")))
        return str(event["inputs"]["again"]).lower() == "true"
    except (OSError, ValueError, KeyError, TypeError):
        return False
