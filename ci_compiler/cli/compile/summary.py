"""`ci-compile summary`: the table at the end of a run, from the artifacts of its stages."""

from __future__ import annotations

import argparse
import os

from ci_compiler.cli.console import append_to
from ci_compiler.cli.where import branch_of, chosen_of, plan_of, root_of
from ci_compiler.reports.summary import SummarisedRun, table


def run(arguments: argparse.Namespace) -> int:
    """Appends the table to $GITHUB_STEP_SUMMARY, or prints it."""
    decided, chosen = plan_of(arguments), chosen_of(arguments)
    summarised = SummarisedRun(
        event=os.environ.get("GITHUB_EVENT_NAME", ""),
        ref=os.environ.get("GITHUB_REF_NAME", ""),
        publish=arguments.publish == "true",
    )
    branch = branch_of(arguments, decided.spec, root_of(arguments)) if chosen else ""
    text = table(decided, summarised, branch, chosen, arguments.results)
    if not append_to("GITHUB_STEP_SUMMARY", text):
        print(text, end="")
    return 0
