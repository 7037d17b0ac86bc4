"""A stage is one row of the table: a further row, and nothing else, and every part knows the stage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkers import language_service_problems
from tests.specs import small

ROW = """
import sys
import ci_compiler.stages as table

row = table.Stage(
    name="comparison",
    kind=table.StageKind.TEST,
    needs_isa=True,
    neighbours=(table.Axis.ISA,),
    follows=("cpu-test",),
    minutes=20,
    timeout=90,
    checks=("clock", "system", "instructions"),
    command='ci-runner smoke "$NAME" --stage {stage} --manifest {manifest} --out test-output # and "$BESIDE"',
)
table.STAGES = (*table.STAGES[:-1], row, table.STAGES[-1])

from ci_compiler.cli.compile import main as compile_
from ci_compiler.cli.runner import main as runner

program = sys.argv.pop(1)
raise SystemExit({"ci-compile": compile_, "ci-runner": runner}[program]())
"""
"""A stage that takes two variants. No pool runs it unless the pool lists it."""

COMPARING = {
    "runs-on": ["self-hosted", "linux", "x64", "comparing"],
    "cpu": ["avx512"],
    "stages": ["comparison"],
    "count": 1,
}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A repository whose spec has a pool for the stage, compiled."""
    spec: dict[str, Any] = small()
    spec["runners"] = {**spec["runners"], "comparing": COMPARING}
    spec["timeouts"] = {"comparison": 45}
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    assert told(tmp_path, "ci-compile") is not None
    return tmp_path


def told(root: Path, program: str, *words: str, code: int = 0) -> str:
    """The standard output of a command that knows the stage."""
    done = subprocess.run(
        [sys.executable, "-c", ROW, program, *words], cwd=root, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def workflow(root: Path, name: str) -> dict[str, Any]:
    """A compiled workflow."""
    content: dict[str, Any] = yaml.safe_load((root / ".github/workflows" / name).read_text("utf-8"))
    return content


def test_the_schema_has_its_keys(tmp_path: Path) -> None:
    schema = json.loads(told(tmp_path, "ci-compile", "schema"))
    properties = schema["properties"]
    assert properties["tests"]["properties"]["comparison"]["default"] == "where-routed"
    assert properties["timeouts"]["properties"]["comparison"]["default"] == 90
    assert properties["stage-minutes"]["properties"]["comparison"]["default"] == 20
    assert "comparison" in schema["$defs"]["pool"]["properties"]["stages"]["items"]["enum"]


def test_the_workflows_run_it_after_what_it_follows_on_its_own_pool_and_with_its_neighbour(fleet: Path) -> None:
    job = workflow(fleet, "cell.yml")["jobs"]["pytorch_comparison"]
    assert (job["needs"], job["timeout-minutes"]) == (["pytorch_build", "pytorch_cpu-test"], 45)
    assert "needs.pytorch_cpu-test.result == 'success'" in job["if"]
    assert job["runs-on"] == "${{ fromJSON(inputs.machines)['comparison'].runs-on }}"
    fetch, test = job["steps"][-3:-1]
    assert fetch["run"].endswith('--beside "$BESIDE" --beside-manifest beside-output/manifest.json')
    given = "inputs.comparison-beside"
    beside = {"BESIDE": f"${{{{ {given} && format('pytorch-{{0}}', {given}) || '' }}}}"}
    assert test["env"] == beside
    assert fetch["env"] == beside | {"DIGEST": "${{ needs.pytorch_build.outputs.manifest }}"}
    cells = {name: one["with"] for name, one in workflow(fleet, "build-main-sm90.yml")["jobs"].items() if "with" in one}
    machines = json.loads(cells["python313-avx512"]["machines"])
    assert machines["comparison"] == {"pool": "comparing", "runs-on": COMPARING["runs-on"]}
    assert cells["python313-avx512"]["comparison-beside"] == "python313-cuda12_8-sm90-avx2"
    assert "comparison-beside" not in cells["python313-avx2"]
    assert language_service_problems(sorted((fleet / ".github/workflows").glob("*.yml"))) == []


def test_the_reports_and_documents_show_it(fleet: Path) -> None:
    name = "pytorch-python313-cuda12_8-sm90-avx{}"
    assert "comparison   comparing (self-hosted" in told(fleet, "ci-compile", "explain", name.format("512"))
    forecast = json.loads(told(fleet, "ci-compile", "forecast", "--json"))
    (pool,) = [one for one in forecast["pools"] if one["name"] == "comparing"]
    assert pool["jobs"] == 8
    document = (fleet / ".github/BUILD_MATRIX.md").read_text("utf-8")
    assert "### comparison" in document
    assert "| `comparing` |" in document


def test_the_doctor_checks_a_machine_for_it(fleet: Path) -> None:
    words = ("doctor", "--for", "comparison", "pytorch-python313-cpu-avx2", "--json")
    try:
        said = told(fleet, "ci-runner", *words)
    except AssertionError:  # a machine of another system
        said = told(fleet, "ci-runner", *words, code=1)
    verdicts = {one["check"]: one for one in json.loads(said)["checks"]}
    assert verdicts["instructions"]["verdict"] != "skipped"
    assert verdicts["gpu"]["message"] == "comparison does not need it"
