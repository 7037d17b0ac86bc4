"""The benchmark: two builds in turn, their gains with an error, and the floor against the last publication.

The packages are stand-ins whose products take as long as a test says; the processes and the interpreter are real.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.errors import StageError
from ci_compiler.runner.jobs.benchmark import run as running
from ci_compiler.runner.jobs.benchmark.run import Settings, benchmark
from ci_compiler.runner.jobs.subject import of_python
from ci_compiler.stages import CPU_TEST
from tests.output import checked
from tests.runner.jobs.test_smoke_store import package_recipes
from tests.runner.jobs.world import GPU_TORCH, PACKAGES, PYTHON, SPEC, TORCH, World, ci_runner
from tests.runner.machines import known
from tests.specs import spec_of

pytestmark = pytest.mark.slow

LARGER = TORCH.replace("avx2", "avx512bf16")
PRODUCT = "gemm-float32"
H200 = ["NVIDIA H200", [9, 0]]

Make = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes an interpreter whose packages behave as requested, in a folder that is called `name`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    quick(monkeypatch)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC), "utf-8")
    base = Path(sys.executable).resolve()

    def make(name: str = "own", **behaviour: Any) -> Path:
        home = tmp_path / name
        packages = home / "lib" / f"python{PYTHON}" / "site-packages"
        shutil.copytree(PACKAGES, packages)
        (packages / "behaviour.json").write_text(json.dumps(behaviour), "utf-8")
        (home / "bin").mkdir()
        (home / "bin" / "python").symlink_to(base)
        (home / "pyvenv.cfg").write_text(f"home = {base.parent}\n", "utf-8")
        return home / "bin" / "python"

    return make


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that measure for a few milliseconds only, on a recorded machine."""
    monkeypatch.setattr(running, "SECONDS", 0.001)
    monkeypatch.setattr(running, "AWAKE", 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(running, "this_machine", lambda *_, **__: known("h200"))


def measured(name: str, python: Path, *options: str | Path) -> tuple[int, dict[str, Any]]:
    """The exit code, and the content of `benchmark.json`."""
    words = ("--spec", "spec.json", "--branch", "main", "--python", python, "--runs", "5")
    code = ci_runner("benchmark", name, *words, *options)
    report: dict[str, Any] = json.loads(Path("test-output/benchmark.json").read_text("utf-8"))
    return code, report


def test_two_builds_are_measured_in_turn(build: Make, capsys: pytest.CaptureFixture[str]) -> None:
    own = build(dispatch="AVX512", mm={"AVX512": 0.02, "AVX2": 0.04})
    beside = build("beside", dispatch="AVX512", mm={"AVX512": 0.03, "AVX2": 0.04})
    code, report = measured(LARGER, own, "--beside", TORCH, "--beside-python", beside, "--json")
    out, err = capsys.readouterr()
    assert (code, checked("ci-runner benchmark", out)) == (0, report)
    assert f"{LARGER}: gemm-int8 was left out on the cpu: own: AttributeError: " in err
    assert report["dispatch"] == {"own": "AVX512", "beside": "AVX512"}
    assert (report["title"], report["beside-is"]) == ("avx512bf16 over avx2", "neighbour")
    (product,) = report["measurements"]
    assert [*product["arms"]] == ["own", "beside"]
    assert all(len(arm["steady"]) == 5 and arm["first"] > 0.01 for arm in product["arms"].values())
    assert product["gain"] == {"percent": 50, "error": 0}
    assert report["overall"] == {"cpu": product["gain"]}
    assert report["import"]["own"]["median"] > 0
    assert report["size"]["own"] > 1000
    reasons = {one["name"]: one["because"] for one in report["skipped"]}
    assert reasons["gemm-float64"] == "own: RuntimeError: not implemented for float64"
    turns = re.findall("^# (.+) on the cpu$", Path("test-output/benchmark.log").read_text("utf-8"), re.MULTILINE)
    there = ["own", "beside"]
    assert turns == ["own", "beside", *there, *there[::-1], *there, *there[::-1], *there]
    summary = Path("summary.md").read_text("utf-8").replace("\\_", "_")
    assert f"| {LARGER} | benchmark | passed |" in summary
    assert "| avx512bf16 over avx2: +50.0 % ± 0.0" in summary.replace("| | ", "| ").replace("|  | ", "| ")
    assert "| measurement | device | own | beside | gain |" in summary
    assert "result=sha256:" in Path("outputs").read_text("utf-8")


def test_a_build_that_is_slower_than_its_last_publication_fails_below_the_floor(
    build: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    own, before = build(mm={"AVX2": 0.03}), build("before", mm={"AVX2": 0.02})
    code, report = measured(TORCH, own, "--beside-python", before, "--floor", "10")
    assert (code, report["beside-is"]) == (1, "publication")
    err = capsys.readouterr().err
    assert (
        f"error: {TORCH}: on the CPU, the build is slower than the last publication by more than 10 %: -33.3 % ± 0.0"
        in err
    )
    assert "most of all in gemm-float32" in err
    assert "[slower-than-published]" in err
    assert json.loads(Path("test-output/result.json").read_text("utf-8"))["passed"] is False


def test_a_variant_for_a_gpu_is_measured_there_too(build: Make) -> None:
    python = build(gpus=[H200], cuda="12.8")
    code, report = measured(GPU_TORCH, python, "--device", "gpu")
    assert (code, report["machine"]["gpu"]) == (0, "NVIDIA H200")
    assert {one["device"] for one in report["measurements"]} == {"gpu"}
    assert [one["name"] for one in report["measurements"]] == [PRODUCT, "gemm-tf32"]
    assert report["remarks"] == ["it was measured alone: no second build was named"]


def test_without_the_gpu_only_the_cpu_is_measured(
    build: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "this_machine", lambda *_, **__: known("zen4"))
    code, report = measured(GPU_TORCH, build(), "--beside-manifest", "nothing/manifest.json")
    assert (code, report["machine"]["gpu"], report["beside"]) == (0, "", "")
    assert report["remarks"] == [
        "it was measured alone: there is no second build",
        "it was not measured on a GPU: no GPU here runs code built for sm90",
    ]
    words = ("--spec", "spec.json", "--branch", "main", "--python", "own/bin/python", "--device", "gpu")
    assert ci_runner("benchmark", GPU_TORCH, *words) == 1
    assert "there is no GPU to measure it on [benchmark-failed]" in capsys.readouterr().err


def test_a_package_that_crashes_fails_and_a_second_build_that_does_is_left_out(
    build: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = build(), build("bad", events={"import": {"signal": "SIGILL"}})
    code, report = measured(TORCH, good, "--beside-python", bad)
    assert (code, report["beside"]) == (0, "")
    assert "beside was left out: the benchmark (beside, cpu) was ended by SIGILL" in report["remarks"][0]
    late = build("late", dispatch="AVX512", events={"mm": {"signal": "SIGSEGV"}})
    code, report = measured(TORCH, good, "--beside-python", late)
    assert (code, report["beside"], [*report["measurements"][0]["arms"]]) == (0, "", ["own"])
    words = ("--spec", "spec.json", "--branch", "main", "--python", bad)
    assert ci_runner("benchmark", TORCH, *words) == 1
    assert "the benchmark (own, cpu) was ended by SIGILL: it uses an instruction" in capsys.readouterr().err


def test_the_wrong_machine_measures_nothing(
    build: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "this_machine", lambda *_, **__: known("haswell"))
    words = ("--spec", "spec.json", "--branch", "main", "--python", build())
    assert ci_runner("benchmark", LARGER, *words) == 1
    assert "machine-instructions: " in (err := capsys.readouterr().err)
    assert "[benchmark-failed]" in err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--runs", "4"), "error: --runs: 4 is too few: the error of a gain needs at least 5 rounds [wrong-option]"),
        (("--floor", "-1"), "error: --floor: -1 is not a number of percent from 0 to 100 [wrong-option]"),
    ],
)
def test_wrong_options_are_refused(
    build: Make, capsys: pytest.CaptureFixture[str], option: tuple[str, str], message: str
) -> None:
    words = ("--spec", "spec.json", "--branch", "main", "--python", build())
    assert ci_runner("benchmark", TORCH, *words, *option) == 2
    assert message in capsys.readouterr().err


def test_builds_of_a_store_are_measured_by_their_manifests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    package_recipes(world)
    quick(monkeypatch)
    assert world.build(TORCH) == 0
    path = "build-output/manifest.json"
    words = ("--manifest", path, "--beside-manifest", path, "--runs", "5", "--floor", "90")
    assert ci_runner("benchmark", TORCH, *words) == 0
    report = json.loads(Path("test-output/benchmark.json").read_text("utf-8"))
    assert (report["beside"], report["beside-is"]) == (TORCH, "publication")
    assert (report["commit"], report["size"]["own"]) == (world.manifest["commit"], world.manifest["closure_size"])
    assert json.loads(Path("test-output/result.json").read_text("utf-8"))["content"] == report["content"] != ""


# A declared program.

PROGRAM = """\
import json, os, sys
assert os.environ["BENCHMARK_SECONDS"] == "0.001" and os.environ["VARIANT_ISA"] == "avx2"
print("loading a model")
print(json.dumps({"name": "tokens", "device": os.environ["BENCHMARK_DEVICE"], "first": 0.5, "seconds": [2, 1, 4]}))
print(json.dumps({"name": "no quantised weights", "device": "cpu", "seconds": [1]}))
print(json.dumps({"name": "fp8", "device": "cpu", "skipped": "no\\nkernel"}))
"""


def declared(python: Path, text: str) -> Any:
    """The report of a declared Python file with this text."""
    Path("program.py").write_text(text, "utf-8")
    subject = of_python(spec_of(SPEC), TORCH, "main", CPU_TEST, python, {})
    Path("test-output").mkdir()
    settings = Settings(runs=5, declared=SimpleNamespace(python="program.py", run=""))
    return benchmark(subject, None, settings, Path("test-output"))


def test_a_declared_program_says_what_it_measured(build: Make) -> None:
    report = declared(build(), PROGRAM)
    (tokens,) = report.results.measurements
    assert (tokens.name, tokens.arms["own"].steady, tokens.arms["own"].first) == ("tokens", (2.0,) * 5, 0.5)
    assert [(one.name, one.because) for one in report.results.skipped] == [("fp8", "own: no kernel")]
    (remark,) = report.remarks
    assert remark.startswith("own on the cpu: no quantised weights is not as the protocol says: a name has at most 64")


def test_a_benchmark_that_takes_too_long_fails(
    build: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "job_seconds", lambda _: 0.0)
    words = ("--spec", "spec.json", "--branch", "main", "--python", build())
    assert ci_runner("benchmark", TORCH, *words) == 1
    assert "it did not finish in time: 7 rounds take longer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print('hello')", "none of its lines is JSON with a name"),
        (
            'print(\'{"name": "a", "device": "cpu"}\')',
            "own on the cpu: a is not as the protocol says: it has no 'seconds'",
        ),
        ('print(\'{"name": "a", "device": "cpu", "skipped": "old"}\')', "a was left out: own: old"),
    ],
)
def test_a_declared_program_that_measures_nothing_fails(build: Make, text: str, reason: str) -> None:
    with pytest.raises(StageError) as raised:
        declared(build(), text)
    (finding,) = raised.value.findings
    assert finding.message == f"program.py printed no measurement: {reason}"
