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
from ci_compiler.workflows import pull_request
from tests.checkers import condition_values
from tests.specs import small, spec_of

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


def test_every_caller_passes_the_shards_also_for_a_variant_that_fits_no_axis() -> None:
    listed = {"apex-aarch64": {"system": "aarch64-linux"}}
    suites = {"ops": {"command": "ci/ops.sh", "minutes": 9, "shards": 2}}
    arm = {"runs-on": ["self-hosted", "linux", "arm64"]}
    document = small(
        packages={"pytorch": {"attribute": "torch"}, "torchvision": {}, "apex": {"variants": listed, "suites": suites}}
    )
    document["branches"]["main"]["versions"]["apex"] = "0.1"
    document["runners"]["arm"] = arm | {"stages": ["build", "cpu-test", "publish"]}
    decided = plan(spec_of(document))
    files = {path: yaml.safe_load(text) for path, text in compile_files(decided).items() if path.endswith(".yml")}
    inputs = files[".github/workflows/variant.yml"][True]["workflow_call"]["inputs"]
    required = {name for name, one in inputs.items() if one["required"]}
    called = [
        job["with"]
        for path, document in files.items()
        for job in document.get("jobs", {}).values()
        if job.get("uses", "").endswith("/variant.yml")
    ]
    assert len(called) == 3 + 1 + 1  # the packages of cell.yml, the listed variant in its shard and in a pull request
    assert [sorted(required - passed.keys()) for passed in called] == [[]] * len(called)
    (shard,) = (passed for passed in called if passed["name"] == "apex-aarch64")
    assert shard["cpu-test-suites"] == '[{"suite": "ops", "shard": "1/2"}, {"suite": "ops", "shard": "2/2"}]'
    (leg,) = pull_request.legs(decided.spec, list(zip(decided.judged.cells, decided.routes, strict=True)), listed=True)
    assert leg["cpu-test-suites"] == shard["cpu-test-suites"]
