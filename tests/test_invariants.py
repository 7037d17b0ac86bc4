"""What must always hold (design), over generated specs and over the bundled one.

1 same bytes, 2 each variant once and every label set a pool's, 3 in `test_output`, 4 a variant touches its own shard,
5 no path from a fork to a self-hosted machine or from another job to the secret, 7 counted numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from ci_compiler.hardware import CPU, tables
from ci_compiler.pipeline import Plan, compile_files, plan
from ci_compiler.routing import scarcity
from ci_compiler.spec.build import BUNDLED, BUNDLED_SHOWN, bundled_spec, parse_spec
from ci_compiler.spec.model import Stage
from ci_compiler.workflows.github import limit
from ci_compiler.workflows.variant import TOKEN
from tests.specs import documents, spec_of

GUARD = "github.event.pull_request.head.repo.full_name == github.repository"


def parsed(files: Mapping[str, str]) -> dict[str, Any]:
    """The workflows among `files`, parsed; YAML 1.1 reads the key `on` as true."""
    return {
        Path(path).name: yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in files.items()
        if path.startswith(".github/workflows/")
    }


def shard_files(workflows: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document for name, document in workflows.items() if name.startswith("build-")}


def offered(document: Mapping[str, Any]) -> list[str]:
    """The variants of a shard's dispatch form."""
    options: list[str] = document[True]["workflow_dispatch"]["inputs"]["variant"]["options"]
    return options[1:]


def check_plan(decided: Plan, files: Mapping[str, str]) -> None:
    workflows = parsed(files)
    shards = shard_files(workflows)
    check_each_variant_once(decided, shards)
    check_labels(decided, shards)
    check_limits(files, workflows)
    check_guards(decided, workflows)


def check_each_variant_once(decided: Plan, shards: Mapping[str, Any]) -> None:
    wanted = Counter((cell.branch, v.name) for cell in decided.judged.cells for v in cell.variants)
    found = Counter(
        (document[True]["push"]["branches"][0], n) for document in shards.values() for n in offered(document)
    )
    assert found == wanted
    assert set(found.values()) == {1}


def check_labels(decided: Plan, shards: Mapping[str, Any]) -> None:
    declared = {json.dumps(list(pool.runs_on.labels)) for pool in decided.spec.pools}
    used = {
        value
        for document in shards.values()
        for job in document["jobs"].values()
        for key, value in job.get("with", {}).items()
        if key.endswith("-on")
    }
    assert used <= declared


def check_limits(files: Mapping[str, str], workflows: Mapping[str, Any]) -> None:
    variant_jobs, packages = len(workflows["variant.yml"]["jobs"]), workflows["cell.yml"]["jobs"]
    assert all(len(text.encode()) <= limit("file-bytes").gate for text in files.values())
    for document in shard_files(workflows).values():
        assert 2 + len(offered(document)) * variant_jobs <= limit("jobs").gate
        assert len(document[True]["workflow_dispatch"]["inputs"]) <= limit("dispatch-inputs").gate
        for job_id, job in document["jobs"].items():
            assert len(job_id) <= limit("job-id-characters").gate
            assert len(job.get("if", "")) <= limit("expression-characters").gate
    assert packages


def check_guards(decided: Plan, workflows: Mapping[str, Any]) -> None:
    secrets = TOKEN[decided.spec.backend]
    for name, document in workflows.items():
        assert document["permissions"] == {}, name
        assert not {"pull_request_target", "issue_comment", "workflow_run"} & set(document[True]), name
        if "pull_request" in document[True]:
            assert name == "pull-request.yml"
        for job_id, job in document["jobs"].items():
            hosted = job.get("runs-on") == decided.spec.hosted
            called_from_a_shard = name.startswith("build-") and "uses" in job
            called_from_the_cell = name == "cell.yml"
            if not (hosted or called_from_a_shard or called_from_the_cell or job_id == Stage.PUBLISH):
                assert GUARD in job["if"], (name, job_id)
            passed = job.pop("secrets", {})  # by name, so that the environment's own may be used there (GitHub's docs)
            assert passed in ({}, {secrets: f"${{{{ secrets.{secrets} }}}}"}), (name, job_id)
            assert not passed or called_from_a_shard or called_from_the_cell, (name, job_id)
            if secrets in json.dumps(job):
                assert (name, job_id) == ("variant.yml", "publish")
                assert job["environment"] == decided.spec.publish.environment
                assert "pull_request" not in job["if"]
                assert [secrets in json.dumps(step) for step in job["steps"]].count(True) == 1
            for step in job.get("steps", ()):
                assert "${{" not in step.get("run", ""), (name, job_id)
                if "uses" in step and not step["uses"].startswith("./"):
                    assert len(step["uses"].split("@")[1]) == 40
                if "checkout" in step.get("uses", "") and job_id != Stage.PUBLISH:
                    assert step["with"]["persist-credentials"] is False


def check_routes(decided: Plan) -> None:
    """A stage runs on what it needs, and on the least scarce pool that has it."""
    hardware = tables()
    for cell, route in zip(decided.judged.cells, decided.routes, strict=True):
        for stage, pool in route.pools.items():
            assert pool.system == cell.system
            assert stage in pool.stages
            if stage in {Stage.CPU_TEST, Stage.GPU_TEST}:
                assert cell.isa in hardware.runs(pool.cpu)
            if stage is Stage.GPU_TEST:
                assert hardware.gpu(pool.gpu).runs_cubin_of(hardware.gpu(cell.gpu))
            if stage is Stage.BUILD:
                fitting = [p for p in decided.spec.pools if p.system == cell.system and stage in p.stages]
                assert scarcity(hardware, pool) == min(scarcity(hardware, other) for other in fitting)
        assert Stage.GPU_TEST not in route.pools if cell.gpu == CPU else True
        assert route.pools.keys() | route.skipped.keys() >= set(Stage) - (
            {Stage.GPU_TEST} if cell.gpu == CPU else set()
        )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=documents())
def test_every_generated_spec_holds_the_invariants(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    check_routes(decided)
    check_plan(decided, compile_files(decided))


def test_the_bundled_stack_holds_the_invariants() -> None:
    decided = plan(bundled_spec())
    check_routes(decided)
    check_plan(decided, compile_files(decided))


def changed_files(text: str, *replacements: tuple[str, str]) -> set[str]:
    before = compile_files(plan(parse_spec(text.encode(), shown=BUNDLED_SHOWN)))
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    after = compile_files(plan(parse_spec(text.encode(), shown=BUNDLED_SHOWN)))
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


DOCUMENTS = {".github/BUILD_MATRIX.md"}


@pytest.mark.parametrize(
    ("old", "new", "shard"),
    [
        ("    sm80:\n", "    sm80: {also: {main: [avx]}}\n", "build-main-sm80"),
        ("cpu: {also: {cuda-13_0: [avx]}}", "cpu:", "build-cuda-13_0-cpu"),
        (
            "  gpus:\n",
            "  exclude: [{variants: '*-sm61-avx2', branches: [main], because: slow}]\n  gpus:\n",
            "build-main-sm61",
        ),
    ],
)
def test_a_variant_touches_its_own_shard_alone(old: str, new: str, shard: str) -> None:
    changed = changed_files(BUNDLED.read_text("utf-8"), (old, new))
    assert changed - DOCUMENTS == {f".github/workflows/{shard}.yml"}


def variants_in_a_process(root: Path, **environment: str) -> Iterator[bytes]:
    """The compiled tree's bytes, from a process with its own hash seed, folder and locale."""
    command = [sys.executable, "-m", "ci_compiler", "--root", str(root)]
    subprocess.run(command, check=True, cwd=root, env={**os.environ, **environment}, capture_output=True)
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes()


def test_the_same_bytes_everywhere(tmp_path: Path) -> None:
    results = []
    for name, environment in {
        "one": {"PYTHONHASHSEED": "1", "LC_ALL": "C"},
        "two": {"PYTHONHASHSEED": "77", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"},
    }.items():
        (tmp_path / name).mkdir()
        results.append(list(variants_in_a_process(tmp_path / name, **environment)))
    assert results[0] == results[1]
    assert len(results[0]) > 30
