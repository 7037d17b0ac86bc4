"""`pull-request.yml`: the checks of every pull request, with one verdict to require.

Hosted machines check that the files are as compiled and that the recipes are sound, and show what the change means.
Then the cells that it affects are built from a matrix made at run time, for branches of the repository itself and
never for forks. There are no path filters, because a check that a filter skips cannot be required. A pull request into
a branch that the spec does not have starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import CELL, CHOSEN, COMMIT, FORK_GUARD, SELECT, VERDICT, expression, local
from ci_compiler.workflows.model import (
    READ,
    CallJob,
    Concurrency,
    Job,
    OnPullRequest,
    RunStep,
    Step,
    Strategy,
    UsesStep,
    Workflow,
)
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.steps import SETUP, checkout, select_job, verdict_job

CELLS = "cells"
BASE = expression("github.base_ref")
"""The branch that a pull request is to be merged into."""

CHECK = "Pull request verdict"
"""The check to require. Rulesets know a check by its job's name, so no other workflow has a job of this name."""


def workflow(spec: Spec) -> Workflow:
    """`pull-request.yml`."""
    compare = RunStep(name="Compile and compare", run='ci-compile --check --diff --branch "$BRANCH"')
    nix = UsesStep(name="Set up Nix", uses=pinned("cachix/install-nix-action"))
    audit = RunStep(name="Audit", run='ci-compile audit . --branch "$BRANCH"')
    diff = RunStep(
        name="Compare with the base", continue_on_error=True, run='ci-compile diff "$BASE" >> "$GITHUB_STEP_SUMMARY"'
    )
    jobs: dict[str, Job | CallJob] = {
        "compiled": _hosted(spec, "Files are as compiled", [compare]),
        **({"recipes": _hosted(spec, "Recipes are sound", [nix, audit])} if spec.backend.has_recipes else {}),
        "meaning": _hosted(spec, "What the change means", [diff]),
        SELECT: select_job(spec, "--pull-request", "matrix"),
        CELLS: _cells(spec),
    }
    chosen = expression(f"{FORK_GUARD} && needs.{SELECT}.outputs.chosen || '[]'")
    verdict = verdict_job(spec, CHECK, list(jobs), chosen=chosen, branch=BASE, publish="false")
    return Workflow(
        name="pull request",
        on=[OnPullRequest(branches=list(spec.branches))],
        concurrency=Concurrency(
            group=f"pull-request-{expression('github.event.pull_request.number')}",
            cancel_in_progress=True,
        ),
        jobs={**jobs, VERDICT: verdict},
    )


def legs(cells: Sequence[tuple[Cell, Route]]) -> list[dict[str, Any]]:
    """The legs of the matrix of the job `CELLS`: each cell with the machines of its stages."""
    return [{"cell": cell.suffix, **variant.machines(route)} for cell, route in cells]


def _hosted(spec: Spec, name: str, steps: Sequence[Step]) -> Job:
    return Job(
        name=name,
        runs_on=spec.hosted,
        timeout_minutes=30,
        permissions=READ,
        env={"BASE": expression("github.event.pull_request.base.sha"), "BRANCH": BASE},
        steps=[checkout(history=True), SETUP, *steps],
    )


def _cells(spec: Spec) -> CallJob:
    return CallJob(
        name=expression("matrix.cell"),
        needs=SELECT,
        if_=expression(f"needs.{SELECT}.outputs.matrix != '[]' && {FORK_GUARD}"),
        strategy=Strategy(matrix={"include": expression(f"fromJSON(needs.{SELECT}.outputs.matrix)")}),
        uses=local(CELL),
        permissions=variant.build_permissions(spec),
        with_={
            "cell": expression("matrix.cell"),
            "chosen": CHOSEN,
            "branch": BASE,
            "commit": COMMIT,
            "publish": False,
            "again": False,
            **{name: expression(f"matrix.{name}") for name in variant.machine_inputs(spec)},
        },
    )
