"""The workflows that start the runs of profiles: `push-batch.yml`, `nightly.yml` and `release.yml`.

What a push starts and what the clock starts stand in different files. In a public repository without activity for 60
days, GitHub disables a workflow file that has a schedule, with all of its triggers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.spec.model import Spec
from ci_compiler.spec.triggers import NIGHTLY, PUSH, RELEASE
from ci_compiler.workflows.common import NIGHTLY_FILE, PUSH_BATCH, RELEASE_FILE, one_at_a_time
from ci_compiler.workflows.model import RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.tasks import MAY_START, TOKEN, at_times, cron
from ci_compiler.workflows.writer import Node

_PERIODS = {
    "15m": "7-52/15 *",
    "30m": "7,37 *",
    "60m": "17 *",
    "2h": "17 */2",
    "4h": "17 */4",
    "6h": "17 */6",
    "12h": "17 */12",
}
"""The minute and hour of a cron entry for the periods of `batch`. On the hour, GitHub is busiest."""


def workflows(spec: Spec) -> Iterator[tuple[str, Workflow]]:
    """Those that the spec's profiles ask for, by their files' names."""
    profiles = spec.profiles
    if profiles.push.batch:
        yield PUSH_BATCH, _starts(spec, PUSH, {"schedule": [cron(_PERIODS[profiles.push.batch])]})
    if profiles.nightly:
        yield NIGHTLY_FILE, _starts(spec, NIGHTLY, {"schedule": [at_times(profiles.nightly.schedule)]})
    if profiles.release:
        yield RELEASE_FILE, _starts(spec, RELEASE, {"push": {"tags": list(profiles.release.tags)}})


def _starts(spec: Spec, profile: str, on: dict[str, Node]) -> Workflow:
    """The workflow that starts the runs of `profile`. They are compared with what is checked out, and with its tags."""
    start = RunStep(name=f"Start the runs of the profile {profile}", env=TOKEN, run=f"ci-compile start {profile}")
    steps = [checkout(history=True), SETUP, start]
    return Workflow(
        name=f"{profile} profile",
        on={**on, "workflow_dispatch": None},
        concurrency=one_at_a_time(f"start-{profile}"),
        jobs={"start": hosted_job(spec, "Start", minutes=30, permissions=MAY_START, steps=steps)},
    )
