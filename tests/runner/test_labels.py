"""Labels: the pools that a machine fits, and what it lacks for the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.hardware import Version, tables
from ci_compiler.hardware.machine import GpuDevice, Machine
from ci_compiler.plan.machine_fit import PoolFit, fit, fit_as_json
from ci_compiler.spec.build import bundled_spec
from ci_compiler.units import GB
from tests.runner.machines import DISK, known
from tests.specs import small, spec_of


def fit_of(machine: Machine, **pool: Any) -> PoolFit:
    """How `machine` fits the only pool of a spec, whose machines are small by default."""
    usual = {"runs-on": ["self-hosted", "linux", "x64", "pool"], "cores": 1, "memory": 1, "disk": 1}
    return fit(tables(), machine, spec_of(small(runners={"pool": usual | pool})).pools[0])


def test_a_machine_fits_the_matching_bundled_pools() -> None:
    spec = bundled_spec()
    names = {
        name: [one.pool.name for pool in spec.pools if (one := fit(spec.hardware, known(name), pool)).fits]
        for name in ("h200", "two-gpus", "dgx-spark", "graviton4", "sandy-bridge", "crashed-driver")
    }
    assert names == {
        "h200": ["x86-builder", "x86-publisher", "h100"],
        "two-gpus": ["x86-builder", "x86-publisher", "rtx5090"],
        "dgx-spark": ["arm-builder", "arm-publisher", "dgx-spark"],
        "graviton4": ["arm-builder", "arm-publisher"],
        "sandy-bridge": ["x86-publisher"],
        "crashed-driver": ["x86-builder", "x86-publisher"],
    }


@pytest.mark.parametrize(
    ("name", "pool", "missing"),
    [
        ("ice-lake", {"cpu": ["avx512bf16"]}, "avx512bf16 (the CPU lacks avx512_bf16)"),
        ("haswell", {"cpu": ["avx512vnni"]}, "avx512f, avx512dq, avx512vl, avx512bw, avx512_vnni)"),
        ("graviton3", {"system": "aarch64-linux", "cpu": ["armv9"]}, "armv9 (the CPU lacks sve2)"),
        ("zen4", {"system": "aarch64-linux", "cpu": ["armv9"]}, "aarch64-linux (this is x86_64-linux)"),
        ("zen4", {"gpu": "sm90"}, "a GPU of sm90 (no GPU answers)"),
        ("two-gpus", {"gpu": "sm90"}, "a GPU of sm90 (there is sm61, sm120)"),
        ("crashed-driver", {"gpu": "sm90"}, "a GPU of sm90 (no GPU answers)"),
        ("zen4", {"cores": 65}, "65 cores (there are 64)"),
        ("h200", {"memory": 512}, "512 GB of memory (there are 270.1 GB)"),
        ("zen4", {"disk": 2000}, "2000 GB of disk (there are 1000 GB)"),
    ],
)
def test_what_a_machine_lacks_is_listed(name: str, pool: dict[str, Any], missing: str) -> None:
    found = fit_of(known(name), **pool)
    assert not found.fits
    assert len(found.missing) == 1
    assert missing in found.missing[0]
    assert found.remarks == ()


def test_everything_missing_is_listed_except_for_another_system() -> None:
    machine = known("haswell")
    assert len(fit_of(machine, cpu=["avx512", "avx512vnni"], gpu="sm90", cores=99, disk=9999).missing) == 5
    assert len(fit_of(machine, system="aarch64-linux", cpu=["armv9"], gpu="sm90", cores=99).missing) == 1


@pytest.mark.parametrize(("wanted", "fits"), [(128, True), (134, True), (143, False)])
def test_a_machine_has_the_memory_that_it_is_sold_with(wanted: int, fits: bool) -> None:
    machine = known("zen4", meminfo=f"MemTotal: {126 * 2**20} kB\n")
    assert fit_of(machine, memory=wanted).fits == fits


@pytest.mark.parametrize(("device", "disk", "fits"), [("/dev/nvme0n1p2", 1100, False), ("/dev/sdb", 2000, True)])
def test_the_disk_of_a_machine_is_that_of_its_store_and_its_builds(device: str, disk: int, fits: bool) -> None:
    build = replace(DISK, role="build", path="/builds", device=device)
    work = replace(DISK, role="work", path="/home/runner", device="/dev/sdz")
    assert fit_of(known("h200", folders=(DISK, build, work)), disk=disk).fits == fits


def test_a_gpu_of_exactly_the_architecture_is_wanted() -> None:
    gpu = GpuDevice(index=0, name="NVIDIA L40S", capability=Version(8, 9))
    ada = Machine(system="x86_64-linux", cores=4, memory=8 * GB, folders=(DISK,), gpus=(gpu,))
    assert fit_of(ada, gpu="sm89").fits
    assert not fit_of(ada, gpu="sm86").fits


def test_builds_on_a_gpu_machine_and_mixed_gpus_get_a_remark() -> None:
    assert "keep this machine's GPU from the jobs that need one" in fit_of(known("h200")).remarks[0]
    assert fit_of(known("h200"), gpu="sm90").remarks == ()
    others = fit_of(known("two-gpus"), gpu="sm120").remarks
    assert "NVIDIA GeForce GTX 1080 Ti (sm61); give the jobs GPU 1 alone" in others[0]
    assert "multi-instance (MIG) mode" in fit_of(known("mig"), gpu="sm80").remarks[0]


def test_a_machine_made_by_hand_fits_by_its_values() -> None:
    machine = Machine(system="x86_64-linux", isas=("avx", "avx2"), cores=4, memory=8 * GB, folders=(DISK,))
    assert fit_of(machine, cpu=["avx2"]).fits
    assert fit_of(machine, cpu=["avx512"]).missing == ("avx512",)


def test_the_labels_are_exactly_those_of_the_pool() -> None:
    shown = fit_as_json(fit_of(known("h200"), **{"runs-on": {"group": "gpu", "labels": ["linux", "x64"]}}))
    assert (shown["fits"], shown["labels"], shown["group"], shown["scale-set"]) == (True, ["linux", "x64"], "gpu", "")
    shown = fit_as_json(fit_of(known("h200"), **{"runs-on": "arc-x64", "system": "x86_64-linux"}))
    assert (shown["labels"], shown["scale-set"]) == ([], "arc-x64")
