"""The conditions of the jobs of test suites, with GitHub's own evaluator."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.selection import RunSelection
from ci_compiler.spec.build import load_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows import pull_request
from tests.checkers import condition_values
from tests.specs import SMALL, small, spec_of

EXAMPLE = Path(__file__).parents[1] / "examples/good/suites/ci-matrix.yaml"
RESULTS = ("success", "failure", "cancelled", "skipped")
PUSH = {"event_name": "push", "repository": "o/r", "event": {}}
FORK = {"event_name": "pull_request", "repository": "o/r", "event": {"pull_request": {"head": {"repo": None}}}}
LEGS = '[{"suite": "collectives", "shard": "1/1"}]'
JOB = "gpu-test-suites-4"
ON = {"gpu-test-4": {"pool": "pool", "runs-on": ["self-hosted"]}}
SUITES = {"wide": {"command": "ci/wide.sh", "minutes": 9, "on": "gpu", "gpus": 4}}


@cache
def jobs(name: str) -> dict[str, Any]:
    """The jobs of `cell.yml`, or of `variant.yml` of a spec in which a package with suites is also listed."""
    files = compile_files(plan(load_spec(EXAMPLE, shown="spec") if name == "cell" else spec_of(listed_too())))
    document: dict[str, Any] = yaml.safe_load(files[f".github/workflows/{name}.yml"])
    found: dict[str, Any] = document["jobs"]
    return found


def listed_too() -> dict[str, Any]:
    """The small spec with a package on the axes that has a suite and a listed variant."""
    listed = {"pytorch-plain": {"system": "x86_64-linux"}}
    return small(packages=SMALL["packages"] | {"pytorch": {"attribute": "torch", "variants": listed, "suites": SUITES}})


PREFIXES = (("cell", "fastpath_"), ("variant", ""))


@pytest.mark.parametrize(("file", "prefix"), PREFIXES)
def test_suites_run_after_the_smoke_test_where_there_are_any_and_a_pool_runs_them(file: str, prefix: str) -> None:
    cases, wanted = [], []
    for github, smoke, legs, machine in itertools.product((PUSH, FORK), RESULTS, ("[]", LEGS), ({}, ON)):
        needs = {f"{prefix}build": {"result": "success"}, f"{prefix}gpu-test": {"result": smoke}}
        inputs = {"selected": '{"branch": "main"}', "machines": json.dumps(machine), JOB: legs}
        contexts = {"github": github, "inputs": inputs, "needs": needs, "vars": {}, "status()": "success"}
        cases.append((jobs(file)[f"{prefix}{JOB}"]["if"], contexts))
        wanted.append(github is PUSH and smoke == "success" and (bool(prefix) or legs != "[]") and machine is ON)
    assert condition_values(cases) == wanted


def test_a_cell_runs_the_shards_of_its_packages_and_a_package_without_suites_has_no_job_for_them() -> None:
    found = {name: job["strategy"]["matrix"]["include"] for name, job in jobs("cell").items() if "strategy" in job}
    assert found == {
        "fastpath_cpu-test-suites": [{"suite": "unit", "shard": "1/1"}],
        "fastpath_gpu-test-suites": [{"suite": "ops", "shard": f"{shard}/3"} for shard in (1, 2, 3)],
        "fastpath_gpu-test-suites-4": [{"suite": "collectives", "shard": "1/1"}],
    }


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
    assert len(called) == 1 + 1  # the listed variant in its shard, and in a pull request
    assert [sorted(required - passed.keys()) for passed in called] == [[]] * len(called)
    (shard,) = (passed for passed in called if passed.get("name") == "apex-aarch64")
    assert shard["cpu-test-suites"] == '[{"suite": "ops", "shard": "1/2"}, {"suite": "ops", "shard": "2/2"}]'
    cells = tuple(zip(decided.judged.cells, decided.routes, strict=True))
    (leg,) = pull_request.matrices(decided, [RunSelection(branch="main", variants=(), cells=cells)], "c0ffee")["listed"]
    assert leg["cpu-test-suites"] == shard["cpu-test-suites"]


def test_a_cell_runs_the_rows_that_install_its_variants() -> None:
    rows = {"rows": [{"python": "3.13", "dependencies": "oldest"}, {"accelerator": "cuda 12.8 sm90"}]}
    suite = {"command": "ci/rows.sh", "minutes": 5, "on": "gpu", "matrix": rows}
    decided = plan(
        spec_of(small(packages=SMALL["packages"] | {"pytorch": {"attribute": "torch", "suites": {"r": suite}}}))
    )
    files = {path: yaml.safe_load(text) for path, text in compile_files(decided).items() if path.endswith(".yml")}
    made = files[".github/workflows/cell.yml"]["jobs"]
    found = {name: job for name, job in made.items() if "strategy" in job}
    assert {job["strategy"]["matrix"]["include"] for job in found.values()} == {
        f"${{{{ fromJSON(inputs.suites)['{name}'] }}}}" for name in found
    }
    passed = [
        json.loads(job["with"]["suites"])
        for path, document in files.items()
        for job in document.get("jobs", {}).values()
        if job.get("uses", "").endswith("/cell.yml") and "matrix" not in job["with"]["suites"]
    ]
    assert len(passed) == len(decided.judged.cells)
    cases, wanted = [], []
    for suites, name in itertools.product([*passed, {}], found):
        machines = {name.removeprefix("pytorch_").replace("-suites", ""): ON["gpu-test-4"]}
        inputs = {"selected": '{"branch": "main"}', "machines": json.dumps(machines), "suites": json.dumps(suites)}
        needs = {"pytorch_build": {"result": "success"}, "pytorch_gpu-test": {"result": "success"}}
        cases.append(
            (found[name]["if"], {"github": PUSH, "inputs": inputs, "needs": needs, "vars": {}, "status()": "success"})
        )
        wanted.append(bool(suites.get(name)))
    assert condition_values(cases) == wanted
    assert {True, False} == set(wanted)
