"""CUDA's targets. Sources: CUDA C++ Programming Guide, PTX compatibility; NVIDIA on family-specific features."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_compiler.hardware import ALL, tables
from ci_compiler.hardware.families import NamedTarget
from ci_compiler.hardware.families.cuda import FAMILY
from tests.hardware.families import runs, what_runs

BUILT = "sm80 sm86 sm89 sm90 sm_90 sm90a sm_90a sm100 sm100a sm100f sm103 sm120 sm80+ptx sm90a+ptx sm100f+ptx sm121+ptx"


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("sm80", "sm80 sm80+ptx"),
        ("sm89", "sm80 sm86 sm89 sm80+ptx"),
        ("sm90", "sm90 sm_90 sm90a sm_90a sm80+ptx sm90a+ptx"),
        ("sm_90", "sm90 sm_90 sm90a sm_90a sm80+ptx sm90a+ptx"),
        ("sm100", "sm100 sm100a sm100f sm80+ptx sm100f+ptx"),
        ("sm103", "sm100 sm100f sm103 sm80+ptx sm100f+ptx"),
        ("sm121", "sm120 sm80+ptx sm121+ptx"),
        ("sm87", "sm80+ptx"),
    ],
)
def test_machine_code_runs_within_a_generation_and_ptx_later_too(machine: str, code: str) -> None:
    assert what_runs(FAMILY, machine, BUILT) == code.split()


def test_tegra_runs_only_machine_code_of_its_own() -> None:
    assert what_runs(FAMILY, "sm87", "sm80 sm86 sm87 sm_87 sm87a all sm80,sm87 sm80,all") == [
        *("sm87", "sm_87", "sm87a", "sm80,sm87")
    ]
    assert what_runs(FAMILY, "sm89", "sm87 sm_87 sm87f sm87+ptx all sm87,sm90 all,sm87") == [
        "sm87+ptx",
        "all",
        "all,sm87",
    ]
    assert runs(FAMILY, "all", "all")


def test_a_declared_gpu_may_be_a_tegra_gpu() -> None:
    gpus = tables().gpus
    own = replace(gpus["sm89"], on_chip=True)
    assert not own.runs_code_of(gpus["sm86"])
    assert not own.runs_code_of(ALL)
    assert not gpus["sm89"].runs_code_of(replace(gpus["sm86"], on_chip=True))
    assert own.runs_code_of(NamedTarget("sm80+ptx", "cuda"))
    assert not own.runs_code_of(NamedTarget("sm89", "other"))


def test_sentences_call_it_by_its_names() -> None:
    assert (FAMILY.title, FAMILY.toolkit, FAMILY.vendor, FAMILY.tool) == ("CUDA", "CUDA", "NVIDIA", "nvidia-smi")


def test_branches_of_drivers_are_five_versions_apart() -> None:
    assert [FAMILY.next_branch(driver) for driver in (575, 580, 581, 584, 585)] == [580, 585, 585, 585, 590]


def test_code_for_several_targets_runs_where_that_of_one_does() -> None:
    assert what_runs(FAMILY, "sm86", "sm80,sm90 sm90,sm80 sm75,sm90 sm75+ptx,sm90a") == [
        *("sm80,sm90", "sm90,sm80", "sm75+ptx,sm90a")
    ]
    assert runs(FAMILY, "sm86", "cuda")


def test_what_is_for_several_targets_itself_runs_code_that_runs_on_each() -> None:
    assert what_runs(FAMILY, "sm86,sm90", "sm80 sm90 sm80,sm90 sm90,sm86 sm86,sm90 sm80+ptx all") == [
        *("sm80,sm90", "sm90,sm86", "sm86,sm90", "sm80+ptx", "all")
    ]
    assert what_runs(FAMILY, "sm87,sm90", "all all,sm87") == ["all,sm87"]
    assert what_runs(FAMILY, "all", "all sm80 all,sm87") == ["all", "all,sm87"]


def test_what_is_no_target_is_refused_and_runs_nothing() -> None:
    wrong = ("", "sm9", "sm09", "sm1234", "SM90", "sm90b", "sm90af", "sm90+", "sm90+PTX", "9.0", "gfx90a")
    for name in (*wrong, "sm80,", ",sm80", "sm80,sm80", "sm80, sm90", "sm80 sm90", "sm90\n"):
        assert not FAMILY.is_target(name), name
    for name in wrong:
        assert not runs(FAMILY, "sm90", name)
        assert FAMILY.rule(NamedTarget("sm90", "cuda"), NamedTarget(name, "cuda")) is False
        assert not runs(FAMILY, name, "sm90")
    assert all(map(FAMILY.is_target, ("sm10", "sm130", "sm90", "all", "sm90,all")))
