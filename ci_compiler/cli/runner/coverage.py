"""`ci-runner coverage`: whether a machine serves every label set of the compiled workflows."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ci_compiler.cli.console import append_to, note, print_rows
from ci_compiler.cli.pauses import pause_lines
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.runner.controller.runner_names import QUARANTINED
from ci_compiler.runner.coverage import UNSERVED, CoverageVerdict, LabelSet, Served, cover, label_sets
from ci_compiler.units import duration, markdown_text

if TYPE_CHECKING:
    from ci_compiler.github.client import Client
    from ci_compiler.github.workflows import DisabledWorkflow
    from ci_compiler.plan.pipeline import Plan

PATIENCE = 60.0
"""Seconds to wait before a second look at GitHub: between two jobs, a just-in-time runner is not registered."""


def run(arguments: argparse.Namespace) -> int:
    """Prints one verdict per label set; returns 1 if jobs would wait, as its runners are missing or offline.

    With `--live`, also if GitHub disabled a compiled workflow. What the environment's variable says is paused goes to
    the summary of a run, too.
    """
    decided = plan_of(arguments)
    for line in pause_lines(decided.spec, os.environ.get(PAUSE_VARIABLE, "")):
        note(line)
        append_to("GITHUB_STEP_SUMMARY", f"{markdown_text(line)}\n\n")
    asked = label_sets(decided)
    client = _client(arguments) if arguments.live else None
    sets: bool = arguments.scale_set_labels
    served = _live(client, asked, sets=sets) if client else cover(asked, None, scale_set_labels=sets)
    stopped = _disabled(client, decided) if client else ()
    live = ["online", "busy", "offline"] if arguments.live else []
    columns = ["labels", "pool", "verdict", "machines", *live, "jobs"]
    print_rows(
        [_as_json(one) for one in served], {name: name for name in columns}, as_json=arguments.json, states=["verdict"]
    )
    unserved = [one for one in served if one.verdict in UNSERVED]
    for one in unserved:
        who = "no runner serves" if one.verdict is CoverageVerdict.NOBODY else "no runner is online for"
        note(f"{one.asked}: {who} the {sum(one.asked.jobs.values())} jobs of pool {one.asked.pool}")
    for workflow in stopped:
        note(str(workflow))
    return 1 if unserved or stopped else 0


def _client(arguments: argparse.Namespace) -> Client:
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import

    return client_of(arguments, root_of(arguments))


def _disabled(client: Client, decided: Plan) -> tuple[DisabledWorkflow, ...]:
    """The disabled workflows; none, with a note, if the token may not read workflows."""
    from ci_compiler.github.errors import GitHubError, Trouble
    from ci_compiler.github.workflows import disabled

    try:
        return disabled(client, decided)
    except GitHubError as error:
        if error.trouble is not Trouble.FORBIDDEN:
            raise
        note(f"warning: {error.findings[0]}")
        return ()


def _live(client: Client, asked: tuple[LabelSet, ...], *, sets: bool) -> tuple[Served, ...]:
    """Raises GitHubError, also for the organisation's runners if only they could serve a label set."""
    from ci_compiler.github.inventory import inventory

    with progress("asking GitHub for the runners"):
        seen = inventory(client)
    for runner in seen.runners:
        if QUARANTINED in runner.labels:
            note(f"{runner.name}: a slot of its machine is in quarantine; the log of the machine's controller says why")
    served = cover(asked, seen.runners, scale_set_labels=sets)
    if any(one.verdict in UNSERVED for one in served):
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
