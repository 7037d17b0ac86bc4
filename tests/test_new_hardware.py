"""Hardware that only a spec declares goes through every command as bundled hardware does.

The spec is `examples/good/new-hardware`: a toolkit 13.99, a GPU sm990, an ISA avx10_2, and armv9 with BF16.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.hardware import Version, tables
from ci_compiler.hardware.drivers import too_new_driver
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.plan.machine_fit import fit
from ci_compiler.plan.routing import runs_gpu
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.jobs.expectation import expectation
from ci_compiler.runner.targets import find
from ci_compiler.spec.build import load_spec
from ci_compiler.spec.model import Spec
from ci_compiler.stages import stages
from tests.checkers import require
from tests.runner.machines import recorded

SPEC = Path(__file__).parent / "examples/good/new-hardware/ci-matrix.yaml"
NAME = "pytorch-python313-cuda13_99-sm990-avx10_2"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".github").mkdir()
    shutil.copy(SPEC, tmp_path / ".github/ci-matrix.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def spec() -> Spec:
    return load_spec(SPEC, shown="ci-matrix.yaml")


def test_the_spec_has_its_own_tables_and_the_bundled_ones_stay(spec: Spec) -> None:
    hardware = spec.hardware
    assert list(hardware.toolkits) == [*tables().toolkits, "13.99"]
    assert hardware.gpu("sm990").summary == "X100, X200"
    assert hardware.runs(["avx10_2"]) == {"baseline", "avx", "avx2", "avx512", "avx512bf16", "avx10_2"}
    assert hardware.isa("armv9").cpuinfo == ("sve2", "bf16")
    assert hardware.isa("armv9").includes == tables().isa("armv9").includes
    assert not {"13.99", "sm990", "avx10_2"} & {*tables().toolkits, *tables().gpus, *tables().isas}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["plan", "--json"], f'"{NAME}"'),
        (["variants"], NAME),
        (["explain", NAME], "gpu-test     x100 (self-hosted, linux, x64, gpu-sm990)"),
        (["select", "--gpu", "X200", "--cpu", "avx10_2", "--driver", "640"], NAME),
        (["select", "--gpu", "sm990", "--cpu", "avx512", "--driver", "580"], "pytorch-python313-cuda13_99-sm990-avx2"),
        (["select", "--gpu", "X100", "--cpu", "avx2", "--driver", "570"], "pytorch-python313-cpu-avx2"),
        (["forecast"], "x100"),
        (["recipes", "--branch", "main", "--output", "recipes"], "16 recipes of main"),
        (["site", "page"], "page"),
    ],
)
def test_a_command_knows_the_declared_hardware(
    capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    assert run(PROGRAM, command) == 0
    out, err = capsys.readouterr()
    assert said in out + err


def test_a_declared_tegra_gpu_gets_no_desktop_code_and_runs_no_desktop_tests(root: Path) -> None:
    path = root / ".github/ci-matrix.yaml"
    text = path.read_text("utf-8")
    path.write_text(
        text.replace("  isas:\n    avx10_2", "    sm121: {tegra: true, last-driver: 610}\n  isas:\n    avx10_2")
    )
    hardware = load_spec(path, shown="ci-matrix.yaml").hardware
    pool = replace(load_spec(path, shown="ci-matrix.yaml").pools[-1], gpu="sm121")
    assert not runs_gpu(hardware, pool, "sm120")
    assert runs_gpu(hardware, pool, "sm121")
    assert runs_gpu(tables(), pool, "sm120")
    assert too_new_driver(hardware.gpu("sm121")) == 615


def test_the_recipe_builds_for_the_declared_hardware(root: Path) -> None:
    assert run(PROGRAM, ["recipes", "--branch", "main", "--output", str(root / "recipes")]) == 0
    text = (root / "recipes" / f"{NAME}.nix").read_text("utf-8")
    assert "cudaPackages = final.cudaPackages_13_99;" in text
    assert 'gpuArchSM = "99.0";' in text
    assert 'cpuFlags = [ "-mavx10.2" ];' in text
    arm = (root / "recipes/pytorch-python313-cpu-armv9.nix").read_text("utf-8")
    assert 'cpuFlags = [ "-march=armv9-a+sve2+bf16" ];' in arm


def test_the_recipes_are_audited_without_a_finding(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("nix-instantiate")
    assert run(PROGRAM, ["recipes", "--branch", "main", "--output", str(root / "recipes")]) == 0
    capsys.readouterr()
    assert run(PROGRAM, ["audit", str(root / "recipes"), "--branch", "main"]) == 0, capsys.readouterr()


def test_a_machine_is_judged_by_the_declared_hardware(spec: Spec) -> None:
    flags = {flag for isa in spec.hardware.runs(["avx10_2"]) for flag in spec.hardware.isa(isa).cpuinfo}
    zen4 = recorded("zen4")
    text = "\n".join(f"processor : {at}\nflags : {' '.join(sorted(flags))}\n" for at in range(2))
    own = machine(replace(zen4, cpuinfo=text, lscpu=""), spec.hardware)
    assert own.isas[-1] == "avx10_2"
    with_gpu = replace(own, gpus=(GpuDevice(index=0, name="X100", capability=Version(99, 0), driver="640.1"),))
    fits = {pool.name: fit(spec.hardware, with_gpu, pool) for pool in spec.pools}
    assert fits["x100"].fits
    assert fits["builder"].fits
    older = machine(zen4, spec.hardware)
    assert fit(spec.hardware, older, spec.pools[0]).missing == ("avx10_2 (the CPU lacks avx10_2)",)


def test_a_test_expects_the_declared_architecture_and_the_level_of_what_the_isa_includes(spec: Spec) -> None:
    gpu_test = next(stage for stage in stages() if stage.needs_gpu)
    wanted = expectation(spec, find(spec, NAME, "main"), gpu_test)
    assert wanted.architectures == ("sm_990",)
    assert wanted.targets == ("sm_990",)
    assert wanted.dispatch == ("AVX512",)


def test_the_page_finds_the_declared_hardware(root: Path) -> None:
    assert run(PROGRAM, ["site", str(root / "page")]) == 0
    text = "".join(path.read_text("utf-8") for path in (root / "page").rglob("*.html"))
    for name in ("X200", "sm990", "avx10_2", "13.99"):
        assert name in text


def test_a_refined_flag_is_a_change_of_the_variants_that_have_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = root / "before.yaml"
    before.write_text(SPEC.read_text("utf-8").replace("+sve2+bf16", "+sve2"), "utf-8")
    assert run(PROGRAM, ["diff", str(before)]) == 0
    out = capsys.readouterr().out
    assert "-march=armv9-a+sve2+bf16" in out
    assert "**4 rebuilt**" in out
