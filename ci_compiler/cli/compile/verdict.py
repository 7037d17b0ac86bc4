"""`ci-compile verdict`: whether the failures of a run are those that the spec expects."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, print_findings
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import branch_of, chosen_of, root_of
from ci_compiler.clock import Clock, day_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.github.status import run_jobs
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.verdict import EndedRun, judged_run
from ci_compiler.spec.revision import base_spec
from ci_compiler.units import markdown_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "artifacts", "of-run")
    parser.add_argument(
        "--ended", metavar="WORDS", default="", help="how the jobs that the verdict needs ended, separated by blanks"
    )
    parser.add_argument("--run-id", metavar="N", required=True, help="the id of the run")
    options.shared(parser, "branch", "repository", "root")


def run(arguments: argparse.Namespace) -> int:
    """Prints the failures that are expected, in the summary of the run too; returns 1 if there is any other.

    Raises InputError for a wrong spec or option, and GitHubError.
    """
    if not arguments.run_id.isdecimal():
        raise wrong("--run-id", Code.WRONG_VALUE, f"{arguments.run_id!r} is not the id of a run, a number")
    chosen, root = chosen_of(arguments), root_of(arguments)
    decided = plan(base_spec(root, "HEAD"))  # an artifact of the run may have replaced the file
    own = chosen.pop("", None)
    if own is not None:
        chosen[branch_of(arguments, decided.spec, root)] = own
    ended = EndedRun(
        chosen=chosen,
        by_branch=own is None,
        ended=arguments.ended.split(),
        jobs=run_jobs(client_of(arguments, root), int(arguments.run_id)),
        results=arguments.results,
    )
    verdict = judged_run(decided, ended, day_of(Clock().now()))
    for line in verdict.expected:
        print(line)
    lines = [*verdict.expected, *map(str, verdict.findings)]
    append_to("GITHUB_STEP_SUMMARY", "".join(f"- {markdown_text(line)}\n" for line in lines) + "\n")
    print_findings(verdict.findings)
    return 1 if verdict.findings else 0
