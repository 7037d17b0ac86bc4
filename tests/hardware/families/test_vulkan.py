"""Vulkan compiles for no target, and is another interface of GPUs that other families list."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_compiler.hardware.families.machines import Attempt, machines_of
from ci_compiler.hardware.families.vulkan import FAMILY
from ci_compiler.hardware.families.vulkan.machines import MACHINES
from ci_compiler.plan.machine_fit import fit
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor import hardware_checks
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.stages import GPU_TEST
from tests.hardware.families import runs
from tests.plan.test_open_matrix import decided
from tests.runner.machines import recorded


def test_there_are_no_targets() -> None:
    assert (FAMILY.name, FAMILY.title) == ("vulkan", "Vulkan")
    assert not any(map(FAMILY.is_target, ("", "all", "vulkan", "spirv", "sm90")))
    assert runs(FAMILY, "vulkan", "vulkan")


GPUS = """\
GPU0:
\tapiVersion         = 1.2.203
\tvendorID           = 0x8086
\tdeviceType         = PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
\tdeviceName         = Intel(R) HD Graphics 530
\tdriverID           = DRIVER_ID_INTEL_PROPRIETARY_WINDOWS
GPU1:
\tdeviceType         = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName         = AMD Radeon (TM) R9 380 Series
"""
"""KhronosGroup/Vulkan-Tools issue 801."""

LLVMPIPE = """\
GPU0:
\tvendorID           = 0x10005
\tdeviceType         = PHYSICAL_DEVICE_TYPE_CPU
\tdeviceName         = llvmpipe (LLVM 17.0.6, 128 bits)
\tdriverID           = DRIVER_ID_MESA_LLVMPIPE
"""
"""A public report of a virtual machine; kpet/clvk issue 537 has the same with an older LLVM."""

VENUS = LLVMPIPE.replace("TYPE_CPU", "TYPE_VIRTUAL_GPU").replace("llvmpipe (LLVM 17.0.6, 128 bits)", "Virtio-GPU Venus")


@pytest.mark.parametrize(
    ("prints", "works", "said"),
    [
        (GPUS, True, "Vulkan lists Intel(R) HD Graphics 530 and AMD Radeon (TM) R9 380 Series"),
        (GPUS + LLVMPIPE, True, "Series"),
        (LLVMPIPE, False, "llvmpipe (LLVM 17.0.6, 128 bits) is no GPU, but a device CPU"),
        (VENUS, False, "Virtio-GPU Venus is no GPU, but a device VIRTUAL_GPU"),
        ("Cannot create Vulkan instance\n", False, "vulkaninfo lists no device: Cannot create Vulkan instance"),
        (None, False, "there is no vulkaninfo"),
    ],
)
def test_a_software_renderer_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str | None, works: bool, said: str
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    if prints is not None:
        (tmp_path / "text").write_text(prints, "utf-8")
        tool = tmp_path / "vulkaninfo"
        tool.write_text(f'#!/bin/sh\nwhile IFS= read -r line; do echo "$line"; done <{tmp_path}/text\n', "utf-8")
        tool.chmod(0o755)
    known = machines_of("vulkan")
    judged = known.usable(tuple(known.attempts(deep=True)), reads_loader_cache=True)
    assert judged.failed is not works
    assert said in judged.message


def test_a_container_gets_the_render_nodes_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    nodes = [tmp_path / "dev/dri" / name for name in ("renderD128", "renderD129")]
    for node in (*nodes, tmp_path / "dev/dri/card0"):
        node.touch()
    devices = [word for node in nodes for word in ("--device", f"/dev/dri/{node.name}")]
    group = str(nodes[0].stat().st_gid)
    assert MACHINES.options("docker", (), tmp_path) == [*devices, "--group-add", group]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert MACHINES.options("podman", (), tmp_path) == [*devices, "--group-add", "keep-groups"]


def test_the_doctor_tries_what_no_list_of_gpus_has() -> None:
    pool = {"runs-on": ["self-hosted", "linux", "x64", "v"], "accelerator": "vulkan", "memory": 1, "disk": 1}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "builder"]}
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", "vulkan"]}
    spec = decided({"values": values}, runners={"v": pool, "x86": builder}).spec
    own_pool = next(one for one in spec.pools if one.name == "v")
    work = work_of(spec, stage=GPU_TEST, name="ext-vulkan-x86_64-linux", pool=own_pool)
    own = machine(recorded("h200"), spec.hardware)
    tried = (Attempt("llvmpipe", linked=True, problem="llvmpipe is no GPU"),)
    for check in ("gpu", "gpu_code", "gpu_usable"):
        found = getattr(hardware_checks, check)(work, Evidence(machine=own, clock=ClockReading(now=0), attempts=tried))
        assert (found.failed, found.message) == (True, "llvmpipe is no GPU"), check
    suits = fit(spec.hardware, own, own_pool)
    assert (suits.missing, suits.remarks) == ((), ())
