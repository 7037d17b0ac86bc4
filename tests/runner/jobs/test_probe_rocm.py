"""The probe of a ROCm PyTorch: what tells it from a build for CUDA, the targets in its libraries, and the GPU."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.hardware.families import NamedTarget, family_of
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.runner.jobs import probing
from ci_compiler.runner.jobs.expectation import Expectation, expectation
from ci_compiler.runner.jobs.smoke_probe import checks, gpu_libraries, shared
from ci_compiler.runner.targets import find
from ci_compiler.spec.build import parse_spec
from ci_compiler.stages import CPU_TEST, GPU_TEST
from tests.loops import each
from tests.runner.jobs.world import PACKAGES

COMMAND = {"build": "b", "files": ["dist/*"], "install": "i", "publish": "p"}
SPEC: dict[str, Any] = {
    "version": 1,
    "owner": "my-org",
    "backend": "command",
    "branches": {"main": {"versions": {"pytorch": "2.8.0"}}},
    "packages": {"pytorch": {"attribute": "torch", "command": COMMAND}},
    "matrix": {
        "values": {"python": "3.13", "platform": "x86_64-linux", "accelerator": ["rocm 7.1 gfx942", "rocm 7.1", "cpu"]}
    },
    "runners": {
        "builder": {"runs-on": ["self-hosted", "x64", "builder"]},
        "mi300x": {"runs-on": ["self-hosted", "x64", "mi300x"], "accelerator": "rocm gfx942"},
    },
    "publish": {"on-shared-machines": True},
}
MI300X = ["AMD Instinct MI300X", "gfx942:sramecc+:xnack-"]
BUILD: dict[str, Any] = {"hip": "7.1.25424", "architectures": ["gfx942"], "cudnn": 3005001, "gpus": [MI300X]}
"""What the stand-in for PyTorch shows on a machine with an MI300X."""


def wanted(name: str, stage: Any) -> Expectation:
    return expected(SPEC, name, stage)


def expected(document: dict[str, Any], name: str, stage: Any) -> Expectation:
    """What a stage expects of a variant of the spec."""
    spec = parse_spec(json.dumps(document).encode(), shown="spec.json")
    return expectation(spec, find(spec, name, "main"), stage)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the stand-in for PyTorch."""
    return with_torch(tmp_path)


def with_torch(tmp_path: Path) -> Path:
    """The folder, with the stand-in for PyTorch in it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_bytes((PACKAGES / "torch/__init__.py").read_bytes())
    return tmp_path


def probed(site: Path, asked: Expectation, **behaviour: Any) -> dict[str, tuple[str, str]]:
    """The verdict and the message of each check of a build that behaves as `behaviour`."""
    (site / "behaviour.json").write_text(json.dumps(BUILD | behaviour), "utf-8")
    found = subprocess.run(
        [
            sys.executable,
            "-I",
            "-B",
            "-X",
            "utf8",
            "-c",
            probing.START.format("script"),
            str(Path(probing.__file__).parent),
        ],
        input=replace(asked, paths=(str(site),)).as_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    results, begun, _ = probing.printed_results(found.stdout)
    assert begun == ""
    return {one.check: (one.verdict.value, one.message) for one in results}


GFX942 = "pytorch-python313-rocm7_1-gfx942-x86_64-linux"


def test_a_rocm_build_passes_on_its_gpu(site: Path) -> None:
    found = probed(site, wanted(GFX942, GPU_TEST))
    assert [check for check, (verdict, _) in found.items() if verdict == "failed"] == []
    said = {check: message for check, (_, message) in found.items()}
    assert (said["toolkit"], said["architectures"], said["dnn"]) == ("7.1", "gfx942", "MIOpen 3005001")
    assert said["gpu"] == "AMD Instinct MI300X, gfx942:sramecc+:xnack-"
    assert {"matmul-gpu", "convolution-gpu", "linalg-gpu"} <= found.keys()


@pytest.mark.parametrize(
    ("behaviour", "check", "message"),
    [
        ({"hip": None, "cuda": "12.8"}, "toolkit", "found no ROCm, expected 7.1"),
        ({"hip": "6.4.43482-0f2d60242"}, "toolkit", "found 6.4, expected 7.1"),
        ({"architectures": ["gfx90a", "gfx942"]}, "architectures", "found gfx90a gfx942, expected gfx942"),
        ({"gpus": [["AMD Radeon RX 7900 XTX", "gfx1100"]]}, "gpu", "AMD Radeon RX 7900 XTX (gfx1100)"),
        ({"gpus": []}, "gpu", "RuntimeError"),
        ({"error": 0.5}, "matmul-gpu", "x the bound"),
    ],
)
def test_a_build_that_is_not_what_its_name_says_fails(
    site: Path, behaviour: dict[str, Any], check: str, message: str
) -> None:
    verdict, said = probed(site, wanted(GFX942, GPU_TEST), **behaviour)[check]
    assert verdict == "failed"
    assert message in said


def test_a_rocm_build_is_no_cpu_build(site: Path) -> None:
    found = probed(site, wanted("pytorch-python313-cpu-x86_64-linux", CPU_TEST))
    assert (found["architectures"][0], found["dnn"][0]) == ("failed", "failed")


def test_a_build_that_names_no_target_is_tested_on_any_gpu(site: Path) -> None:
    found = probed(site, wanted("pytorch-python313-rocm7_1-x86_64-linux", GPU_TEST), architectures=["gfx90a", "gfx942"])
    assert found["gpu"][0] == "ok"
    assert "architectures" not in found


def bundle(*targets: str, kind: str = "hipv4-amdgcn-amd-amdhsa-") -> bytes:
    """A bundle with code for the host and for `targets` (LLVM, "Clang Offload Bundler"), among other bytes."""
    names = [b"host-x86_64-unknown-linux-", *(f"{kind}-{one}".encode() for one in targets)]
    entries = b"".join(struct.pack("<QQQ", 4096, 0, len(name)) + name for name in names)
    return (
        b"other .hip_fatbin bytes" + b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + entries + b"\0" * 64
    )


def test_the_targets_of_pytorch_are_those_in_its_binary_whatever_its_list_says(site: Path) -> None:
    (site / "torch/lib").mkdir()
    library = site / "torch/lib/libtorch_hip.so"
    library.write_bytes(bundle("gfx1100", "gfx942:sramecc+:xnack-") + bundle("gfx942:sramecc+:xnack-"))
    verdict, said = probed(site, wanted(GFX942, CPU_TEST))["architectures"]
    assert (verdict, said) == ("failed", "found gfx1100 gfx942:sramecc+:xnack-, expected gfx942")
    library.write_bytes(bundle("gfx942"))
    assert probed(site, wanted(GFX942, CPU_TEST), architectures=["gfx90a"])["architectures"] == ("ok", "gfx942")
    library.write_bytes(b"ELF .hip_fatbin CCOB")  # compressed: what PyTorch says of itself counts
    assert probed(site, wanted(GFX942, CPU_TEST))["architectures"] == ("ok", "gfx942")


@pytest.fixture
def rocm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(shared, "_FAMILY", {})
    shared.use_family(machines_of("rocm").probe)
    return shared.family()


@pytest.mark.parametrize(
    ("built", "there", "runs"),
    [
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False),
        ("gfx1100", "gfx1101", False),
        ("gfx11-generic", "gfx1101", True),
        ("gfx9-generic", "gfx90a:sramecc+:xnack-", False),
    ],
)
def test_a_gpu_runs_code_for_its_own_target_or_a_generic_one(
    rocm: Any, monkeypatch: pytest.MonkeyPatch, built: str, there: str, runs: bool
) -> None:
    assert rocm.runs(there, built) is runs
    assert machines_of("rocm").probe.endswith("rocm/probe.py")
    gpus = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda _: "GPU",
        get_device_properties=lambda _: SimpleNamespace(gcnArchName=there),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=gpus))
    asked = {"targets": [built], "device_kind": "cuda"}
    if runs:
        assert checks.gpu(asked) == "cuda:0"
    else:
        with pytest.raises(checks.WrongError, match=f"no GPU runs {built}".replace("+", r"\+")):
            checks.gpu(asked)


def test_the_rule_of_the_probe_is_the_one_of_the_family(rocm: Any) -> None:
    family = family_of("rocm")
    names = ["gfx90a", "gfx942", "gfx942:sramecc+:xnack-", "gfx1100", "gfx1101", "gfx11-generic", "gfx9-4-generic"]
    for machine in each(names[:5]):
        for built in (*names, "gfx942:xnack-", "gfx942:xnack+"):
            expected = family.runs(NamedTarget(machine, "rocm"), NamedTarget(built, "rocm"))
            assert rocm.runs(machine, built) is expected, (machine, built)


def test_targets_with_matrix_instructions_for_bfloat16(rocm: Any) -> None:
    names = "gfx906 gfx908 gfx90a:sramecc+:xnack- gfx90c gfx942 gfx950 gfx1030 gfx1100 gfx1201"
    assert [one for one in names.split() if rocm.has_bfloat16(one)] == (
        ["gfx908", "gfx90a:sramecc+:xnack-", "gfx942", "gfx950", "gfx1100", "gfx1201"]
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bundle("gfx90a", "gfx942"), "RCCL has code for gfx90a gfx942"),
        (bundle("gfx942", kind="hip-amdgcn-amd-amdhsa-unknown"), "RCCL has code for gfx942"),
        (bundle("gfx90a"), None),
        (b"no code", None),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2**63), None),
        (b"__CLANG_OFFLOAD_BUNDLE__", None),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 0, 0, 2**40), None),
    ],
)
def test_rccl_needs_code_for_the_gpu(
    rocm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, said: str | None
) -> None:
    library = tmp_path / "librccl.so.1"
    library.write_bytes(content)
    gpus = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(gcnArchName=MI300X[1]))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=gpus))
    monkeypatch.setattr(gpu_libraries, "loaded", lambda: [str(library)])
    assert rocm.TITLE == "ROCm"
    if said is not None:
        assert gpu_libraries.collectives("cuda:0") == said
    else:
        with pytest.raises(checks.WrongError, match="does not run on gfx942"):
            gpu_libraries.collectives("cuda:0")


def test_compressed_code_is_not_judged(rocm: Any, tmp_path: Path) -> None:
    (tmp_path / "librccl.so.1").write_bytes(b".hip_fatbin CCOB")
    assert rocm.code_of(tmp_path / "librccl.so.1", "gfx942") == (None, "compressed code, whose targets are not read")


def test_the_operators_of_torchvision_do_not_state_their_toolkit(rocm: Any) -> None:
    for has, toolkit in ((True, "7.1"), (False, "")):
        dispatcher = SimpleNamespace(_dispatch_has_kernel_for_dispatch_key=lambda *_, has=has: has)
        assert rocm.extension(SimpleNamespace(_C=dispatcher, version=SimpleNamespace(hip="7.1.25424"))) == toolkit
