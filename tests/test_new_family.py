"""A family, a platform, a range of toolkits and a Python for several others go through every command.

Only a spec declares them.

The spec is `examples/good/new-family`. Hardware with facts of its own is in `test_new_hardware`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.runner.doctor.hardware_checks import system
from ci_compiler.spec.build import load_spec
from ci_compiler.stages import BUILD, CPU_TEST, GPU_TEST
from tests.runner.machines import recorded

SPEC = Path(__file__).parent / "examples/good/new-family/ci-matrix.yaml"
NAME = "ext-abi3-npu2_1-n200-loongarch64-linux"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".github").mkdir()
    shutil.copy(SPEC, tmp_path / ".github/ci-matrix.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def decided() -> Plan:
    return plan(load_spec(SPEC, shown="ci-matrix.yaml"))


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["variants"], NAME),
        (["explain", NAME], "gpu-test     npu (self-hosted, linux, loong64, npu)"),
        (["explain", NAME], "cpu-test     loong (self-hosted, linux, loong64, plain)"),
        (["select", "--gpu", "H100", "--cpu", "Zen 4", "--driver", "580", "--package", "ext"], "ext-abi3-cuda13_x"),
        (
            ["select", "--gpu", "none", "--cpu", "loongarch64-linux", "--package", "ext"],
            "ext-abi3-cpu-loongarch64-linux",
        ),
        (["forecast"], NAME),
        (["site", "page"], "page"),
        ([], "files under .github"),
    ],
)
def test_a_command_knows_what_the_spec_declares(
    capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    assert run(PROGRAM, command) == 0
    out, err = capsys.readouterr()
    assert said in out + err


def test_the_document_names_them(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, []) == 0
    matrix = (root / ".github/BUILD_MATRIX.md").read_text("utf-8")
    assert NAME in matrix
    assert "LoongArch" in matrix
    assert "Example NPU" in matrix or "npu" in matrix
    capsys.readouterr()
    assert run(PROGRAM, ["plan", "--json"]) == 0
    row = next(
        cell
        for shard in json.loads(capsys.readouterr().out)["shards"]
        for cell in shard["cells"]
        if cell["suffix"] == NAME.removeprefix("ext-")
    )
    assert (row["family"], row["toolkit"], row["target"], row["system"]) == ("npu", "2.1", "n200", "loongarch64-linux")


def of(made: Plan, name: str) -> tuple[Cell, str]:
    return next(
        (cell, variant.package) for cell in made.judged.cells for variant in cell.variants if variant.name == name
    )


def test_a_range_and_an_absent_python_serve_what_needs_them(decided: Plan) -> None:
    needs = Needs(decided.spec, decided.judged.cells)
    for name, wanted in (
        (NAME, "runtime-npu2_1-n200-loongarch64-linux"),
        ("ext-abi3-cuda13_x-x86_64-linux", "runtime-cuda13_x-x86_64-linux"),
    ):
        assert [variant.name for _, variant in needs.of(*of(decided, name))] == [wanted]
    assert decided.spec.hardware.toolkit("13.x").lowest_driver == decided.spec.hardware.toolkit("13.0").lowest_driver


@pytest.mark.parametrize(("stage", "failed"), [(BUILD, False), (CPU_TEST, True), (GPU_TEST, True)])
def test_a_machine_of_another_platform_builds_and_does_not_test(decided: Plan, stage: object, failed: bool) -> None:
    work = work_of(decided.spec, stage=stage, name=NAME, pool=None)  # type: ignore[arg-type]
    x86 = machine(recorded("h200"), decided.spec.hardware)
    assert x86.system == "x86_64-linux"
    assert system(work, Evidence(machine=x86, clock=ClockReading(now=0))).failed is failed
