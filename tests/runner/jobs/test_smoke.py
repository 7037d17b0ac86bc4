"""The smoke test: passes if the variant meets the expectations, else reports each failure, even a crash, on one line.

The packages are stand-ins (`packages/`) and the machines are recorded ones, but the interpreter is a real one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ci_compiler import process
from ci_compiler.runner.jobs import emulation, smoke
from tests.output import checked
from tests.processes import with_time
from tests.runner.jobs.world import GPU_TORCH, PACKAGES, PYTHON, SPEC, TORCH, VISION, ci_runner
from tests.runner.machines import known

AUDIO = TORCH.replace("pytorch", "torchaudio")
ODD = TORCH.replace("pytorch", "odd")
H200 = ["NVIDIA H200", [9, 0]]
GPU_BUILD: dict[str, Any] = {
    "cuda": "12.8",
    "architectures": ["sm_90"],
    "cudnn": 91002,
    "gpus": [H200],
    "operators": 12080,
}


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a virtual environment with packages that behave as requested; returns its interpreter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    monkeypatch.setattr(emulation, "emulation", lambda *_: emulation.Emulation(lacking="this test emulates nothing"))
    (tmp_path / "spec.json").write_text(json.dumps(SPEC), "utf-8")
    base = Path(sys.executable).resolve()

    def make(**behaviour: Any) -> Path:
        home = tmp_path / "venv"
        packages = home / "lib" / f"python{PYTHON}" / "site-packages"
        shutil.copytree(PACKAGES, packages)
        (packages / "behaviour.json").write_text(json.dumps(behaviour), "utf-8")
        (home / "bin").mkdir()
        (home / "bin" / "python").symlink_to(base)
        (home / "pyvenv.cfg").write_text(f"home = {base.parent}\n", "utf-8")
        return home / "bin" / "python"

    return make


def outcome(name: str, python: Path, *options: str) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code, and the verdict and the message of each check."""
    code = ci_runner("smoke", name, "--spec", "spec.json", "--branch", "main", "--python", python, *options)
    report = json.loads(Path("test-output/result.json").read_text("utf-8"))
    assert report["passed"] == (code == 0)
    checks = report["checks"]
    return code, {one["check"]: one["verdict"] for one in checks}, {one["check"]: one["message"] for one in checks}


def test_a_build_that_meets_the_expectations_passes(
    interpreter: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, messages = outcome(TORCH, interpreter(), "--json")
    assert code == 0
    assert {name for name, verdict in verdicts.items() if verdict != "ok"} == {"emulated-cpu"}
    assert [*verdicts] == [
        "machine-system",
        "machine-instructions",
        "import",
        "version",
        "toolkit",
        "architectures",
        "dnn",
        "dispatch",
        "matmul-cpu",
        "emulated-cpu",
    ]
    assert messages["version"] == "2.8.0"
    out, err = capsys.readouterr()
    assert err == ""
    assert {one["check"]: one["found"] for one in checked("ci-runner smoke", out)} == messages
    assert f"| {TORCH} | cpu-test | passed (on a larger CPU) |" in Path("summary.md").read_text("utf-8")


def test_a_gpu_build_is_tested_on_cpu_and_gpu(interpreter: Callable[..., Path]) -> None:
    code, verdicts, messages = outcome(GPU_TORCH, interpreter(**GPU_BUILD), "--stage", "gpu-test")
    assert code == 0, messages
    assert [*verdicts][-6:] == ["matmul-cpu", "gpu", "matmul-gpu", "convolution-gpu", "linalg-gpu", "collectives-gpu"]
    assert {name for name, verdict in verdicts.items() if verdict != "ok"} == {"machine-gpu-health", "collectives-gpu"}
    assert messages["machine-gpu-health"].startswith("not readable: memory errors, ")
    assert messages["collectives-gpu"].startswith("PyTorch has loaded no libnccl.so")
    assert messages["linalg-gpu"].startswith("MAGMA's solution is off by 0 of the largest value")
    assert messages["gpu"] == "NVIDIA H200, sm_90"
    assert messages["dnn"] == "cuDNN 91002"
    assert "bfloat16" in messages["matmul-gpu"]
    assert "float64" in messages["matmul-gpu"]


def test_the_compiled_architectures_are_known_without_a_gpu(interpreter: Callable[..., Path]) -> None:
    code, _, messages = outcome(GPU_TORCH, interpreter(**{**GPU_BUILD, "gpus": []}))
    assert code == 0
    assert messages["architectures"] == "sm_90"


@pytest.mark.parametrize(
    ("name", "last"),
    [(VISION, ["nms", "roi-align", "resnet"]), (AUDIO, ["resample"])],
)
def test_each_package_has_numerics_of_its_own(interpreter: Callable[..., Path], name: str, last: list[str]) -> None:
    gpu = name.replace("cpu", "cuda12_8-sm90")
    code, verdicts, messages = outcome(gpu, interpreter(**GPU_BUILD), "--stage", "gpu-test")
    assert code == 0, messages
    for check in last:
        assert (verdicts[f"{check}-cpu"], verdicts[f"{check}-gpu"]) == ("ok", "ok")


def test_a_package_without_known_tests_is_imported_and_its_version_checked(
    interpreter: Callable[..., Path],
) -> None:
    python = interpreter()
    packages = python.parents[1] / "lib" / f"python{PYTHON}" / "site-packages"
    (packages / "odd_one.py").write_text("", "utf-8")
    code, verdicts, messages = outcome(ODD, python)
    assert code == 1
    assert messages["version"] == "odd_one does not state its version"
    (packages / "odd_one-1.0.dist-info").mkdir()
    (packages / "odd_one-1.0.dist-info" / "METADATA").write_text("Name: odd-one\nVersion: 1.0\n", "utf-8")
    (packages / "odd_one-1.0.dist-info" / "top_level.txt").write_text("odd_one\n", "utf-8")
    code, verdicts, messages = outcome(ODD, python)
    assert code == 0
    assert [*verdicts][2:] == ["import", "version", "emulated-cpu"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "check", "behaviour", "message"),
    [
        (TORCH, "version", {"version": "2.7.1"}, "found 2.7.1, expected 2.8.0"),
        (TORCH, "toolkit", {"cuda": "12.8"}, "found 12.8, expected no CUDA"),
        (GPU_TORCH, "toolkit", {"cuda": "12.9"}, "found 12.9, expected 12.8"),
        (GPU_TORCH, "toolkit", {"cuda": None}, "found no CUDA, expected 12.8"),
        (GPU_TORCH, "architectures", {"architectures": ["sm_80"]}, "found sm_80, expected sm_90"),
        (
            GPU_TORCH,
            "architectures",
            {"architectures": ["sm_90", "sm_80"]},
            "found sm_80 sm_90, expected sm_90",
        ),
        (GPU_TORCH, "architectures", {"architectures": []}, "found none, expected sm_90"),
        (TORCH, "dnn", {"cudnn": 91002}, "found cuDNN 91002, expected no cuDNN"),
        (TORCH, "dispatch", {"dispatch": "DEFAULT"}, "found DEFAULT, expected AVX2 or AVX512"),
        (TORCH.replace("avx2", "avx"), "dispatch", {}, "found AVX2, expected DEFAULT or NO AVX"),
        (TORCH.replace("avx2", "avx512bf16"), "dispatch", {}, "found AVX2, expected AVX512"),
        (TORCH, "matmul-cpu", {"error": 0.01}, "a float32 product of inner dimension 257 is off by "),
        (TORCH, "matmul-cpu", {"error": float("nan")}, "a float32 product of inner dimension 257 is off by nan"),
        (
            GPU_TORCH,
            "convolution-gpu",
            {"error": 0.01},
            "the result is off by 0.01 of its largest value; 0.001 is allowed",
        ),
        (GPU_TORCH, "linalg-gpu", {"error": 0.01}, "the result is off by 0.01 of its largest value"),
        (VISION, "extension", {"operators": 12080}, "found 12.8, expected no CUDA"),
        (VISION, "nms-cpu", {"nms": [0, 1, 2]}, "found [0, 1, 2], expected [1, 2]"),
        (VISION, "resnet-cpu", {"error": 0.01}, "the result is off by 0.01 of its largest value"),
        (VISION, "version", {"torchvision": "0.22"}, "found 0.22, expected 0.23.0"),
        (AUDIO, "resample-cpu", {"pitch": 2}, "found 880 Hz, expected 440 Hz"),
        (AUDIO, "resample-cpu", {"height": 0.9}, "its energy is 0.8100 of what it was"),
    ],
)
def test_each_failure_is_one_line(
    interpreter: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    check: str,
    behaviour: dict[str, Any],
    message: str,
) -> None:
    on_gpu = name == GPU_TORCH
    python = interpreter(**({**GPU_BUILD, **behaviour} if on_gpu else behaviour))
    code, verdicts, messages = outcome(name, python, *(["--stage", "gpu-test"] if on_gpu else []))
    assert (code, verdicts[check]) == (1, "failed")
    assert messages[check].startswith(message)
    err = capsys.readouterr().err
    assert f"error: {name}: {check}: {message}" in err
    assert "[test-failed]" in err
    suite = ET.parse("test-output/junit.xml").getroot()[0]  # noqa: S314  (our own)
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert check in failed
    assert suite.get("failures") == str(len(failed))
    summary = Path("summary.md").read_text("utf-8").replace("\\_", "_")
    assert f"| {name} | {'gpu-test' if on_gpu else 'cpu-test'} | failed |" in summary
    assert f"| {check} | failed |" in summary


# Expectations of the user.


def test_the_user_can_override_expectations(interpreter: Callable[..., Path]) -> None:
    wheel = {**GPU_BUILD, "version": "2.8.0+cu129", "cuda": "12.9", "architectures": ["sm_80", "sm_90", "compute_90"]}
    python = interpreter(**wheel)
    options = ["--stage", "gpu-test", "--expect-cuda", "12.9"]
    assert outcome(GPU_TORCH, python, *options, "--expect-archs", "sm_90,compute_90,sm_80")[0] == 0
    code, verdicts, _ = outcome(GPU_TORCH, python, *options)
    assert (code, verdicts["version"], verdicts["architectures"]) == (1, "ok", "failed")
    exact = ["--expect-archs", "sm_80 sm_90 compute_90", "--expect-version"]
    assert outcome(GPU_TORCH, python, *options, *exact, "2.8.0+cu129")[0] == 0
    code, _, messages = outcome(GPU_TORCH, python, *options, *exact, "2.8.0+cu128")
    assert (code, messages["version"]) == (1, "found 2.8.0+cu129, expected 2.8.0+cu128")
    assert outcome(GPU_TORCH, python, *options, *exact, "2.9.0")[0] == 1


# Wrong hardware.


@pytest.mark.parametrize(
    ("machine", "name", "stage", "check", "message"),
    [
        (
            "haswell",
            TORCH.replace("avx2", "avx512bf16"),
            "cpu-test",
            "machine-instructions",
            "E5-2680 v3 @ 2.50GHz lacks avx512f, avx512dq",
        ),
        (
            "ice-lake",
            TORCH.replace("avx2", "avx512bf16"),
            "cpu-test",
            "machine-instructions",
            "lacks avx512_bf16, which avx512bf16 needs",
        ),
        (
            "grace",
            TORCH,
            "cpu-test",
            "machine-system",
            f"{TORCH} is built for x86_64-linux, and this machine is aarch64-linux",
        ),
        ("zen4", GPU_TORCH, "gpu-test", "machine-gpu", "no GPU was found: nvidia-smi is missing"),
        (
            "two-gpus",
            GPU_TORCH,
            "gpu-test",
            "machine-gpu-code",
            "no GPU here runs code built for sm90; found: NVIDIA GeForce GTX 1080 Ti (sm61), NVIDIA GeForce RTX 5090",
        ),
        (
            "h200",
            GPU_TORCH.replace("sm90", "sm120"),
            "gpu-test",
            "machine-gpu-code",
            "no GPU here runs code built for sm120; found: NVIDIA H200 (sm90)",
        ),
    ],
)
def test_on_the_wrong_machine_nothing_is_imported(
    interpreter: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    name: str,
    stage: str,
    check: str,
    message: str,
) -> None:
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known(machine))
    python = interpreter(events={"import": {"signal": "SIGILL"}})
    code, verdicts, messages = outcome(name, python, "--stage", stage)
    assert (code, verdicts[check]) == (1, "failed")
    assert message in messages[check]
    assert {verdicts["import"], verdicts["version"]} == {"skipped"}
    assert "so it was not imported" in messages["import"]
    assert not Path("test-output/probe.log").exists()


def test_a_gpu_that_pytorch_does_not_see_is_reported_and_its_checks_are_skipped(
    interpreter: Callable[..., Path],
) -> None:
    code, verdicts, messages = outcome(GPU_TORCH, interpreter(**{**GPU_BUILD, "gpus": []}), "--stage", "gpu-test")
    assert (code, verdicts["gpu"], verdicts["matmul-gpu"]) == (1, "failed", "skipped")
    assert messages["gpu"] == "RuntimeError: No CUDA GPUs are available"
    old = ["NVIDIA A100", [8, 0]]
    shutil.rmtree("venv")
    code, _, messages = outcome(GPU_TORCH, interpreter(**{**GPU_BUILD, "gpus": [old]}), "--stage", "gpu-test")
    assert messages["gpu"] == "no GPU runs sm_90; PyTorch sees NVIDIA A100 (sm_80)"


def test_of_several_gpus_one_that_runs_the_build_is_taken(interpreter: Callable[..., Path]) -> None:
    gpus = [["NVIDIA A100", [8, 0]], H200]
    code, _, messages = outcome(GPU_TORCH, interpreter(**{**GPU_BUILD, "gpus": gpus}), "--stage", "gpu-test")
    assert (code, messages["gpu"]) == (0, "NVIDIA H200, sm_90")


# Crashes.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "what", "at", "message"),
    [
        (
            "import",
            {"signal": "SIGILL"},
            "import",
            "import was ended by SIGILL: it uses an instruction that this CPU lacks. The CPU supports avx2",
        ),
        (
            "matmul",
            {"signal": "SIGILL"},
            "matmul-cpu",
            "matmul-cpu was ended by SIGILL: it uses an instruction that this CPU lacks",
        ),
        (
            "import",
            {"signal": "SIGSEGV"},
            "import",
            "import was ended by SIGSEGV: a library of another build is loaded, or the driver is broken; probe.log",
        ),
        (
            "matmul",
            {"signal": "SIGKILL"},
            "matmul-cpu",
            "matmul-cpu was ended by SIGKILL: the system killed it, most likely because it ran out of memory",
        ),
        ("matmul", {"signal": "SIGUSR1"}, "matmul-cpu", "matmul-cpu was ended by SIGUSR1: probe.log may say more"),
        ("matmul", {"exit": 3}, "matmul-cpu", "the interpreter ended with status 3 during matmul-cpu"),
        (
            "import",
            {"raise": "libcudart.so.12: cannot open\nmore"},
            "import",
            "RuntimeError: libcudart.so.12: cannot open",
        ),
    ],
)
def test_a_crash_is_one_line_with_its_likely_reason(
    interpreter: Callable[..., Path], event: str, what: dict[str, Any], at: str, message: str
) -> None:
    code, verdicts, messages = outcome(TORCH, interpreter(events={event: what}))
    assert (code, verdicts[at]) == (1, "failed")
    assert messages[at].startswith(message)
    names = [*verdicts]
    assert all(verdicts[name] == "skipped" for name in names[names.index(at) + 1 :])
    assert len(names) == 9


def test_a_test_that_hangs_is_terminated(interpreter: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.1)
    python = interpreter()
    packages = python.parents[1] / "lib" / f"python{PYTHON}" / "site-packages"
    (packages / "torchvision" / "models.py").write_text("import time\ntime.sleep(600)\n", "utf-8")

    def trial(seconds: float) -> tuple[int, dict[str, str], dict[str, str]]:
        monkeypatch.setattr(smoke, "job_seconds", lambda _: seconds)
        return outcome(VISION, python)

    code, verdicts, messages = with_time(trial, lambda result: result[1]["roi-align-cpu"] == "ok", first=3)
    assert (code, verdicts["roi-align-cpu"], verdicts["resnet-cpu"]) == (1, "ok", "failed")
    assert re.match(r"resnet-cpu did not end within [0-9]", messages["resnet-cpu"])


def test_output_of_the_package_disturbs_nothing_and_is_kept(interpreter: Callable[..., Path]) -> None:
    python = interpreter(events={"import": {"print": '{"check": "import", "verdict": "ok"} \x1b[0m'}})
    assert outcome(TORCH, python)[0] == 0
    assert '{"check": "import"' in Path("test-output/probe.log").read_text("utf-8")


def test_nothing_of_this_environment_reaches_the_interpreter(
    interpreter: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "torch.py").write_text("raise SystemExit(9)\n", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PYTHONSTARTUP", "nowhere")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("NIX_CACHE_SIGNING_KEY", "hush")
    python = interpreter()
    packages = python.parents[1] / "lib" / f"python{PYTHON}" / "site-packages"
    code = "import os, sys; print(dict(os.environ), os.getcwd(), sys.flags.isolated)\n"
    path = packages / "torch" / "__init__.py"
    path.write_text(path.read_text("utf-8").replace('meet("import")', code), "utf-8")
    assert outcome(TORCH, python)[0] == 0
    said = Path("test-output/probe.log").read_text("utf-8")
    assert "ATEN" not in said
    assert "hush" not in said
    assert "PYTHON" not in said
    assert said.rstrip().endswith(" 1"), "it was not isolated"
    assert str(tmp_path) not in said.replace(str(tmp_path / "venv"), "").replace(os.environ["PATH"], "")


def test_an_interpreter_that_does_not_start_is_reported(interpreter: Callable[..., Path]) -> None:
    interpreter()
    broken = Path("broken")
    broken.write_text("#!/bin/sh\necho no stdlib >&2\nexit 3\n", "utf-8")
    broken.chmod(0o755)
    code, verdicts, messages = outcome(TORCH, broken.absolute())
    assert (code, verdicts["interpreter"], verdicts["import"]) == (1, "failed", "skipped")
    assert messages["interpreter"] == "the interpreter ended with status 3 during starting: no stdlib"


# Reports.


def test_the_report_of_an_earlier_test_is_removed(
    interpreter: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = interpreter()
    assert outcome(TORCH, python)[0] == 0
    assert Path("test-output/probe.log").exists()
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("grace"))
    assert outcome(TORCH, python)[0] == 1
    assert not Path("test-output/probe.log").exists()


def test_messages_are_safe_in_every_report(interpreter: Callable[..., Path]) -> None:
    nasty = "<b>|`*]]>&\x00\x1b[31m\u2028 end"
    assert outcome(TORCH, interpreter(version=nasty))[0] == 1
    ET.parse("test-output/junit.xml")  # noqa: S314  (our own)
    rows = [line for line in Path("summary.md").read_text("utf-8").splitlines() if line.startswith("| version |")]
    assert len(rows) == 1
    assert "\\<b\\>\\|\\`\\*" in rows[0]


# Wrong input.


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--python", "nowhere/python"], 1, "nowhere/python: is not an executable program"),
        (["--python", sys.executable, "--branch", "next", "--stage", "gpu-test"], 2, "stage-missing"),
        (
            ["--python", sys.executable, "--out", "spec.json"],
            2,
            "spec.json: cannot be written to: File exists",
        ),
        (["--manifest", "nowhere.json"], 2, "nowhere.json: cannot be read: No such file or directory"),
    ],
)
def test_wrong_input_is_one_line(
    interpreter: Callable[..., Path], capsys: pytest.CaptureFixture[str], options: list[str], code: int, told: str
) -> None:
    interpreter()
    assert ci_runner("smoke", TORCH, "--spec", "spec.json", "--branch", "main", *options) == code
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_variant_on_two_branches_needs_the_name_of_one(
    interpreter: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ci_runner("smoke", TORCH, "--spec", "spec.json", "--python", interpreter()) == 2
    assert capsys.readouterr().err == f"error: --branch: {TORCH} is built on main and next; name one [which-branch]\n"
