"""Machines with Intel's GPUs, from public reports: detect, doctor, labels and containers. None of them was used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.hardware import tables
from ci_compiler.hardware.families.host_signs import host_faults, seen_by_host
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.hardware.families.xpu import machines as xpu_machines
from ci_compiler.hardware.machine import Machine
from ci_compiler.plan.machine_fit import fit
from ci_compiler.runner.controller.answers import NAME, matched
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor import hardware_checks
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.stages import GPU_TEST
from tests.plan.test_open_matrix import decided
from tests.runner.machines import recorded

ROWS: dict[str, Any] = json.loads(Path(__file__).with_name("xpu_machines.json").read_bytes())

LEVEL_ZERO = (
    "[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero V2, "
    "Intel(R) Arc(TM) B580 Graphics 20.1.0 [1.15.38308]"
)


def of(name: str) -> Machine:
    return machine(recorded("zen4", gpus={"xpu": tuple(map(tuple, ROWS[name]["nodes"]))}), tables())


@pytest.mark.parametrize("name", ROWS)
def test_a_recorded_machine_has_the_gpus_of_the_report(name: str) -> None:
    found = of(name)
    assert [[one.target, one.name, one.uuid] for one in found.gpus] == ROWS[name]["is"]
    assert [one.index for one in found.gpus] == list(range(len(found.gpus)))
    assert not found.problems
    assert ROWS[name]["source"]
    assert all(matched(NAME, one.uuid) == one.uuid for one in found.gpus)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if "log" in row])
def test_the_log_of_the_kernel_says_what_its_driver_has_blocked(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    (address,) = (uuid.removeprefix("pci-").replace("-", ":", 2) for _, _, uuid in row["is"])
    assert faults_of(tmp_path, address, *row["log"]) == tuple(row["faults"])
    assert bool(row["faults"]) is name.startswith("sick-")


def faults_of(root: Path, address: str, *log: str) -> tuple[str, ...]:
    """The faults of the only GPU of a host, with these lines in the log of the kernel."""
    device = root / "sys/bus/pci/devices" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x8086\n", "utf-8")
    (device / "class").write_text("0x038000\n", "utf-8")
    ((family, name, faults),) = host_faults(root, "\n".join(log))
    assert (family, name) == ("xpu", address)
    return faults


@pytest.mark.parametrize(
    ("line", "sick"),
    [
        ("xe 0000:03:00.0: [drm] *ERROR* GT1: reset failed (-ECANCELED)", True),
        ("xe 0000:03:00.0: Runtime Survivability mode enabled", True),
        ("xe 0000:03:00.0: Survivability Boot Status : Critical Failure (3)", True),
        ("i915 0000:03:00.0: [drm] *ERROR* Failed to initialise HW following reset (-5)", True),
        (
            "i915 0000:03:00.0: [drm] *ERROR* intel_gt_reset_global timed out, cancelling all in-flight rendering.",
            True,
        ),
        ("i915 0000:03:00.0: Failed to idle engines, declaring wedged!", True),
        ("i915 0000:03:00.0: [drm] GPU HANG: ecode 12:1:85def5fb, in llama-bench [1538400]", False),
        ("i915 0000:03:00.0: [drm] *ERROR* GT0: GUC: Engine reset failed on 0:0 (rcs0) because 0x00000000", False),
        ("xe 0000:03:00.0: [drm] Tile0: GT0: Fault response: Unsuccessful -ENOENT", False),
        ("xe 0000:03:00.0: [drm] Tile0: GT0: trying reset from guc_exec_queue_timedout_job [xe]", False),
    ],
)
def test_a_line_of_the_drivers_says_whether_they_have_blocked_it(line: str, sick: bool, tmp_path: Path) -> None:
    assert bool(faults_of(tmp_path, "0000:03:00.0", f"[ 9.1] {line}")) is sick


def test_slots_wait_for_the_verdict_of_the_host() -> None:
    assert seen_by_host("xpu")


SPEC = decided(
    {"values": {"platform": "x86_64-linux", "accelerator": ["cpu", "xpu 2026.0 bmg", "xpu 2026.0 dg2", "xpu spir64"]}}
)


def judged(name: str, built: str, check: str) -> Any:
    variant = next(one.name for cell in SPEC.judged.cells for one in cell.variants if cell.target == built)
    work = work_of(SPEC.spec, stage=GPU_TEST, name=variant, pool=None)
    return getattr(hardware_checks, check)(work, Evidence(machine=of(name), clock=ClockReading(now=0)))


@pytest.mark.parametrize(
    ("name", "built", "failing"),
    [
        ("b580", "bmg", ""),
        ("b580", "spir64", ""),
        ("crescent-island", "spir64", ""),
        ("crescent-island", "bmg", "found: Intel GPU 8086:674c, whose target is not known (xpu)"),
        ("b580", "dg2", "no GPU here runs code built for dg2; found: Intel Arc B580 (bmg)"),
        ("flex-140-beside-uhd-770", "dg2", ""),
        ("tiger-lake", "dg2", "found: none"),
    ],
)
def test_the_doctor_says_which_code_it_runs(name: str, built: str, failing: str) -> None:
    found = judged(name, built, "gpu_code")
    assert found.failed is bool(failing)
    assert failing in found.message


def test_the_driver_is_not_judged() -> None:
    for built in ("bmg", "spir64"):
        assert not judged("b580", built, "driver").failed
    assert (
        "nothing is known of the drivers that oneAPI 2026.0 needs; here: xe" in judged("b580", "bmg", "driver").message
    )
    assert judged("b580", "spir64", "driver").message == "no variant names a toolkit"
    assert "no GPU was found" in judged("tiger-lake", "bmg", "gpu").message


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a machine with two GPUs, and no tools."""
    (tmp_path / "dev/dri").mkdir(parents=True)
    for node, text in ROWS["two-b580"]["nodes"]:
        (tmp_path / f"sys/class/drm/{node}/device").mkdir(parents=True)
        (tmp_path / f"sys/class/drm/{node}/device/uevent").write_text(text, "utf-8")
        (tmp_path / "dev/dri" / node).touch()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "bin"))
    return tmp_path


def usable(root: Path) -> Any:
    return xpu_machines.usable(tuple(xpu_machines.attempts(root=root)), reads_loader_cache=True)


def test_its_render_nodes_are_enough(root: Path) -> None:
    known = machines_of("xpu")
    gpus, problems = known.devices(known.record(root))
    assert [(one.sm, one.uuid) for one in gpus] == [("bmg", "pci-0000-18-00.0"), ("bmg", "pci-0000-ae-00.0")]
    assert not problems
    assert usable(root).message == "bmg, bmg through /dev/dri"
    (root / "dev/dri/renderD129").unlink()
    assert (usable(root).failed, usable(root).message) == (True, "this user may not read and write /dev/dri/renderD129")


@pytest.mark.parametrize(
    ("prints", "status", "said"),
    [
        (LEVEL_ZERO, 0, "bmg, bmg through /dev/dri and sycl-ls"),
        (
            "[opencl:gpu][opencl:1] Intel(R) OpenCL Graphics, Intel(R) Graphics [0xe20b]",
            0,
            "sycl-ls lists no GPU of Level",
        ),
        ("", 135, "sycl-ls lists no GPU of Level Zero: it ended with 135"),
    ],
)
def test_sycl_ls_is_asked_where_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, prints: str, status: int, said: str
) -> None:
    tool = root / "bin/sycl-ls"
    tool.write_text(f'#!/bin/sh\n[ -z "$ONEAPI_DEVICE_SELECTOR$ZE_AFFINITY_MASK" ] && echo "{prints}"\nexit {status}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "opencl:*")
    monkeypatch.setenv("ZE_AFFINITY_MASK", "7")
    assert said in usable(root).message
    assert usable(root).failed is not said.startswith("bmg")


def test_a_slot_gets_the_render_node_of_its_gpu_and_its_group(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = str((root / "dev/dri/renderD129").stat().st_gid)
    own = ["--device", "/dev/dri/renderD129"]
    assert xpu_machines.options("docker", ("pci-0000-ae-00.0",), root) == [*own, "--group-add", group]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert xpu_machines.options("podman", ("pci-0000-ae-00.0",), root) == [*own, "--group-add", "keep-groups"]
    assert xpu_machines.options("docker", ("all",), root).count("--device") == 2
    assert "intel.com/gpu=pci-lost" in xpu_machines.options("docker", ("pci-lost",), root)
    assert xpu_machines.options("docker", (), root) == []


def test_labels_are_those_of_a_pool_that_names_its_target() -> None:
    pool = {"runs-on": ["self-hosted", "linux", "x64", "arc"], "accelerator": "xpu bmg", "gpus": 2}
    small = {"cores": 1, "memory": 1, "disk": 1}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "builder"]}
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", "xpu bmg"]}
    spec = decided({"values": values}, runners={"arc": {**pool, **small}, "x86": builder}).spec
    own = next(one for one in spec.pools if one.name == "arc")
    assert fit(spec.hardware, of("two-b580"), own).fits
    assert fit(spec.hardware, of("max-1550"), own).missing == ("a GPU of bmg (there is pvc)",)
    assert fit(spec.hardware, of("b580"), own).missing == ("2 GPUs of bmg (there is 1)",)


def test_any_text_is_accepted() -> None:
    for text in ("", "PCI_ID=", "PCI_ID=8086", "DRIVER=xe\nPCI_ID=8086:\n", "PCI_ID=8086:E20B" * 9999):
        xpu_machines.devices([("renderD128", text)])


def test_a_cluster_gives_its_pods_the_resource_of_the_driver_of_its_target() -> None:
    accelerators = {"arc-a": "xpu dg2", "arc-b": "xpu bmg", "max": "xpu pvc", "any": "xpu"}
    pools = {
        name: {"runs-on": name, "system": "x86_64-linux", "accelerator": one, "image": "localhost/xpu"}
        for name, one in accelerators.items()
    }
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", *accelerators.values()]}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "builder"]}
    files = deployment(decided({"values": values}, runners={**pools, "x86": builder}).spec, "arc").files
    for name, resource in {"arc-a": "i915", "arc-b": "xe", "max": "i915", "any": "xe"}.items():
        assert files[f"{name}.yaml"].count(f"            gpu.intel.com/{resource}: 1\n") == 2, "request and limit"
        assert f"      - key: gpu.intel.com/{resource}\n" in files[f"{name}.yaml"]
        assert "nvidia" not in files[f"{name}.yaml"]
    assert "Intel's plug-in provides the resource" in files["install.md"]
