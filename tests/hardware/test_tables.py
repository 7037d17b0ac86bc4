"""The facts in the hardware tables, and lookups that never fall through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler import hardware as bundled
from ci_compiler.hardware import ALL, UnknownHardwareError, Version, tables
from ci_compiler.hardware.drivers import too_new_driver
from tests.loops import each


def test_the_name_of_each_gpu_is_its_capability() -> None:
    for gpu in each(tables().gpus.values()):
        assert gpu.name == f"sm{gpu.capability.major}{gpu.capability.minor}"
        assert gpu.products
        assert set(gpu.systems) <= tables().systems.keys()
        assert gpu.last_toolkit is None or gpu.first_toolkit <= gpu.last_toolkit


def test_cubins_run_within_a_major_capability_and_upwards() -> None:
    runs = {(a.name, b.name) for a in tables().gpus.values() for b in tables().gpus.values() if a.runs_code_of(b)}
    assert ("sm86", "sm80") in runs
    assert ("sm89", "sm80") in runs
    assert ("sm121", "sm120") in runs
    assert ("sm80", "sm86") not in runs
    assert ("sm90", "sm89") not in runs
    assert ("sm120", "sm100") not in runs
    tegra = {gpu.name for gpu in tables().gpus.values() if gpu.on_chip}
    assert tegra == {"sm87", "sm110"}
    assert {pair for pair in runs if tegra & {*pair}} == {("sm87", "sm87"), ("sm110", "sm110")}
    assert not any(tables().gpu(name).runs_code_of(ALL) for name in tegra)


def test_driver_branch_580_is_the_last_for_maxwell_pascal_and_volta() -> None:
    """Source: NVIDIA's release notes of driver branch 580."""
    ended = {gpu.architecture for gpu in tables().gpus.values() if gpu.last_driver}
    assert ended == {"Maxwell", "Pascal", "Volta"}
    assert all(too_new_driver(gpu) in {0, 585} for gpu in tables().gpus.values())
    assert too_new_driver(replace(tables().gpu("sm70"), last_driver=581)) == 585
    assert too_new_driver(replace(tables().gpu("sm70"), last_driver=584)) == 585
    assert too_new_driver(replace(tables().gpu("sm70"), last_driver=31, family="neuron")) == 32
    assert not too_new_driver(None)


@pytest.mark.parametrize(
    ("product", "gpu"),
    [("L40S", "sm89"), ("Jetson Orin", "sm87"), ("Jetson Thor", "sm110"), ("H200", "sm90"), ("DGX Spark", "sm121")],
)
def test_products_that_documents_get_wrong(product: str, gpu: str) -> None:
    assert [one.name for one in tables().gpus.values() if product in one.products] == [gpu]


def test_each_isa_is_proved_by_flags_and_runs_what_it_includes() -> None:
    hardware = tables()
    for isa in hardware.isas.values():
        baseline = hardware.systems[isa.system].baseline
        assert bool(isa.cpuinfo) == bool(isa.flags) == (isa.name != baseline)
        assert baseline in hardware.runs([isa.name])
        assert all(hardware.isa(name).system == isa.system for name in isa.includes)
    assert hardware.runs(["avx512bf16"]) == {"avx512bf16", "avx512", "avx2", "avx", "baseline"}
    assert hardware.runs(["armv9"]) == {"armv9", "armv8_2", "arm64"}
    assert hardware.runs([], "x86_64-linux") == {"baseline"}
    assert hardware.runs([], "aarch64-darwin") == {"apple"}
    assert "-mfma" not in hardware.isa("avx").flags
    assert "-mno-fma" in hardware.isa("avx").flags


def test_lookups_are_total() -> None:
    hardware = tables()
    with pytest.raises(UnknownHardwareError, match="unknown GPU 'sm9'; did you mean sm9"):
        hardware.gpu("sm9")
    with pytest.raises(UnknownHardwareError, match="did you mean armv8_2"):
        hardware.isa("armv8.2")
    with pytest.raises(UnknownHardwareError, match=r"unknown CUDA toolkit '11\.0'"):
        hardware.toolkit("11.0")


def test_every_bundled_row_names_its_source() -> None:
    folder = Path(bundled.__file__).parent
    for file, table in (
        ("families/cuda/gpus.json", "gpus"),
        ("families/cuda/toolkits.json", "toolkits"),
        ("isas.json", "isas"),
    ):
        for name, row in each(json.loads((folder / file).read_bytes())[table].items()):
            assert row["source"], name


def test_versions_are_ordered_as_numbers() -> None:
    assert Version.parse("12.10") > Version.parse("12.9")
    assert str(Version.parse("12.10")) == "12.10"
