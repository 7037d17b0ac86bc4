"""Metal compiles for no target, and its machines are Macs, of which none was used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.hardware import tables
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.hardware.families.metal import FAMILY
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
    assert (FAMILY.name, FAMILY.title) == ("metal", "Metal")
    assert not any(map(FAMILY.is_target, ("", "all", "metal", "apple7", "sm90")))
    assert runs(FAMILY, "metal", "metal")


def profiled(*gpus: dict[str, str]) -> str:
    return json.dumps({"SPDisplaysDataType": [{"sppci_device_type": "spdisplays_gpu", **gpu} for gpu in gpus]})


M3_PRO = {"sppci_model": "Apple M3 Pro", "spdisplays_mtlgpufamilysupport": "spdisplays_metal3", "sppci_cores": "18"}
"""timmo001/system-bridge pull request 3408, with the cores of a public test of the same chip."""

RADEON = {"sppci_model": "AMD Radeon Pro 5500M", "spdisplays_metal": "spdisplays_metalfeaturesetfamily12"}
VIRTUAL = {"sppci_model": "Apple Paravirtual device"}
"""The device of GitHub's machines: JuliaGPU/Metal.jl issue 309, ahrefs/ocannl issue 942."""


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this machine one where macOS lists the given GPUs."""
    monkeypatch.setenv("PATH", os.fspath(tmp_path))

    def make(*gpus: dict[str, str]) -> None:
        tool = tmp_path / "system_profiler"
        tool.write_text(f"#!/bin/sh\n[ \"$*\" = 'SPDisplaysDataType -json' ] && echo '{profiled(*gpus)}'\n", "utf-8")
        tool.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("gpus", "names", "said"),
    [
        ([M3_PRO], ["Apple M3 Pro, 18 cores"], "macOS lists Apple M3 Pro, 18 cores; only a smoke test computes on it"),
        ([RADEON], ["AMD Radeon Pro 5500M"], "macOS lists AMD Radeon Pro 5500M"),
        ([VIRTUAL], [], "Apple Paravirtual device is the device of a virtual machine"),
        ([VIRTUAL | M3_PRO | VIRTUAL], [], "Apple Paravirtual device, 18 cores is the device of a virtual machine"),
        ([{"sppci_model": "NVIDIA GeForce GT 120"}], [], "macOS lists none with Metal"),
        ([], [], "macOS lists none with Metal"),
    ],
)
def test_a_gpu_is_what_macos_lists_with_metal(
    mac: Callable[..., None], gpus: list[dict[str, str]], names: list[str], said: str
) -> None:
    mac(*gpus)
    known = machines_of("metal")
    found = machine(recorded("zen4", gpus={"metal": known.record(Path("/"))}), tables())
    assert [one.name for one in found.gpus] == names
    assert all((one.family, one.sm) == ("metal", "metal") for one in found.gpus)
    judged = known.usable(tuple(known.attempts()), reads_loader_cache=True)
    assert judged.failed is not bool(names)
    assert said in judged.message


def test_any_text_is_accepted() -> None:
    for text in ("", "{", "[]", '{"SPDisplaysDataType": 3}', '{"SPDisplaysDataType": [1, {"sppci_model": 2}]}'):
        assert machines_of("metal").devices(text) == ((), ())


SPEC = decided(
    {"rows": [{"platform": "aarch64-darwin", "accelerator": "metal"}]},
    runners={
        "b": {"runs-on": ["self-hosted", "macOS", "arm64", "b"]},
        "mac": {"runs-on": ["self-hosted", "macOS", "arm64", "metal"], "accelerator": "metal", "memory": 1, "disk": 1},
    },
).spec


MAC = next(pool for pool in SPEC.pools if pool.name == "mac")


def test_the_doctor_and_the_labels_know_a_mac() -> None:
    text = profiled(M3_PRO)
    own = replace(machine(recorded("zen4", gpus={"metal": text}), tables()), system="aarch64-darwin")
    work = work_of(SPEC, stage=GPU_TEST, name="ext-metal-aarch64-darwin", pool=MAC)
    evidence = Evidence(machine=own, clock=ClockReading(now=0))
    for check in ("pool", "system", "gpu", "gpu_health", "gpu_code", "driver"):
        assert not getattr(hardware_checks, check)(work, evidence).failed, check
    assert fit(SPEC.hardware, own, MAC).fits
    assert fit(SPEC.hardware, replace(own, gpus=()), MAC).missing == ("a GPU of metal (no GPU answers)",)
    without = Evidence(machine=replace(own, gpus=()), clock=ClockReading(now=0))
    assert hardware_checks.gpu(work, without).failed
    assert hardware_checks.gpu_code(work, without).failed


def test_a_mac_that_github_hosts_tests_no_metal() -> None:
    runners = {"b": {"hosted": "macos-26"}, "mac": {"hosted": "macos-26", "accelerator": "metal"}}
    with pytest.raises(InputError, match="device of a virtual machine; test on a Mac of your own"):
        decided({"rows": [{"platform": "aarch64-darwin", "accelerator": "metal"}]}, runners=runners)
