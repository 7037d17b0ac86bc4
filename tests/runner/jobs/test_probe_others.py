"""The probes of PyTorch for XPU and for Metal, with stand-ins for both. None has run on a GPU of Intel or Apple."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.runner.jobs.expectation import Expectation
from ci_compiler.runner.jobs.smoke_probe import checks, shared
from ci_compiler.stages import CPU_TEST, GPU_TEST
from tests.runner.jobs.test_probe_rocm import SPEC, expected, probed, with_torch

ACCELERATORS = ["cpu", "xpu 2026.1 bmg", "xpu 2026.1", "xpu spir64"]
DOCUMENT: dict[str, Any] = SPEC | {
    "matrix": {
        "rows": [
            {"python": "3.13", "platform": "x86_64-linux", "accelerator": ACCELERATORS},
            {"python": "3.13", "platform": "aarch64-darwin", "accelerator": "metal"},
        ]
    },
    "runners": {
        "builder": {"runs-on": ["self-hosted", "x64", "builder"]},
        "arc": {"runs-on": ["self-hosted", "x64", "arc"], "accelerator": "xpu bmg"},
        "mac": {"runs-on": ["self-hosted", "macOS", "arm64", "b"]},
    },
}
B580 = ["Intel(R) Arc(TM) B580 Graphics", 0xE20B, True]
A770 = ["Intel(R) Arc(TM) A770 Graphics", 0x56A0, False]
UHD = ["Intel(R) UHD Graphics 770", 0x4680, False]
XPU: dict[str, Any] = {
    "hip": None,
    "xpu": "20260100",
    "architectures": ["bmg"],
    "cudnn": 0,
    "gpus": [],
    "cards": [B580],
}
"""A PyTorch for Battlemage on a machine with a B580."""

METAL: dict[str, Any] = {"hip": None, "architectures": [], "gpus": [], "metal": "Apple M3 Max", "dispatch": "DEFAULT"}


def wanted(accelerator: str, stage: Any, platform: str = "x86_64-linux") -> Expectation:
    return expected(DOCUMENT, f"pytorch-python313-{accelerator}-{platform}", stage)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return with_torch(tmp_path)


def failed(found: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {check: message for check, (verdict, message) in found.items() if verdict == "failed"}


def test_an_xpu_build_passes_on_its_gpu(site: Path) -> None:
    found = probed(site, wanted("xpu2026_1-bmg", GPU_TEST), **XPU)
    assert failed(found) == {}
    said = {check: message for check, (_, message) in found.items()}
    assert (said["toolkit"], said["architectures"], said["dnn"]) == ("2026.1", "bmg", "oneDNN in PyTorch")
    assert said["gpu"] == "Intel(R) Arc(TM) B580 Graphics, bmg"
    assert "float64" in said["matmul-gpu"]
    assert found["linalg-gpu"][0] == "skipped"


@pytest.mark.parametrize(
    ("behaviour", "check", "message"),
    [
        ({"xpu": None, "cuda": "12.8"}, "toolkit", "found no XPU, expected 2026.1"),
        ({"xpu": "20250300"}, "toolkit", "found 2025.3, expected 2026.1"),
        ({"architectures": ["pvc", "bmg"]}, "architectures", "found bmg pvc, expected bmg"),
        ({"architectures": []}, "architectures", "found spir64, expected bmg"),
        ({"onednn": False}, "dnn", "found no oneDNN, expected oneDNN"),
        ({"cards": [A770]}, "gpu", "no GPU runs bmg; PyTorch sees Intel(R) Arc(TM) A770 Graphics (dg2)"),
        ({"cards": [UHD]}, "gpu", "Intel(R) UHD Graphics 770 (xpu)"),
        ({"cards": []}, "gpu", "RuntimeError"),
        ({"error": 0.5}, "matmul-gpu", "x the bound"),
    ],
)
def test_an_xpu_build_that_is_not_what_its_name_says_fails(
    site: Path, behaviour: dict[str, Any], check: str, message: str
) -> None:
    assert message in failed(probed(site, wanted("xpu2026_1-bmg", GPU_TEST), **XPU | behaviour))[check]


def test_spirv_runs_on_each_of_them_and_types_are_those_of_the_gpu(site: Path) -> None:
    found = probed(site, wanted("xpu-spir64", GPU_TEST), **XPU | {"architectures": [], "cards": [UHD]})
    assert failed(found) == {}
    assert found["architectures"] == ("ok", "spir64")
    assert "toolkit" not in found
    assert "float64" not in found["matmul-gpu"][1]


def test_a_cpu_build_is_no_xpu_build(site: Path) -> None:
    found = probed(site, wanted("cpu", CPU_TEST), **XPU | {"xpu": None, "architectures": []})
    assert failed(found) == {"dnn": "found cuDNN 0, expected no cuDNN"}  # the stand-in always has one
    assert (found["toolkit"], found["architectures"]) == (("ok", "no CUDA"), ("ok", "none"))


MAC = "aarch64-darwin"


def test_a_build_for_metal_computes_on_the_gpu_of_a_mac(site: Path) -> None:
    found = probed(site, wanted("metal", GPU_TEST, MAC), **METAL)
    assert failed(found) == {}
    assert found["gpu"] == ("ok", "Apple M3 Max, metal")
    assert found["dnn"] == ("ok", "MPS of macOS")
    assert "float64" not in found["matmul-gpu"][1]
    assert (found["linalg-gpu"][0], found["collectives-gpu"][0]) == ("skipped", "skipped")
    assert "toolkit" not in found


@pytest.mark.parametrize(
    ("metal", "check", "message"),
    [
        ("Apple Paravirtual device", "gpu", "Apple Paravirtual device is the device of a virtual machine"),
        ("", "gpu", "PyTorch sees no GPU with Metal"),
        (None, "dnn", "found no MPS, expected MPS"),
    ],
)
def test_a_virtual_device_and_none_fail(site: Path, metal: str | None, check: str, message: str) -> None:
    found = probed(site, wanted("metal", GPU_TEST, MAC), **METAL | {"metal": metal})
    assert message in failed(found)[check]


def test_a_check_of_what_a_family_does_not_tell_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probe.py").write_text('TITLE = "Example"\n')
    monkeypatch.setattr(shared, "_FAMILY", {})
    shared.use_family(str(tmp_path / "probe.py"))
    monkeypatch.setattr(checks, "torch_module", lambda: None)
    with pytest.raises(shared.SkippedError, match="PyTorch does not tell the architectures of Example"):
        checks.architectures({"architectures": ["a1"]})


@pytest.mark.parametrize(
    ("family", "asked", "exact"),
    [("xpu", ["xpu:0", "highest"], {"allow_tf32": False}), ("metal", ["all"], {})],
)
def test_a_benchmark_waits_for_the_gpu_and_computes_exactly(
    monkeypatch: pytest.MonkeyPatch, family: str, asked: list[str], exact: dict[str, bool]
) -> None:
    monkeypatch.setattr(shared, "_FAMILY", {})
    shared.use_family(machines_of(family).probe)
    waited: list[str] = []
    mps = SimpleNamespace(is_available=lambda: True)
    torch = SimpleNamespace(
        xpu=SimpleNamespace(synchronize=waited.append),
        mps=SimpleNamespace(synchronize=lambda: waited.append("all")),
        backends=SimpleNamespace(mps=mps, mkldnn=SimpleNamespace()),
        set_float32_matmul_precision=waited.append,
    )
    monkeypatch.setattr(shared, "torch_module", lambda: torch)
    shared.devices_of("xpu").synchronize("xpu:0")
    shared.family().be_exact(torch)
    assert (waited, vars(torch.backends.mkldnn)) == (asked, exact)
    assert shared.family().has_bfloat16("bmg")
