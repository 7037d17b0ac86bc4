"""`ci-compile summary`: the table at the end of a run, from the artifacts of its stages."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, print_findings
from ci_compiler.cli.where import branch_of, chosen_of, event_of_run, plan_of, root_of
from ci_compiler.clock import Clock, day_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.files.atomic import write_text
from ci_compiler.plan.expected import dated_findings
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import profile_of
from ci_compiler.reports.summary import REQUESTS, SummarisedRun, complete, table, unbuilt_request, unfinished
from ci_compiler.spec.model import Spec
from ci_compiler.units import markdown_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "artifacts", "of-run")
    parser.add_argument("--publish", metavar="BOOL", default="", help="`true` if publishing was requested")
    parser.add_argument("--note", metavar="FILE", type=options.path, help="write to this file what the run completed")
    options.shared(parser, "branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Appends the table to $GITHUB_STEP_SUMMARY, or prints it. Returns 1 if a stage of a chosen variant never ran.

    In place of the table of a request of which no machine builds anything, it says so.
    """
    decided, chosen = plan_of(arguments), chosen_of(arguments)
    if unbuilt := _unbuilt(decided.spec, chosen):
        print_findings([unbuilt])
        _show(f"{markdown_text(unbuilt.message)}.\n")
        return 1
    summarised = SummarisedRun(
        event=os.environ.get("GITHUB_EVENT_NAME", ""),
        ref=os.environ.get("GITHUB_REF_NAME", ""),
        publish=arguments.publish == "true",
        profile=_profile(decided.spec),
    )
    if own := chosen.pop("", []):
        chosen[branch_of(arguments, decided.spec, root_of(arguments))] = own
    parts = {branch: table(decided, summarised, branch, names, arguments.results) for branch, names in chosen.items()}
    titled = len(parts) > 1
    text = "\n".join(f"### {markdown_text(branch)}\n\n{part}" if titled else part for branch, part in parts.items())
    text = text or table(decided, summarised, "", [], arguments.results)
    findings = tuple(dated_findings(decided.spec, day_of(Clock().now())))
    print_findings(findings)
    text += "\n" * bool(findings) + "".join(f"- {markdown_text(str(finding))}\n" for finding in findings)
    _show(text)
    reports = (unfinished(decided, summarised, branch, names, arguments.results) for branch, names in chosen.items())
    missing = [finding for report in reports for finding in report]
    if arguments.chosen == "":
        message = "is empty: what the run chose is lost, or was never chosen; re-run all jobs"
        missing.append(Finding(place=Place(file="--chosen"), code=Code.VARIANT_UNFINISHED, message=message))
    print_findings(missing)
    if arguments.note and not missing and not decided.spec.profiles.left_out(summarised.profile):
        _note(arguments.note, decided, summarised, chosen, arguments.results)
    return 1 if missing else 0


def _unbuilt(spec: Spec, chosen: Mapping[str, Sequence[str]]) -> Finding | None:
    if os.environ.get("GITHUB_EVENT_NAME") not in REQUESTS:
        return None
    return unbuilt_request(spec, event_of_run(), sum(map(len, chosen.values())))


def _show(text: str) -> None:
    if not append_to("GITHUB_STEP_SUMMARY", text):
        print(text, end="")


def _profile(spec: Spec) -> str:
    """The profile that the run is of, where profiles leave tests out; '' for none."""
    return profile_of(event_of_run()) if spec.profiles.leaves_tests_out else ""


def _note(path: Path, decided: Plan, run: SummarisedRun, chosen: Mapping[str, Sequence[str]], results: Path) -> None:
    """Writes the file that states what the run completed, if it completed anything."""
    found = {branch: [*complete(decided, run, branch, names, results)] for branch, names in chosen.items()}
    if any(found.values()):
        write_text(path, f"{json.dumps({'publish': run.publish, 'variants': found})}\n")
