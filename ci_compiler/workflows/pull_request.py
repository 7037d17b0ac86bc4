"""`pull-request.yml`: the checks of every pull request and of every merge group, with one verdict to require.

Hosted machines check that the files are as compiled and that the recipes are sound, and show what the change means.
The recipes that the change affects are also evaluated with the true nixpkgs, in limits of time and memory.
After these checks, the cells that the change affects are built from a matrix made at run time, for branches of the
repository itself and never for forks: the verdict on a fork's request is green only where nothing is to be built, and
a maintainer who read the code pushes it to a branch of the repository. A change of the spec on the default branch
affects other branches too: their cells are built from the tree that `sync` would commit there. There are no path
filters, because a check that a filter skips cannot be required. A pull request into a branch that the spec does not
have starts nothing.

A fork of the repository has the workflow too. A pull request within it gets the hosted checks and such a verdict, and
builds nothing, as there are no machines (`common.in_own_repository`).

A merge queue tests a merge group, which is a branch of the repository itself: only who may write to the repository can
add a pull request to the queue. What the request has built is in the cache by then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ci_compiler.plan.handed import HandedFiles, job_key
from ci_compiler.plan.joins import cells_by_build
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import called
from ci_compiler.workflows.common import (
    CELL,
    FORK_GUARD,
    JOINED,
    LEGS,
    SELECT,
    SELECTED,
    TOKEN,
    VARIANT,
    VERDICT,
    expression,
    for_each,
    in_own_repository,
    latest,
    local,
)
from ci_compiler.workflows.joined import values as joined_values
from ci_compiler.workflows.model import READ, CallJob, Job, RunStep, Step, Workflow
from ci_compiler.workflows.steps import (
    ENDED,
    FETCH_RESULTS,
    RESULTS,
    SET_UP_NIX,
    SETUP,
    VerdictParts,
    checkout,
    choose_step,
    hosted_job,
    select_job,
    verdict_job,
)
from ci_compiler.workflows.writer import Node, Remarked

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.routing import Route
    from ci_compiler.plan.selection import RunSelection

CELLS, LISTED, JOINED_BUILDS = "cells", "listed", "joined"
"""The jobs that build the affected cells, the affected variants that fit no axis, and the builds of several variants.
"""

_FILES = {CELLS: CELL, LISTED: VARIANT, JOINED_BUILDS: JOINED}
"""The workflows that they call."""

COMMENT = "comment"
"""The job that keeps the comment."""

# Assumes `pull-request-merge`, `merge-group`.
BASE_REF = expression("github.base_ref || github.event.merge_group.base_ref")
"""The branch that a request is to be merged into: its name, or its whole ref for a merge group
(https://docs.github.com/webhooks/webhook-events-and-payloads#merge_group).
"""

BRANCH = '"${BASE_REF#refs/heads/}"'
"""The branch's name, in a script."""

CHECK = "Pull request verdict"
"""The check to require. Rulesets know a check by its job's name, so no other workflow has a job of this name."""


def workflow(spec: Spec, files: Collection[str], shards: Iterable[Shard]) -> Workflow:
    """`pull-request.yml`, which calls those of `files` that build, for the cells of `shards`."""
    compare = RunStep(name="Compile and compare", run=f"ci-compile --check --diff --branch {BRANCH}")
    audit = RunStep(name="Audit", run=f"ci-compile audit . --branch {BRANCH} --nixpkgs real --pull-request")
    compared = 'ci-compile diff --pull-request >> "$GITHUB_STEP_SUMMARY"'
    diff = RunStep(name="Compare with the base", continue_on_error=True, run=compared)
    checks = {"compiled": _hosted(spec, "Files are as compiled", [compare])}
    if spec.backend.has_recipes:
        checks["recipes"] = _hosted(spec, "Recipes are sound", [SET_UP_NIX, audit])
    outputs, builds = _builds(spec, files, shards, list(checks))
    jobs: dict[str, Job | CallJob] = {
        **checks,
        "meaning": _hosted(spec, "What the change means", [diff]),
        SELECT: select_job(spec, "Select", choose_step("--pull-request"), *outputs),
        **builds,
    }
    said = f"needs.{SELECT}.outputs"
    judged = VerdictParts(ended=ENDED, said=said, chosen=f"{said}.chosen", publish="false")
    verdict = verdict_job(spec, CHECK, judged, needs=list(jobs))
    comment = {COMMENT: _comment(spec, [*jobs, VERDICT])} if spec.pull_request.comment else {}
    return Workflow(
        name="pull request",
        on={
            "pull_request": _pull_requests(spec),
            "merge_group": {"types": ["checks_requested"], "branches": list(spec.branches)},
        },
        concurrency=latest(f"pull-request-{expression('github.event.pull_request.number || github.sha')}"),
        jobs={**jobs, VERDICT: verdict, **comment},
    )


def _builds(
    spec: Spec, files: Collection[str], shards: Iterable[Shard], checks: Sequence[str]
) -> tuple[list[str], dict[str, CallJob]]:
    """The outputs of the selection, and the jobs that call those of `files` that build, after the jobs `checks`."""
    named = {name: "matrix" if name == CELLS else name for name, file in _FILES.items() if file in files}
    first = [SELECT, *checks]
    outputs = list(named.values())
    jobs = {name: _calls(spec, name, output, first) for name, output in named.items()}
    for level, names in _later(spec, shards).items():
        before = [*first, *jobs]
        for name in names:
            outputs.append(leveled(named[name], level))
            jobs[leveled(name, level)] = _calls(spec, name, outputs[-1], before, after=len(first))
    return outputs, jobs


def _pull_requests(spec: Spec) -> dict[str, Node]:
    """The events of pull requests. A label that adds variants must start a run, which no condition may leave empty:
    a verdict of nothing would stand for the pull request.
    """
    labeled: dict[str, Node] = {"types": ["opened", "synchronize", "reopened", "labeled"]}
    return (labeled if spec.profiles.pull_request.labels else {}) | {"branches": list(spec.branches)}


def _comment(spec: Spec, needs: Sequence[str]) -> Job:
    """The job that keeps the comment, after the verdict, which it cannot change.

    The token of a fork's run could not write it. A workflow that runs after that one could, from what the fork's code
    left in artifacts, which is why there is none.
    """
    tell = RunStep(
        name="Write the comment",
        continue_on_error=True,
        env={**TOKEN, "RESULT": expression(f"needs.{VERDICT}.result")},
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


def _later(spec: Spec, shards: Iterable[Shard]) -> dict[int, list[str]]:
    """The jobs that can begin only after others have made files, by the number of jobs before them."""
    cells = [cell for shard in shards for cell, _ in shard.cells]
    levels = HandedFiles(spec, cells).levels()
    found: dict[int, set[str]] = {level: set() for level in sorted(set(levels.values()))}
    for cell in cells:
        if level := levels.get(job_key(cell)):
            found[level].add(_job_of(cell))
    return {level: [name for name in _FILES if name in names] for level, names in found.items()}


def _job_of(cell: Cell) -> str:
    return JOINED_BUILDS if cell.joined else LISTED if cell.called else CELLS


def leveled(name: str, level: int) -> str:
    """The name of a job, or of an output with its legs, that waits for `level` other jobs."""
    return f"{name}-{level + 1}" if level else name


def matrices(plan: Plan, branches: Sequence[RunSelection], commit: str) -> dict[str, list[dict[str, Any]]]:
    """The legs of the matrices, by the output of the selection: what the chosen cells of `commit` run with."""
    handed = HandedFiles(plan.spec, plan.judged.cells)
    levels = handed.levels()
    found: dict[str, list[dict[str, Any]]] = {}
    for level in range(1 + max(levels.values(), default=0)):
        parts = [
            selection._replace(
                cells=tuple(part for part in selection.cells if levels.get(job_key(part[0]), 0) == level)
            )
            for selection in branches
        ]
        found[leveled("matrix", level)] = _legs(handed, parts, CELLS)
        found[leveled(LISTED, level)] = _legs(handed, parts, LISTED)
        found[leveled(JOINED_BUILDS, level)] = _joined_legs(handed, plan, parts)
    return {output: [leg | {"commit": commit} for leg in legs] for output, legs in found.items()}


def _legs(handed: HandedFiles, branches: Iterable[RunSelection], job: str) -> list[dict[str, Any]]:
    """The legs of the matrix of `job`: each cell with its branch and its stages' machines."""
    return [
        (_named(handed, cell, part) if job == LISTED else _chosen(handed, cell, part))
        | {"branch": part.branch, "onto": part.onto}
        | called.route_values(route)
        for part in branches
        for cell, route in part.cells
        if _job_of(cell) == job
    ]


def _joined_legs(handed: HandedFiles, plan: Plan, branches: Iterable[RunSelection]) -> list[dict[str, Any]]:
    """The legs of the matrix of the job `JOINED_BUILDS`: each build of several variants with what it is built on."""
    found = []
    for part in branches:
        chosen: dict[str, list[Route]] = {}
        for cell, route in part.cells:
            if cell.joined:
                chosen.setdefault(cell.joined, []).append(route)
        whole = dict(cells_by_build(cell for cell in plan.judged.cells if cell.branch == part.branch))
        found += [
            {
                **joined_values(whole[name]),
                **called.joined_values(plan.spec, whole[name]),
                **_as_chosen(handed, whole[name], part),
                "branch": part.branch,
                "onto": part.onto,
                **called.route_values(*routes),
            }
            for name, routes in chosen.items()
        ]
    return found


def _chosen(handed: HandedFiles, cell: Cell, part: RunSelection) -> dict[str, Any]:
    names = [variant.name for variant in cell.variants if variant.name in part.variants]
    return {"cell": cell.suffix, **_as_chosen(handed, [cell], part, names), **called.shard_values(handed.spec, cell)}


def _named(handed: HandedFiles, cell: Cell, part: RunSelection) -> dict[str, Any]:
    spec = handed.spec
    values = called.package_values(spec, cell)
    return {"name": cell.called, **_as_chosen(handed, [cell], part), **values}


def _as_chosen(
    handed: HandedFiles, cells: Sequence[Cell], part: RunSelection, names: Sequence[str] = ()
) -> dict[str, str]:
    """The value of the input `chosen`, where there is one: `names`, and what `cells` need that other legs build."""
    # Legs hand over no digest: all call one workflow, whose outputs have fixed names, and of each name GitHub keeps the
    # value of the leg that ends last. A name for each variant would change that workflow with every variant of the
    # spec; one for each of the 256 places in a matrix is possible. Nothing of a pull request is published.
    legs = _built_before(handed, cells, part)
    own = {"chosen": json.dumps([*names, *legs])} if names or hands_files(handed.spec) else {}
    return own | ({LEGS: json.dumps(legs)} if legs else {})


def _built_before(handed: HandedFiles, cells: Sequence[Cell], part: RunSelection) -> list[str]:
    """What `cells` need of other cells and the run builds."""
    others = {*part.variants} - {variant.name for cell in cells for variant in cell.variants}
    found = (name for cell in cells for variant in cell.variants for name in handed.needed(cell, variant.package))
    return [name for name in dict.fromkeys(found) if name in others]


def _hosted(spec: Spec, name: str, steps: Sequence[Step]) -> Job:
    return hosted_job(
        spec,
        name,
        minutes=30,
        in_forks=True,
        env={"BASE_REF": BASE_REF},
        steps=[checkout(history=True), SETUP, *steps],
    )


def _calls(spec: Spec, name: str, output: str, needs: Sequence[str], after: int = 0) -> CallJob:
    """The job that builds the legs in `output` after the jobs `needs`.

    If only the first `after` of them must have succeeded, it runs whatever became of the others: some of its legs may
    have all that they need.
    """
    # Assumes `implicit-success`.
    subject = {
        LISTED: ("name", *called.package_inputs(spec)),
        CELLS: ("cell", *called.shard_inputs(spec)),
        JOINED_BUILDS: ("build", "name", "legs", *called.joined_inputs(spec)),
    }[name]
    succeeded = [f"needs.{job}.result == 'success'" for job in needs[:after]]
    ready = "".join(f"{one} && " for one in (["!cancelled()", *succeeded] if after else []))
    return CallJob(
        name=f"{expression('matrix.branch')} {expression(f'matrix.{subject[0]}')}",
        needs=needs,
        if_=expression(f"{ready}needs.{SELECT}.outputs.{output} != '[]' && {_may_build(spec)}"),
        strategy=for_each(expression(f"fromJSON(needs.{SELECT}.outputs.{output})")),
        uses=local(_FILES[name]),
        permissions=called.build_permissions(spec),
        with_={
            **{key: expression(f"matrix.{key}") for key in subject},
            SELECTED: expression("toJSON(matrix)"),
            **called.versions_passed(spec),
            called.MACHINES: expression(f"matrix.{called.MACHINES}"),
        },
    )
