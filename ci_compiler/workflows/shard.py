"""The workflow of a shard: one job per cell, run by dispatch, by pushes to its branch's recipes, or on a schedule."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ci_compiler.plan.selection import ALL
from ci_compiler.plan.sharding import Shard, job_id, job_name
from ci_compiler.plan.sources import path_filters
from ci_compiler.spec.model import Spec
from ci_compiler.variant import cell_suffix, recipe_path, variant_name
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import CELL, CHOSEN, COMMIT, SELECT, VERDICT, expression, local
from ci_compiler.workflows.model import (
    CallJob,
    Concurrency,
    Input,
    OnDispatch,
    OnPush,
    OnSchedule,
    Trigger,
    UsesStep,
    Workflow,
)
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.steps import select_job, verdict_job

_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_MAY_PUBLISH = {
    True: expression("github.event_name == 'push' || inputs.publish == true"),
    False: expression("inputs.publish == true"),
}
"""Whether a run may publish, by whether pushes publish."""


def workflow(spec: Spec, shard: Shard) -> Workflow:
    """The workflow of `shard`."""
    publish = _MAY_PUBLISH[spec.publish.on_push]
    cells = _cells(spec, shard, publish)
    verdict = verdict_job(spec, "Verdict", [SELECT, *cells], chosen=CHOSEN, branch=shard.branch, publish=publish)
    head = expression(f"github.event_name == 'push' && github.sha || '{shard.branch}'")
    select = select_job(spec, f"--shard {shard.name}", "cells", ref=head, before=_backend(spec))
    group = [
        shard.name,
        expression("github.ref"),
        expression("inputs.variant || github.run_id"),
        expression("inputs.publish"),  # so that a run that does not publish never replaces one that does
    ]
    return Workflow(
        name=shard.title,
        run_name=f"{shard.title} ({expression('inputs.variant || github.event_name')})",
        on=list(_triggers(spec, shard)),
        concurrency=Concurrency(group="-".join(group), cancel_in_progress=False),
        jobs={SELECT: select, **cells, VERDICT: verdict},
    )


def _triggers(spec: Spec, shard: Shard) -> Iterator[Trigger]:
    yield OnDispatch(
        inputs={
            "variant": Input(description="What to build.", type="choice", default=ALL, options=[ALL, *shard.variants]),
            "publish": _switch(f"Publish what passes its tests (from {shard.branch} alone)."),
            "again": _switch("Publish even what shows as published (a changed recipe of the same version)."),
        }
    )
    yield OnPush(branches=[shard.branch], paths=_paths(spec, shard))
    if spec.schedule:
        days = ",".join(str(_DAYS[day]) for day in sorted(spec.schedule.days, key=_DAYS.__getitem__))
        minute, hour = _stagger(shard.name)
        yield OnSchedule(cron=f"{minute} {hour} * * {days}")


def _switch(description: str) -> Input:
    return Input(description=description, type="boolean", required=None, default=False)


def _paths(spec: Spec, shard: Shard) -> list[str]:
    """One pattern per package and Python, which matches the recipes of this shard and no others.

    Without recipes, the patterns of what its builds read.
    """
    if not spec.backend.has_recipes:
        return path_filters(spec, dict.fromkeys(one.package for cell, _ in shard.cells for one in cell.variants))
    found: dict[str, None] = {}
    for cell, _ in shard.cells:
        suffix = cell_suffix(python=cell.python, cuda=cell.cuda, gpu=cell.gpu, isa="*")
        for one in cell.variants:
            found[recipe_path(variant_name(one.package, suffix))] = None
    return list(found)


def _stagger(name: str) -> tuple[int, int]:
    """A minute (never on the hour, when GitHub is busiest) and an hour of the day, derived from the shard's name."""
    moment = zlib.crc32(name.encode()) % (24 * 57)
    return 2 + moment % 57, moment // 57


def _backend(spec: Spec) -> list[UsesStep]:
    """The step that installs the backend: a scheduled run may ask it which variants are published."""
    if spec.schedule is None or spec.schedule.build == "all" or not spec.backend.installer:
        return []
    on_schedule = expression("github.event_name == 'schedule'")
    return [UsesStep(name=f"Set up {spec.backend.title}", if_=on_schedule, uses=pinned(spec.backend.installer))]


def _cells(spec: Spec, shard: Shard, publish: str) -> dict[str, CallJob]:
    """The jobs of the cells. A fleet has thousands, so what several share is made once."""
    permissions, secrets = variant.build_permissions(spec), variant.secret_passed(spec)
    uses, again = local(CELL), expression("inputs.again == true")
    routes = {id(route): route for _, route in shard.cells}
    machines = {key: variant.machines(route) for key, route in routes.items()}
    return {
        job_id(cell): CallJob(
            name=job_name(cell),
            needs=SELECT,
            if_=expression(f"contains(fromJSON(needs.{SELECT}.outputs.cells), '{cell.suffix}')"),
            uses=uses,
            permissions=permissions,
            with_={
                "cell": cell.suffix,
                "chosen": CHOSEN,
                "branch": cell.branch,
                "commit": COMMIT,
                "publish": publish,
                "again": again,
                **machines[id(route)],
                **variant.neighbours(cell, route),
            },
            secrets=secrets,
        )
        for cell, route in shard.cells
    }
