"""The code for GPUs in a build, as the jobs of its stages read it: the build, its manifest, and both tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.hardware import Version
from ci_compiler.hardware.families.cuda import libcuda
from ci_compiler.hardware.families.machines import Attempt, UsedDevice
from ci_compiler.runner.jobs import smoke
from ci_compiler.runner.jobs.files import digest_of
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import PYTHON
from tests.runner.jobs.test_device_code import NVCC, archived, bundle, fat, stated
from tests.runner.machines import known

NAME = "ext-cuda12_8-sm90"
WHEEL = "ext-1.0-py3-none-any.whl"
METADATA = {
    "ext-1.0.dist-info/METADATA": b"Name: ext\nVersion: 1.0\nRequires-Dist: torch (==2.8.0) ; python_version > '3'\n"
}


def declare(project: Project, code: bytes) -> None:
    """Commits a spec of a wheel, and the wheel with this code, which its build script copies."""
    spec: dict[str, Any] = {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"ext": "1.0"}}},
        "names": "{accelerator}",
        "packages": {
            "ext": {
                "command": {
                    "build": "ci/build.sh",
                    "files": ["dist/*"],
                    "install": "i",
                    "publish": "p",
                    "setup": "true",
                },
                "smoke": {"cpu": {"python": "ci/smoke.py"}, "gpu": {"python": "ci/smoke.py"}},
            }
        },
        "matrix": {"values": {"python": PYTHON, "platform": "x86_64-linux", "accelerator": "cuda 12.8 sm90"}},
        "runners": {
            "builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"]},
            "h200": {"runs-on": ["self-hosted", "linux", "x64", "h200"], "accelerator": "cuda sm90"},
        },
        "publish": {"on-shared-machines": True},
    }
    (project.root / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    (project.root / "ci/smoke.py").write_text("", "utf-8")
    (project.root / "ci/ext.whl").write_bytes(archived(**METADATA, **{"ext/k.so": code}))
    project.write("ci/build.sh", f"#!/bin/sh -e\nmkdir -p dist\ncp ci/ext.whl dist/{WHEEL}\n")


def test_a_build_with_foreign_code_fails(project: Project) -> None:
    declare(project, fat("sm_80") + NVCC)
    done = project.job("build", NAME, "--branch", "main", status=1)
    assert done.stderr.splitlines() == [
        f"error: {NAME}: {WHEEL}/ext/k.so has code for sm_80 (CUDA), and the variant is for sm90 [device-code-differs]",
        f"error: {NAME}: nothing is compiled for sm90; there is code for sm_80 [device-code-differs]",
    ]
    assert not (project.root / MANIFEST).exists()


def test_a_build_by_another_toolkit_fails(project: Project) -> None:
    declare(project, fat("sm_90") + stated("13.0.88"))
    done = project.job("build", NAME, "--branch", "main", status=1)
    message = f"{WHEEL}/ext/k.so is compiled by nvcc 13.0.88, and the variant is for CUDA 12.8 [device-code-differs]"
    assert done.stderr.splitlines() == [f"error: {NAME}: {message}"]


def test_the_manifest_states_what_was_read(project: Project) -> None:
    declare(project, fat("sm_90", "ptx_90") + NVCC)
    project.job("build", NAME, "--branch", "main")
    found = {key: project.manifest[key] for key in ("architectures", "compilers", "torch")}
    assert found == {"architectures": ["sm_90", "PTX sm_90"], "compilers": ["nvcc 12.8.93"], "torch": "2.8.0"}


@pytest.fixture
def gpu(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, on a machine with an H200 that a process can use."""
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    used = UsedDevice("NVIDIA H200", Version(9, 0))
    monkeypatch.setattr(libcuda, "attempts", lambda _: [Attempt("libcuda.so.1", linked=True, devices=(used,))])
    return project


def checked(project: Project, stage: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    """The status of a test of the build that is there, the verdict and message of each check, and the summary."""
    summary = project.root.parent / "summary.md"
    summary.write_text("", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        status = run(PROGRAM, ["smoke", NAME, "--stage", stage, "--manifest", MANIFEST])
    rows = json.loads(Path("test-output/result.json").read_text("utf-8"))["checks"]
    return status, {row["check"]: (row["verdict"], row["message"]) for row in rows}, summary.read_text("utf-8")


def test_a_gpu_test_of_ptx_alone_says_so(gpu: Project) -> None:
    declare(gpu, fat("ptx_90") + NVCC)
    done = gpu.job("build", NAME, "--branch", "main", GITHUB_STEP_SUMMARY=str(gpu.root.parent / "built.md"))
    assert done.returncode == 0
    assert "PTX alone: compiled by the driver when first used" in (gpu.root.parent / "built.md").read_text("utf-8")
    status, checks, summary = checked(gpu, "gpu-test")
    assert status == 0
    alone = "compiles code for sm90 when it is first used: PTX alone was built"
    assert checks["machine-gpu-code"] == ("ok", f"NVIDIA H200 (sm90) {alone}")
    said = "code for PTX sm_90; PTX alone: compiled by the driver when first used (sm90)"
    assert checks["device-code"] == ("skipped", said)
    assert "PTX alone: compiled by the driver when first used (sm90)" in summary
    assert "runs code built for" not in json.dumps(checks) + summary


def test_a_test_reads_the_code_as_well(gpu: Project) -> None:
    declare(gpu, fat("sm_90") + NVCC)
    gpu.job("build", NAME, "--branch", "main")
    _, checks, _ = checked(gpu, "gpu-test")
    assert checks["machine-gpu-code"] == ("ok", "NVIDIA H200 (sm90) runs code built for sm90")
    assert checks["device-code"] == ("ok", "code for sm_90")


@pytest.mark.parametrize("stage", ["cpu-test", "gpu-test"])
def test_a_test_of_a_build_with_foreign_code_fails(gpu: Project, stage: str) -> None:
    declare(gpu, fat("sm_90") + NVCC)
    gpu.job("build", NAME, "--branch", "main")
    file = gpu.root / f"build-output/files/{WHEEL}"
    file.write_bytes(archived(**METADATA, **{"ext/k.so": fat("sm_80", "sm_90"), "ext/h.so": bundle("gfx942")}))
    manifest = gpu.manifest
    manifest["closure"][f"files/{WHEEL}"] = digest_of(file.read_bytes())
    (gpu.root / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    status, checks, _ = checked(gpu, stage)
    assert (status, checks["device-code"][0]) == (1, "failed")
    assert checks["device-code"][1].startswith(
        f"{WHEEL}/ext/h.so has code for gfx942 (ROCm), and the variant is for sm90"
    )
    assert "so it was not imported" in checks["smoke"][1]
