"""The table at the end of a run, about test suites; `test_selection` has the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.summary import SummarisedRun, table
from tests.specs import small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx2"
RUN = SummarisedRun(event="workflow_dispatch", ref="main", publish=True)
SUITES = {
    "ops": {"command": "ci/ops.sh", "minutes": 90, "shards": 2, "on": "gpu"},
    "wide": {"command": "ci/wide.sh", "minutes": 45, "on": "gpu", "gpus": 4},
}


@pytest.fixture
def decided() -> Plan:
    return plan(spec_of(small(packages={"pytorch": {"attribute": "torch", "suites": SUITES}, "torchvision": {}})))


def left(results: Path, artifact: str, name: str, **content: Any) -> None:
    """Writes a file of a stage of the variant."""
    path = results / artifact / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"name": NAME, "branch": "main", **content}), "utf-8")


def row(decided: Plan, results: Path, *shards: dict[str, Any]) -> str:
    """The row of the variant, whose stages passed, after these shards of its suites."""
    left(results, f"build-{NAME}@main", "manifest.json")
    for stage in ("cpu-test", "gpu-test"):
        left(results, f"{stage}-{NAME}@main", "result.json", passed=True)
    for index, content in enumerate(shards):
        left(results, f"gpu-test-suites-{index}-{NAME}@main", "suite.json", **content)
    return table(decided, RUN, "main", [NAME], results).splitlines()[-1]


def test_suites_are_listed_with_their_stage(decided: Plan, tmp_path: Path) -> None:
    shown = row(decided, tmp_path, *({"suite": "ops", "passed": True, "failures": []} for _ in range(2)))
    assert "passed; ops: passed; wide: no: no pool for gpu-test on x86\\_64-linux has 4 GPUs" in shown
    assert shown.endswith("| **failed** |")  # publishing left no outcome


def test_a_failed_suite_names_its_failures_and_explains_why_nothing_was_published(
    decided: Plan, tmp_path: Path
) -> None:
    failed = {"suite": "ops", "passed": False, "failures": ["ops.mul: 1 is not 2"]}
    shown = row(decided, tmp_path, {"suite": "ops", "passed": True, "failures": []}, failed)
    assert "passed; ops: **failed** (ops.mul: 1 is not 2)" in shown
    assert shown.endswith("| no: it failed before |")


def test_a_suite_with_a_missing_shard_failed(decided: Plan, tmp_path: Path) -> None:
    assert "ops: **failed**;" in row(decided, tmp_path, {"suite": "ops", "passed": True, "failures": []})


def test_a_run_for_several_branches_has_one_table_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU-only variant has the same name on two branches, and each table has its own artifacts."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    name = "pytorch-python313-cpu-avx2"
    left(tmp_path, f"build-{name}@cuda-13_0", "manifest.json", branch="cuda-13_0", seconds=61)
    chosen = json.dumps({"main": [name], "cuda-13_0": [name]})
    assert run(COMPILE, ["summary", str(tmp_path), "--chosen", chosen, "--root", str(tmp_path)]) == 0
    main, other = capsys.readouterr().out.split("### ")[1:]
    assert main.startswith("main\n")
    assert f"| `{name}` | **failed** |" in main
    assert other.startswith("cuda-13\\_0\n")
    assert f"| `{name}` | passed |" in other
    assert "61 s" in other
