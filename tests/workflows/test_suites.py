"""The conditions of the suites' jobs, and what publishing makes of them, with GitHub's own evaluator."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import load_spec
from ci_compiler.sync.compiled import compile_files
from tests.checkers import condition_values

EXAMPLE = Path(__file__).parents[1] / "examples/good/suites/ci-matrix.yaml"
RESULTS = ("success", "failure", "cancelled", "skipped")
PUSH = {"event_name": "push", "repository": "o/r", "ref": "refs/heads/main", "event": {}}
FORK = {"event_name": "pull_request", "repository": "o/r", "event": {"pull_request": {"head": {"repo": None}}}}
LEGS = '[{"suite": "collectives", "shard": "1/1"}]'
JOB, MACHINE = "gpu-test-suites-4", "gpu-test-4-on"


@cache
def jobs() -> dict[str, Any]:
    files = compile_files(plan(load_spec(EXAMPLE, shown="spec")))
    document: dict[str, Any] = yaml.safe_load(files[".github/workflows/variant.yml"])
    found: dict[str, Any] = document["jobs"]
    return found


def test_suites_run_after_the_smoke_test_where_there_are_any_and_a_pool_runs_them() -> None:
    cases, wanted = [], []
    for github, smoke, legs, machine in itertools.product((PUSH, FORK), RESULTS, ("[]", LEGS), ("", '"pool"')):
        needs = {"build": {"result": "success"}, "gpu-test": {"result": smoke}}
        inputs = {JOB: legs, MACHINE: machine}
        cases.append((jobs()[JOB]["if"], {"github": github, "inputs": inputs, "needs": needs, "status()": "success"}))
        wanted.append(github is PUSH and smoke == "success" and legs != "[]" and machine != "")
    assert condition_values(cases) == wanted


def test_publishing_waits_for_suites_unless_there_are_none_or_no_pool_runs_them() -> None:
    publish = jobs()["publish"]
    suites = [name for name in jobs() if "suites" in name]
    assert set(suites) < set(publish["needs"])
    cases, wanted = [], []
    for result, legs, machine in itertools.product(RESULTS, ("[]", LEGS), ("", '"pool"')):
        needs = {name: {"result": "success"} for name in publish["needs"]} | {JOB: {"result": result}}
        inputs = {"publish": True, "branch": "main", JOB: legs, MACHINE: machine}
        cases.append((publish["if"], {"github": PUSH, "inputs": inputs, "needs": needs, "status()": "success"}))
        wanted.append(result == "success" or (result == "skipped" and (legs == "[]" or machine == "")))
    assert condition_values(cases) == wanted
