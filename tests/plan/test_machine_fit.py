"""How a machine suits a pool: what the pool declares and the machine lacks, and what to take care of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.hardware import Version, tables
from ci_compiler.hardware.machine import GpuDevice, Machine, StorageFolder
from ci_compiler.plan.machine_fit import fit, fit_as_json, lacks
from ci_compiler.spec.model import Pool, RunsOn
from ci_compiler.units import GB

X86 = "x86_64-linux"
DISK = StorageFolder(role="store", path="/nix/store", device="a", kind="ext4", size=500 * GB, free=0)
MACHINE = Machine(system=X86, isas=("avx", "avx2"), cores=8, memory=64 * GB, folders=(DISK,))
POOL = Pool(
    name="pool", system=X86, cpu=("avx2",), cores=8, memory=64, disk=500, runs_on=RunsOn(labels=("linux", "own"))
)


def device(index: int, capability: tuple[int, int], **more: Any) -> GpuDevice:
    return GpuDevice(index=index, name=f"GPU {index}", capability=Version(*capability), uuid=f"GPU-{index}", **more)


H100, ADA = device(0, (9, 0)), device(1, (8, 9))


@pytest.mark.parametrize(
    ("machine", "pool", "missing"),
    [
        ({}, {}, []),
        ({}, {"cores": 9}, ["9 cores (there are 8)"]),
        ({}, {"memory": 67}, []),
        ({}, {"memory": 68}, ["68 GB of memory (there are 64 GB)"]),
        ({}, {"disk": 526}, []),
        ({}, {"disk": 527}, ["527 GB of disk (there are 500 GB)"]),
        ({"memory": 95 * GB}, {"memory": 100}, []),
        ({}, {"cpu": ("avx2", "avx512", "avx512vnni")}, ["avx512", "avx512vnni"]),
        ({"isas": ("avx",), "flags": frozenset({"avx", "fma"})}, {}, ["avx2 (the CPU lacks avx2, f16c)"]),
        ({}, {"gpu": "sm90"}, ["a GPU of sm90 (no GPU answers)"]),
        ({"gpus": (ADA, ADA, device(2, (8, 0)))}, {"gpu": "sm90"}, ["a GPU of sm90 (there is sm89, sm80)"]),
        ({"gpus": (H100,)}, {"gpu": "sm90"}, []),
        ({"gpus": (H100, ADA)}, {"gpu": "sm90", "gpus": 2}, ["2 GPUs of sm90 (there is 1)"]),
        ({"gpus": (H100, H100)}, {"gpu": "sm90", "gpus": 2}, []),
        ({"gpus": (H100, H100)}, {"gpu": "sm90", "gpus": 3}, ["3 GPUs of sm90 (there are 2)"]),
        ({"gpus": (replace(H100, sliced=True, slices=("MIG-1", "MIG-2")),)}, {"gpu": "sm90", "gpus": 2}, []),
        ({"gpus": (replace(H100, sliced=True),)}, {"gpu": "sm90"}, ["1 GPU of sm90 (there are 0)"]),
        (
            {"system": "aarch64-linux", "cores": 1, "memory": 0},
            {"cpu": ("avx512",), "gpu": "sm90"},
            [f"{X86} (this is aarch64-linux)"],
        ),
        (
            {},
            {"cpu": ("avx512",), "gpu": "sm90", "cores": 99, "memory": 99, "disk": 999},
            ["avx512", "a GPU of sm90", "99 cores", "99 GB of memory", "999 GB of disk"],
        ),
    ],
)
def test_what_a_machine_lacks_is_listed(machine: dict[str, Any], pool: dict[str, Any], missing: list[str]) -> None:
    found = fit(tables(), replace(MACHINE, **machine), replace(POOL, **pool))
    assert len(found.missing) == len(missing)
    for line, expected in zip(found.missing, missing, strict=True):
        assert line.startswith(expected)
    assert found.fits is not bool(missing)
    assert not (missing and found.remarks)


def test_sizes_are_no_matter_of_what_a_machine_lacks() -> None:
    assert list(lacks(tables(), replace(MACHINE, cores=1, memory=0), POOL)) == []


KEPT = "its jobs would keep this machine's GPU from the jobs that need one; give it no label of this pool"


@pytest.mark.parametrize(
    ("gpus", "gpu", "remarks"),
    [
        ((), "", []),
        ((H100,), "", [KEPT]),
        ((H100,), "sm90", []),
        (
            (H100, ADA, device(2, (9, 0)), device(3, (8, 0))),
            "sm90",
            ["it also has GPU 1 (sm89), GPU 3 (sm80); give the jobs GPU 0,2 alone (a container's device, or CUDA_VIS"],
        ),
        (
            (replace(H100, sliced=True, slices=("MIG-1",)),),
            "sm90",
            ["its GPU is in multi-instance (MIG) mode, so a job sees the slice it is given, or nothing"],
        ),
        ((H100, replace(ADA, sliced=True)), "sm90", ["it also has GPU 1 (sm89); give the jobs GPU 0 alone ("]),
    ],
)
def test_what_to_take_care_of_where_nothing_is_missing(
    gpus: tuple[GpuDevice, ...], gpu: str, remarks: list[str]
) -> None:
    found = fit(tables(), replace(MACHINE, gpus=gpus), replace(POOL, gpu=gpu))
    assert found.missing == ()
    assert len(found.remarks) == len(remarks)
    for line, expected in zip(found.remarks, remarks, strict=True):
        assert line.startswith(expected)


def test_a_fit_as_json_has_the_labels_of_the_pool() -> None:
    pool = replace(POOL, runs_on=RunsOn(labels=("linux", "own"), group="gpu"))
    assert fit_as_json(fit(tables(), replace(MACHINE, gpus=(H100,)), pool)) == {
        "pool": "pool",
        "fits": True,
        "labels": ["linux", "own"],
        "group": "gpu",
        "scale-set": "",
        "missing": [],
        "remarks": [KEPT],
    }
    scaled = fit_as_json(fit(tables(), MACHINE, replace(POOL, cores=9, runs_on=RunsOn(scale_set="arc"))))
    missing = {"fits": False, "missing": ["9 cores (there are 8)"], "remarks": []}
    assert scaled == {"pool": "pool", "labels": [], "group": "", "scale-set": "arc", **missing}
