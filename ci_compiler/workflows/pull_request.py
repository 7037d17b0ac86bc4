"""`pull-request.yml`: what every pull request gets, and the one check to require.

Hosted machines say whether the files are as compiled, the recipes sound, and what the change means; then the cells that
it rebuilds are built, for this repository's own branches alone, from a matrix made at run time; then one verdict. There
are no path filters, since a check that filters skip can never be required; a request into a branch that the spec does
not have concerns nothing here.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows import variant
from ci_compiler.workflows.cell import permissions
from ci_compiler.workflows.common import (
    CELL,
    FORK_GUARD,
    READ,
    VERDICT,
    checkout,
    expression,
    local,
    setup,
    verdict_job,
)
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.writer import Node, Spaced

SELECT = "select"
CELLS = "cells"

OWN_JOBS = 5
"""Jobs of a run beside those of its cells."""

CHECK = "Pull request verdict"
"""The one check to require: a name that no other workflow's job has, as rules know checks by their jobs' names."""


def workflow(spec: Spec) -> dict[str, Node]:
    """The document of `pull-request.yml`."""
    jobs: dict[str, Node] = {
        "compiled": _hosted(
            spec, "Files are as compiled", [_run("Compile and compare", 'ci-compile --check --diff --branch "$BRANCH"')]
        ),
        "recipes": _hosted(
            spec,
            "Recipes are sound",
            [
                {"name": "Set up Nix", "uses": pinned("cachix/install-nix-action")},
                _run("Audit", 'ci-compile audit . --branch "$BRANCH"'),
            ],
        ),
        "meaning": _hosted(
            spec,
            "What the change means",
            [
                {
                    "name": "Compare with the base",
                    "continue-on-error": True,
                    "run": 'ci-compile diff "$BASE" >> "$GITHUB_STEP_SUMMARY"',
                }
            ],
        ),
        SELECT: _select(spec),
        CELLS: _cells(spec),
    }
    base = expression("github.base_ref")
    verdict = verdict_job(spec, CHECK, list(jobs), select=SELECT, branch=base, publish="false", guard=FORK_GUARD)
    return {
        "name": "pull request",
        "on": {"pull_request": {"branches": list(spec.branches)}},
        "permissions": {},
        "concurrency": {
            "group": f"pull-request-{expression('github.event.pull_request.number')}",
            "cancel-in-progress": True,
        },
        "jobs": Spaced({**jobs, VERDICT: verdict}),
    }


def _run(name: str, command: str) -> dict[str, Node]:
    return {"name": name, "run": command}


def _hosted(spec: Spec, name: str, steps: list[dict[str, Node]]) -> dict[str, Node]:
    return {
        "name": name,
        "runs-on": spec.hosted,
        "timeout-minutes": 30,
        "permissions": dict(READ),
        "env": {
            "BASE": expression("github.event.pull_request.base.sha"),
            "BRANCH": expression("github.base_ref"),
        },
        "steps": [checkout(history=True), setup(), *steps],
    }


def _select(spec: Spec) -> dict[str, Node]:
    choose: dict[str, Node] = {
        "name": "Choose the variants",
        "id": "choose",
        "run": "ci-compile choose --pull-request",
    }
    return {
        "name": "Select",
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": dict(READ),
        "outputs": {key: expression(f"steps.choose.outputs.{key}") for key in ("commit", "chosen", "matrix")},
        "steps": [checkout(history=True), setup(), choose],
    }


def _cells(spec: Spec) -> dict[str, Node]:
    return {
        "name": expression("matrix.cell"),
        "needs": SELECT,
        "if": expression(f"needs.{SELECT}.outputs.matrix != '[]' && {FORK_GUARD}"),
        "strategy": {
            "fail-fast": False,
            "matrix": {"include": expression(f"fromJSON(needs.{SELECT}.outputs.matrix)")},
        },
        "uses": local(CELL),
        "permissions": permissions(spec),
        "with": {
            "cell": expression("matrix.cell"),
            "chosen": expression(f"needs.{SELECT}.outputs.chosen"),
            "branch": expression("github.base_ref"),
            "commit": expression(f"needs.{SELECT}.outputs.commit"),
            "publish": False,
            "again": False,
            **{name: expression(f"matrix.{name}") for name in variant.machine_inputs(spec)},
        },
    }
