"""The workflow of a shard: a job a cell, started by its form, by pushes to its branch's recipes, or by the clock."""

from __future__ import annotations

import json
import zlib
from functools import lru_cache

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard, job_id, job_name, stages_of
from ci_compiler.spec.model import Backend, RunsOn, Spec
from ci_compiler.variant import RECIPES
from ci_compiler.workflows.cell import permissions
from ci_compiler.workflows.common import (
    CELL,
    READ,
    VERDICT,
    checkout,
    expression,
    local,
    machine_input,
    runs_on,
    setup,
    verdict_job,
)
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.variant import secret_passed
from ci_compiler.workflows.writer import Node, Spaced

ALL = "all"
"""The choice of the dispatch form that builds the whole shard."""

SELECT = "select"

_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}


def workflow(spec: Spec, shard: Shard) -> dict[str, Node]:
    """The document of `shard`'s file."""
    granted = permissions(spec)
    cells = {job_id(cell): _cell(spec, cell, route, granted) for cell, route in shard.cells}
    publish = _MAY_PUBLISH[spec.publish.on_push]
    verdict = verdict_job(spec, "Verdict", [SELECT, *cells], select=SELECT, branch=shard.branch, publish=publish)
    return {
        "name": shard.title,
        "run-name": f"{shard.title} ({expression('inputs.variant || github.event_name')})",
        "on": _triggers(spec, shard),
        "permissions": {},
        "concurrency": {
            "group": "-".join(
                [
                    shard.name,
                    expression("github.ref"),
                    expression("inputs.variant || github.run_id"),
                    expression("inputs.publish"),  # lest one that publishes nothing takes the place of one that does
                ]
            ),
            "cancel-in-progress": False,
        },
        "jobs": Spaced({SELECT: _select(spec, shard), **cells, VERDICT: verdict}),
    }


def _triggers(spec: Spec, shard: Shard) -> dict[str, Node]:
    variant: dict[str, Node] = {
        "description": "What to build.",
        "type": "choice",
        "required": True,
        "default": ALL,
        "options": [ALL, *shard.variants],
    }
    publish: dict[str, Node] = {
        "description": f"Publish what passes its tests (from {shard.branch} alone).",
        "type": "boolean",
        "default": False,
    }
    again: dict[str, Node] = {
        "description": "Publish even what shows as published (a changed recipe of the same version).",
        "type": "boolean",
        "default": False,
    }
    triggers: dict[str, Node] = {
        "workflow_dispatch": {"inputs": {"variant": variant, "publish": publish, "again": again}},
        "push": {"branches": [shard.branch], "paths": _paths(shard)},
    }
    if spec.schedule:
        days = ",".join(str(_DAYS[day]) for day in sorted(spec.schedule.days, key=_DAYS.__getitem__))
        minute, hour = _stagger(shard.name)
        triggers["schedule"] = [{"cron": f"{minute} {hour} * * {days}"}]
    return triggers


def _paths(shard: Shard) -> list[str]:
    """A pattern of recipes a package and Python: the shard's own, and no other's."""
    found: dict[str, None] = {}
    for cell, _ in shard.cells:
        tail = cell.suffix.removesuffix(cell.isa)
        for variant in cell.variants:
            found[f"{RECIPES}/{variant.package}-{tail}*.nix"] = None
    return list(found)


def _stagger(name: str) -> tuple[int, int]:
    """A minute (never the crowded full hour) and an hour of the day, by the shard's own name."""
    moment = zlib.crc32(name.encode()) % (24 * 57)
    return 2 + moment % 57, moment // 57


def _select(spec: Spec, shard: Shard) -> dict[str, Node]:
    head = expression(f"github.event_name == 'push' && github.sha || '{shard.branch}'")
    return {
        "name": "Select",
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": dict(READ),
        "outputs": {key: expression(f"steps.choose.outputs.{key}") for key in ("commit", "chosen", "cells")},
        "steps": [
            checkout(head, history=True),
            setup(),
            *_what_knows_the_published(spec),
            {"name": "Choose the variants", "id": "choose", "run": f"ci-compile choose --shard {shard.name}"},
        ],
    }


_INSTALLER = {Backend.FLOX: "flox/install-flox-action", Backend.NIX: "cachix/install-nix-action"}


def _what_knows_the_published(spec: Spec) -> list[dict[str, Node]]:
    """The step that a scheduled run needs to ask what is published already, if it leaves that out."""
    if spec.schedule is None or spec.schedule.build == "all":
        return []
    on_schedule = expression("github.event_name == 'schedule'")
    return [{"name": f"Set up {spec.backend.title()}", "if": on_schedule, "uses": pinned(_INSTALLER[spec.backend])}]


def _cell(spec: Spec, cell: Cell, route: Route, granted: dict[str, str]) -> dict[str, Node]:
    return {
        "name": job_name(cell),
        "needs": SELECT,
        "if": expression(f"contains(fromJSON(needs.{SELECT}.outputs.cells), '{cell.suffix}')"),
        "uses": local(CELL),
        "permissions": granted,
        "with": {
            "cell": cell.suffix,
            "chosen": expression(f"needs.{SELECT}.outputs.chosen"),
            "branch": cell.branch,
            "commit": expression(f"needs.{SELECT}.outputs.commit"),
            "publish": _MAY_PUBLISH[spec.publish.on_push],
            "again": expression("inputs.again == true"),
            **machines(spec, route),
        },
        "secrets": secret_passed(spec),
    }


_MAY_PUBLISH = {
    True: expression("github.event_name == 'push' || inputs.publish == true"),
    False: expression("inputs.publish == true"),
}


def machines(spec: Spec, route: Route) -> dict[str, Node]:
    """The input of each stage that says where it runs, as JSON; a stage that no pool runs has none."""
    wanted = [stage for stage in stages_of(spec) if stage in route.pools]
    return {machine_input(stage): runs_on_json(route.pools[stage].runs_on) for stage in wanted}


@lru_cache(maxsize=1024)
def runs_on_json(where: RunsOn) -> str:
    """`where` as JSON for `fromJSON` behind `runs-on`."""
    return json.dumps(runs_on(where))
