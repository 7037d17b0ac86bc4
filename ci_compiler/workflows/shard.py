"""The workflow of a shard: one job per cell, run by dispatch, by pushes to its branch's recipes, or on a schedule."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

from ci_compiler.hardware import BASELINE
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.selection import ALL
from ci_compiler.plan.sharding import Shard, job_id, job_name
from ci_compiler.plan.sources import path_filters
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.variant import RECIPES, recipe_path, variant_name
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import CELL, CHOSEN, COMMIT, SELECT, VARIANT, VERDICT, expression, local
from ci_compiler.workflows.model import CallJob, UsesStep, Workflow, action_step, input_node
from ci_compiler.workflows.steps import select_job, verdict_job
from ci_compiler.workflows.writer import Node

_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_MAY_PUBLISH = {
    True: expression("github.event_name == 'push' || inputs.publish == true"),
    False: expression("inputs.publish == true"),
}
"""Whether a run may publish, by whether pushes publish."""


def workflow(spec: Spec, shard: Shard) -> Workflow:
    """The workflow of `shard`."""
    publish = _MAY_PUBLISH[spec.publish.on_push] if spec.branches[shard.branch].publish else "false"
    cells = _cells(spec, shard, publish)
    verdict = verdict_job(spec, "Verdict", [SELECT, *cells], chosen=CHOSEN, branch=shard.branch, publish=publish)
    select = select_job(spec, f"--shard {shard.name}", "cells", ref=_commit(spec, shard), before=_backend(spec))
    group = [
        shard.name,
        expression("github.ref"),
        expression("inputs.variant || github.run_id"),
        expression("inputs.publish"),  # so that a run that does not publish never replaces one that does
    ]
    return Workflow(
        name=shard.title,
        run_name=f"{shard.title} ({expression('inputs.variant || github.event_name')})",
        on=_triggers(spec, shard),
        concurrency={"group": "-".join(group), "cancel-in-progress": False},
        jobs={SELECT: select, **cells, VERDICT: verdict},
    )


def _commit(spec: Spec, shard: Shard) -> str:
    """What a run builds: the commit of a push, or that of a dispatch on a branch that the spec does not have.

    The latter builds the code of a pull request; publishing refuses the ref. Any other run builds the shard's branch.
    """
    branches = json.dumps(list(spec.branches))
    dispatched = f"github.event_name == 'workflow_dispatch' && !contains(fromJSON('{branches}'), github.ref_name)"
    return expression(f"(github.event_name == 'push' || {dispatched}) && github.sha || '{shard.branch}'")


def _triggers(spec: Spec, shard: Shard) -> dict[str, Node]:
    inputs: dict[str, Node] = {
        "variant": input_node("What to build.", "choice", default=ALL, options=[ALL, *shard.variants]),
    }
    if spec.branches[shard.branch].publish:
        inputs["publish"] = _switch(f"Publish what passes its tests (from {shard.branch} alone).")
        inputs["again"] = _switch("Publish even what shows as published (a changed recipe of the same version).")
    triggers: dict[str, Node] = {
        "workflow_dispatch": {"inputs": inputs},
        "push": {"branches": [shard.branch], "paths": _paths(spec, shard)},
    }
    if spec.schedule:
        days = ",".join(str(_DAYS[day]) for day in sorted(spec.schedule.days, key=_DAYS.__getitem__))
        minute, hour = _stagger(shard.name)
        triggers["schedule"] = [{"cron": f"{minute} {hour} * * {days}"}]
    return triggers


def _switch(description: str) -> Node:
    return {"description": description, "type": "boolean", "default": False}


def _paths(spec: Spec, shard: Shard) -> list[str]:
    """The patterns of the recipes of this shard: one per package and Python, and one per name without an ISA.

    Recipes that the repository writes itself may also be folders. Then what the packages' recipes read: a path matches
    the file, and with `/**` what is in the folder. Without recipes, the patterns are those of what its builds read.
    """
    if not spec.backend.has_recipes:
        return path_filters(spec, dict.fromkeys(one.package for cell, _ in shard.cells for one in cell.variants))
    found: dict[str, None] = {}
    packages: dict[str, None] = {}
    for cell, _ in shard.cells:
        any_isa = replace(cell, isa=cell.isa if cell.isa == BASELINE else "*").suffix
        for one in cell.variants:
            name = cell.listed or variant_name(one.package, any_isa)
            found[recipe_path(name)] = None
            if spec.packages[one.package].kind_of(one.name) is RecipeKind.OWN:
                found[f"{RECIPES}/{name}/**"] = None
            packages[one.package] = None
    for package in map(spec.packages.__getitem__, packages):
        found |= {pattern: None for path in package.shared for pattern in (path, f"{path}/**")}
        found |= dict.fromkeys(package.overlays)
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
    return [action_step(f"Set up {spec.backend.title}", spec.backend.installer, if_=on_schedule)]


def _cells(spec: Spec, shard: Shard, publish: str) -> dict[str, CallJob]:
    """The jobs of the cells. A fleet has thousands, so what several share is made once."""
    permissions, secrets = variant.build_permissions(spec), variant.secret_passed(spec)
    publishes = spec.branches[shard.branch].publish
    shared: dict[str, Node] = {
        "branch": shard.branch,
        "commit": COMMIT,
        "publish": publish if publishes else False,
        "again": expression("inputs.again == true") if publishes else False,
    }
    routes = {id(route): route for _, route in shard.cells}
    machines = {key: variant.machines(route) for key, route in routes.items()}
    return {
        job_id(cell): CallJob(
            name=job_name(cell),
            needs=SELECT,
            if_=expression(f"contains(fromJSON(needs.{SELECT}.outputs.cells), '{cell.suffix}')"),
            uses=_CALLED[bool(cell.listed)],
            permissions=permissions,
            with_={**_subject(spec, cell), **shared, **machines[id(route)], **variant.neighbours(cell, route)},
            secrets=secrets,
        )
        for cell, route in shard.cells
    }


_CALLED = {False: local(CELL), True: local(VARIANT)}
"""The workflow that builds a cell, by whether the cell is that of a listed variant."""


def _subject(spec: Spec, cell: Cell) -> dict[str, Node]:
    if not cell.listed:
        return {"cell": cell.suffix, "chosen": CHOSEN}
    return {"name": cell.listed, **variant.package_values(spec, spec.packages[cell.variants[0].package])}
