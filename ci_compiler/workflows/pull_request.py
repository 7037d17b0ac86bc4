"""`pull-request.yml`: the checks of every pull request and of every merge group, with one verdict to require.

Hosted machines check that the files are as compiled and that the recipes are sound, and show what the change means.
The recipes that the change affects are also evaluated with the true nixpkgs, in limits of time and memory.
After these checks, the cells that the change affects are built from a matrix made at run time, for branches of the
repository itself and never for forks. A change of the spec on the default branch affects other branches too: their
cells are built from the tree that `sync` would commit there. There are no path filters, because a check that a filter
skips cannot be required. A pull request into a branch that the spec does not have starts nothing.

A fork of the repository has the workflow too. A pull request within it gets the hosted checks and a verdict, and builds
nothing, as there are no machines (`common.in_own_repository`).

A merge queue tests a merge group, which is a branch of the repository itself: only who may write to the repository can
add a pull request to the queue. What the request has built is in the cache by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ci_compiler.plan.joins import cells_by_build
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.sharding import cell_packages, joins_any, lists_any
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import called, compiler_cache
from ci_compiler.workflows.common import (
    CELL,
    COMMIT,
    FORK_GUARD,
    JOINED,
    SELECT,
    VARIANT,
    VERDICT,
    expression,
    for_each,
    in_own_repository,
    local,
)
from ci_compiler.workflows.joined import values as joined_values
from ci_compiler.workflows.model import READ, CallJob, Job, RunStep, Step, Workflow
from ci_compiler.workflows.steps import (
    FETCH_RESULTS,
    RESULTS,
    SET_UP_NIX,
    SETUP,
    checkout,
    hosted_job,
    select_job,
    verdict_job,
)
from ci_compiler.workflows.writer import Remarked

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.selection import RunSelection

CELLS, LISTED, JOINED_BUILDS = "cells", "listed", "joined"
"""The jobs that build the affected cells, the affected variants that fit no axis, and the builds of several variants.
"""

COMMENT = "comment"
"""The job that keeps the comment."""

BASE = expression("github.event.pull_request.base.sha || github.event.merge_group.base_sha")
"""The commit that a pull request, or a merge group, is to be merged into."""

BASE_REF = expression("github.base_ref || github.event.merge_group.base_ref")
"""The branch of that commit: its name, or its whole ref for a merge group
(https://docs.github.com/webhooks/webhook-events-and-payloads#merge_group).
"""

BRANCH = '"${BASE_REF#refs/heads/}"'
"""The branch's name, in a script."""

CHECK = "Pull request verdict"
"""The check to require. Rulesets know a check by its job's name, so no other workflow has a job of this name."""


def workflow(spec: Spec) -> Workflow:
    """`pull-request.yml`."""
    compare = RunStep(name="Compile and compare", run=f"ci-compile --check --diff --branch {BRANCH}")
    audit = RunStep(name="Audit", run=f'ci-compile audit . --branch {BRANCH} --nixpkgs real --since "$BASE"')
    diff = RunStep(
        name="Compare with the base", continue_on_error=True, run='ci-compile diff "$BASE" >> "$GITHUB_STEP_SUMMARY"'
    )
    outputs = ({"matrix": CELLS} if cell_packages(spec) else {}) | ({LISTED: LISTED} if lists_any(spec) else {})
    outputs |= {JOINED_BUILDS: JOINED_BUILDS} if joins_any(spec) else {}
    checks = {"compiled": _hosted(spec, "Files are as compiled", [compare])}
    if spec.backend.has_recipes:
        checks["recipes"] = _hosted(spec, "Recipes are sound", [SET_UP_NIX, audit])
    jobs: dict[str, Job | CallJob] = {
        **checks,
        "meaning": _hosted(spec, "What the change means", [diff]),
        SELECT: select_job(spec, "--pull-request", *outputs, in_forks=True),
        **{name: _calls(spec, name, output, [SELECT, *checks]) for output, name in outputs.items()},
    }
    chosen = expression(f"{_may_build(spec)} && needs.{SELECT}.outputs.chosen || '{{}}'")
    verdict = verdict_job(spec, CHECK, list(jobs), chosen=chosen, publish="false")
    comment = {COMMENT: _comment(spec, [*jobs, VERDICT])} if spec.pull_request.comment else {}
    return Workflow(
        name="pull request",
        on={
            "pull_request": {"branches": list(spec.branches)},
            "merge_group": {"types": ["checks_requested"], "branches": list(spec.branches)},
        },
        concurrency={
            "group": f"pull-request-{expression('github.event.pull_request.number || github.sha')}",
            "cancel-in-progress": True,
        },
        jobs={**jobs, VERDICT: verdict, **comment},
    )


def _comment(spec: Spec, needs: Sequence[str]) -> Job:
    """The job that keeps the comment, after the verdict, which it cannot change.

    The token of a fork's run could not write it. A workflow that runs after that one could, from what the fork's code
    left in artifacts, which is why there is none: a maintainer's comment starts `fork.yml`, and that reports itself.
    """
    tell = RunStep(
        name="Write the comment",
        continue_on_error=True,
        env={"GITHUB_TOKEN": expression("github.token"), "RESULT": expression(f"needs.{VERDICT}.result")},
        run=f'ci-compile comment --results {RESULTS} --verdict "$RESULT"',
    )
    return hosted_job(
        spec,
        "Comment",
        needs=needs,
        if_=expression(f"always() && github.event_name == 'pull_request' && {FORK_GUARD}"),
        permissions=READ | {"pull-requests": Remarked("write", "the comment")},
        steps=[checkout(history=True), SETUP, replace(FETCH_RESULTS, continue_on_error=True), tell],
    )


def _may_build(spec: Spec) -> str:
    """An expression that is false for a pull request from a fork, and in a fork of the repository."""
    return f"{FORK_GUARD} && {in_own_repository(spec)}"


def legs(spec: Spec, branches: Iterable[RunSelection], *, listed: bool = False) -> list[dict[str, Any]]:
    """The legs of the matrix of the job `CELLS`, or of `LISTED`: each cell with its branch and its stages' machines."""
    return [
        (_named(spec, cell) if listed else _chosen(cell, part))
        | {"branch": part.branch, "onto": part.onto}
        | called.route_values(route)
        for part in branches
        for cell, route in part.cells
        if bool(cell.called) is listed and not cell.joined
    ]


def joined_legs(plan: Plan, branches: Iterable[RunSelection]) -> list[dict[str, Any]]:
    """The legs of the matrix of the job `JOINED_BUILDS`: each build of several variants with what it is built on."""
    found = []
    for part in branches:
        chosen = {cell.joined: route for cell, route in part.cells if cell.joined}
        whole = dict(cells_by_build(cell for cell in plan.judged.cells if cell.branch == part.branch))
        found += [
            {**joined_values(whole[name]), "branch": part.branch, "onto": part.onto, **called.route_values(route)}
            for name, route in chosen.items()
        ]
    return found


def _chosen(cell: Cell, part: RunSelection) -> dict[str, Any]:
    names = [variant.name for variant in cell.variants if variant.name in part.variants]
    return {"cell": cell.suffix, "chosen": json.dumps(names)}


def _named(spec: Spec, cell: Cell) -> dict[str, Any]:
    return {"name": cell.called, **called.package_values(spec, spec.packages[cell.variants[0].package])}


def _hosted(spec: Spec, name: str, steps: Sequence[Step]) -> Job:
    return hosted_job(
        spec,
        name,
        minutes=30,
        in_forks=True,
        env={"BASE": BASE, "BASE_REF": BASE_REF},
        steps=[checkout(history=True), SETUP, *steps],
    )


def _calls(spec: Spec, name: str, output: str, needs: Sequence[str]) -> CallJob:
    """The job that builds the legs in `output` after the jobs `needs`."""
    subject = {
        LISTED: ("name", *called.package_inputs(spec)),
        CELLS: ("cell", "chosen"),
        JOINED_BUILDS: ("build", "name", "legs"),
    }[name]
    return CallJob(
        name=f"{expression('matrix.branch')} {expression(f'matrix.{subject[0]}')}",
        needs=needs,
        if_=expression(f"needs.{SELECT}.outputs.{output} != '[]' && {_may_build(spec)}"),
        strategy=for_each(expression(f"fromJSON(needs.{SELECT}.outputs.{output})")),
        uses=local({LISTED: VARIANT, CELLS: CELL, JOINED_BUILDS: JOINED}[name]),
        permissions=called.build_permissions(spec),
        with_={
            **{key: expression(f"matrix.{key}") for key in (*subject, "branch")},
            "commit": COMMIT,
            "onto": expression("matrix.onto"),
            **called.versions_passed(spec),
            **compiler_cache.passed(spec),
            **{key: expression(f"matrix.{key}") for key in (called.POOLS, *called.machine_inputs(spec, request=True))},
        },
    )
