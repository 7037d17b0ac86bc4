"""The probe of PyTorch for CANN, with stand-ins for PyTorch and torch_npu. It has not run on an NPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_compiler.stages import CPU_TEST, GPU_TEST
from tests.runner.jobs.test_probe_others import failed
from tests.runner.jobs.test_probe_rocm import SPEC, expected, probed, with_torch

ACCELERATORS = ["cpu", "cann 8.3 ascend910b1", "cann ascend310p"]
DOCUMENT: dict[str, Any] = SPEC | {
    "matrix": {"values": {"python": "3.13", "platform": "x86_64-linux", "accelerator": ACCELERATORS}},
    "runners": {
        "builder": {"runs-on": ["self-hosted", "x64", "builder"]},
        "npu": {"runs-on": ["self-hosted", "x64", "npu"], "accelerator": "cann ascend910b"},
    },
}
TORCH_NPU = """\
from types import SimpleNamespace

import torch

known = torch.BEHAVIOUR
torch.version.cann = known["cann"]
torch.npu = SimpleNamespace(
    is_available=lambda: bool(known["chips"]),
    init=torch._cuda_init,
    device_count=lambda: len(known["chips"]),
    get_device_name=lambda index: known["chips"][index],
    synchronize=lambda _: None,
    matmul=SimpleNamespace(allow_hf32=True),
    conv=SimpleNamespace(allow_hf32=True),
)
"""
BUILD: dict[str, Any] = {"hip": None, "architectures": [], "gpus": [], "cann": "8.3.RC2", "chips": ["Ascend910B4"]}
"""A PyTorch with torch_npu on a machine with an Atlas 800I A2."""

NAME = "pytorch-python313-cann8_3-ascend910b1-x86_64-linux"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "torch_npu.py").write_text(TORCH_NPU)
    return with_torch(tmp_path)


def test_a_build_for_a_chip_passes_on_an_npu_of_its_series(site: Path) -> None:
    found = probed(site, expected(DOCUMENT, NAME, GPU_TEST), **BUILD)
    assert failed(found) == {}
    said = {check: message for check, (_, message) in found.items()}
    assert (said["toolkit"], said["dnn"], said["gpu"]) == ("8.3", "aclnn of CANN 8.3", "Ascend910B4, ascend910b")
    assert found["architectures"] == ("skipped", "PyTorch does not tell the architectures of CANN")
    assert "bfloat16" in said["matmul-gpu"]
    assert "float64" not in said["matmul-gpu"]


@pytest.mark.parametrize(
    ("behaviour", "check", "message"),
    [
        ({"cann": "8.1.RC1"}, "toolkit", "found 8.1, expected 8.3"),
        ({"chips": ["Ascend910_9391"]}, "gpu", "PyTorch sees Ascend910_9391 (ascend910_93)"),
        ({"chips": ["Ascend910B"]}, "gpu", "PyTorch sees Ascend910B (ascend910)"),
        ({"chips": []}, "gpu", "RuntimeError"),
        ({"error": 0.5}, "matmul-gpu", "x the bound"),
    ],
)
def test_a_build_that_is_not_what_its_name_says_fails(
    site: Path, behaviour: dict[str, Any], check: str, message: str
) -> None:
    assert message in failed(probed(site, expected(DOCUMENT, NAME, GPU_TEST), **BUILD | behaviour))[check]


def test_an_old_series_has_no_bfloat16(site: Path) -> None:
    wanted = expected(DOCUMENT, "pytorch-python313-cann-ascend310p-x86_64-linux", GPU_TEST)
    found = probed(site, wanted, **BUILD | {"chips": ["Ascend310P3"]})
    assert failed(found) == {}
    assert "bfloat16" not in found["matmul-gpu"][1]


def test_a_pytorch_without_torch_npu_is_no_build_for_it(site: Path) -> None:
    (site / "torch_npu.py").unlink()
    found = failed(probed(site, expected(DOCUMENT, NAME, CPU_TEST), **BUILD))
    assert found["toolkit"] == "found no CANN, expected 8.3"
    assert found["dnn"] == "found no aclnn, expected aclnn"
