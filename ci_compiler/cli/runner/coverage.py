"""`ci-runner coverage`: whether a machine serves every label set of the compiled workflows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from functools import partial
from typing import Any

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, note, print_rows
from ci_compiler.cli.pauses import pause_lines
from ci_compiler.cli.progress import progress
from ci_compiler.cli.remote import client_of, workflow_client_of
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.inventory import inventory
from ci_compiler.github.issues import keep_issue
from ci_compiler.github.workflows import DisabledWorkflow, disabled
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.plan.pipeline import Plan
from ci_compiler.runner.coverage import PATIENCE, UNSERVED, LabelSet, Served, cover, label_sets
from ci_compiler.runner.watch import MARKER, TITLE, issue_body, look, quarantined, report_text, unserved
from ci_compiler.units import duration, markdown_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--live", action="store_true", help="ask GitHub which runners are registered now")
    parser.add_argument(
        "--scale-set-labels", action="store_true", help="the pools with labels are runner scale sets too"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="as --live, and ask which jobs wait for too long and which machines and scale sets are missing",
    )
    parser.add_argument(
        "--issue", action="store_true", help="as --watch, and open, update or close an issue about what is found"
    )
    options.shared(parser, "json", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints one verdict per label set; returns 1 if jobs would wait, as its runners are missing or offline.

    With `--live`, also if GitHub disabled a compiled workflow; with `--watch`, also if a job waits for too long. What
    the environment's variable says is paused goes to the summary of a run, too.
    """
    decided = plan_of(arguments)
    for line in pause_lines(decided.spec, os.environ.get(PAUSE_VARIABLE, "")):
        note(line)
        append_to("GITHUB_STEP_SUMMARY", f"{markdown_text(line)}\n\n")
    if arguments.watch or arguments.issue:
        return _watch(arguments, decided)
    asked = label_sets(decided)
    client = client_of(arguments, root_of(arguments)) if arguments.live else None
    sets: bool = arguments.scale_set_labels
    served = _live(client, asked, sets=sets) if client else cover(asked, None, scale_set_labels=sets)
    stopped = _disabled(client, decided) if client else ()
    _print(served, live=arguments.live, as_json=arguments.json)
    missing = [unserved(label_set) for label_set in served if label_set.verdict in UNSERVED]
    for problem in (*map(str, missing), *map(str, stopped)):
        note(problem)
    return 1 if missing or stopped else 0


def _watch(arguments: argparse.Namespace, decided: Plan) -> int:
    """Prints everything that the tokens may see, and keeps the issue if that is asked for; returns 1 if jobs are lost.

    What they may not see is printed, and is no failure.
    """
    own = workflow_client_of(arguments, root_of(arguments))
    client = client_of(arguments, root_of(arguments))
    served, report = look(client, own, decided, scale_set_labels=arguments.scale_set_labels, say=note)
    _print(served, live=True, as_json=arguments.json)
    for remark in report.problems:
        note(f"{remark}; {remark.url}" if remark.url else str(remark))
    for unseen in report.unseen:
        note(f"not seen: {unseen}")
    append_to("GITHUB_STEP_SUMMARY", f"{report_text(report)}\n\n")
    if arguments.issue:
        kept, url = keep_issue(own, MARKER, TITLE, partial(issue_body, report))
        note(f"issue: {kept}" + (f"; {url}" if url else ""))
    return 1 if any(not remark.harmless for remark in report.problems) else 0


def _print(served: Iterable[Served], *, live: bool, as_json: bool) -> None:
    seen = ["online", "busy", "offline"] if live else []
    columns = ["labels", "pool", "verdict", "machines", *seen, "jobs"]
    rows = [_as_json(label_set) for label_set in served]
    print_rows(rows, {name: name for name in columns}, as_json=as_json, states=["verdict"])


def _disabled(client: Client, decided: Plan) -> tuple[DisabledWorkflow, ...]:
    """The disabled workflows; none, with a note, if the token may not read workflows."""
    try:
        return disabled(client, decided)
    except GitHubError as error:
        if error.trouble is not Trouble.FORBIDDEN:
            raise
        note(f"warning: {error.findings[0]}")
        return ()


def _live(client: Client, asked: tuple[LabelSet, ...], *, sets: bool) -> tuple[Served, ...]:
    """Raises GitHubError, also for the organisation's runners if only they could serve a label set."""
    with progress("asking GitHub for the runners"):
        seen = inventory(client)
    for slot in quarantined(seen.runners):
        note(str(slot))
    served = cover(asked, seen.runners, scale_set_labels=sets)
    if any(label_set.verdict in UNSERVED for label_set in served):
        if seen.unseen is not None:
            raise seen.unseen
        note(
            f"no runner is online for a label set; asking again in {duration(PATIENCE)}, as one may be between two jobs"
        )
        client.clock.sleep(PATIENCE)
        served = cover(asked, inventory(client).runners, scale_set_labels=sets)
    elif seen.unseen is not None:
        note(f"warning: {seen.unseen.findings[0]}")
    return served


def _as_json(one: Served) -> dict[str, Any]:
    online = [runner for runner in one.runners if runner.online]
    return {
        "labels": str(one.asked),
        "pool": one.asked.pool,
        "verdict": one.verdict.value,
        "machines": one.asked.machines,
        "online": len(online),
        "busy": sum(runner.busy for runner in online),
        "offline": len(one.runners) - len(online),
        "jobs": sum(one.asked.jobs.values()),
        "stages": {stage.name: count for stage, count in one.asked.jobs.items()},
    }
