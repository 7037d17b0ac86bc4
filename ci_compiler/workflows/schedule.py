"""`schedule.yml`: starts the scheduled builds of all shards.

It exists if the spec has `schedule`. In a public repository without activity for 60 days, GitHub disables a workflow
file that has a schedule, with all of its triggers. So the schedule has a file of its own, and the shards stay enabled.
"""

from __future__ import annotations

from collections.abc import Iterable

from ci_compiler.spec.model import Spec
from ci_compiler.spec.triggers import Schedule
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.waves import MAY_START
from ci_compiler.workflows.writer import Node

_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}


def workflow(spec: Spec, schedule: Schedule) -> Workflow:
    """`schedule.yml`."""
    start = RunStep(
        name="Start the shards in waves",
        env={"GITHUB_TOKEN": expression("github.token")},
        run=f"ci-compile dispatch --{schedule.build} --waves",
    )
    job = hosted_job(spec, "Start", permissions=MAY_START, steps=[checkout(), SETUP, start])
    return Workflow(
        name="schedule",
        on={"schedule": [_entry(schedule)], "workflow_dispatch": None},
        concurrency={"group": "schedule", "cancel-in-progress": False},
        jobs={"start": job},
    )


def cron_days(days: Iterable[str]) -> str:
    """The last field of a cron expression: the days of the week, which the spec names, as numbers."""
    return ",".join(str(_DAYS[day]) for day in sorted(days, key=_DAYS.__getitem__))


def _entry(schedule: Schedule) -> dict[str, Node]:
    """The entry of the trigger; the time zone is left out if it is GitHub's default, UTC."""
    hour, minute = map(int, schedule.at.split(":"))
    zone: dict[str, Node] = {} if schedule.timezone == "UTC" else {"timezone": schedule.timezone}
    return {"cron": f"{minute} {hour} * * {cron_days(schedule.days)}", **zone}
