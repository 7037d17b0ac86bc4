"""ROCm's targets. Source: LLVM, "User Guide for AMDGPU Backend"."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_compiler.hardware.families import NamedTarget, rocm
from ci_compiler.hardware.families.rocm import FAMILY
from tests.hardware.families import runs, what_runs
from tests.loops import each

GENERIC = {
    "gfx9-generic": "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c",
    "gfx9-4-generic": "gfx942 gfx950",
    "gfx10-1-generic": "gfx1010 gfx1011 gfx1012 gfx1013",
    "gfx10-3-generic": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "gfx11-generic": "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx12-generic": "gfx1200 gfx1201",
}


def test_generic_code_runs_on_the_targets_that_it_covers() -> None:
    targets = [*" ".join(GENERIC.values()).split(), "gfx908", "gfx90a", "gfx940", "gfx1250"]
    for generic, covered in each(GENERIC.items()):
        assert [one for one in targets if runs(FAMILY, one, generic)] == covered.split()
        assert FAMILY.is_target(generic)


def test_every_row_names_its_source() -> None:
    table = json.loads(Path(rocm.__file__).with_name("generic.json").read_bytes())
    assert table["source"]
    assert {*table["generic"]} == {*GENERIC}
    assert all(row["source"] for row in table["generic"].values())


def test_sentences_call_it_by_its_names() -> None:
    assert (FAMILY.title, FAMILY.toolkit) == ("ROCm", "ROCm")


def test_code_runs_on_its_own_target_alone() -> None:
    built = "gfx900 gfx90a gfx90c gfx942 gfx1100 gfx1101 amdgcnspirv all gfx1100,gfx1101"
    assert what_runs(FAMILY, "gfx1101", built) == ["gfx1101", "amdgcnspirv", "all", "gfx1100,gfx1101"]
    assert what_runs(FAMILY, "gfx90a", built) == ["gfx90a", "amdgcnspirv", "all"]
    assert runs(FAMILY, "gfx1201", "rocm")


FEATURES = "gfx942 gfx942:xnack- gfx942:xnack+ gfx942:sramecc+ gfx942:sramecc+:xnack- gfx9-4-generic:xnack+"


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("gfx942", "gfx942"),
        ("gfx942:xnack+", "gfx942 gfx942:xnack+ gfx9-4-generic:xnack+"),
        ("gfx942:sramecc+:xnack-", "gfx942 gfx942:xnack- gfx942:sramecc+ gfx942:sramecc+:xnack-"),
        ("gfx950:xnack+", "gfx9-4-generic:xnack+"),
    ],
)
def test_a_feature_that_code_leaves_open_runs_with_either_setting(machine: str, code: str) -> None:
    assert what_runs(FAMILY, machine, FEATURES) == code.split()


def test_targets_are_hexadecimal_and_their_features_in_order() -> None:
    right = ("gfx90a", "gfx90c", "gfx1250", "gfx942:sramecc+", "gfx942,gfx1100", "gfx90a:xnack+,gfx90a:xnack-")
    assert all(map(FAMILY.is_target, (*right, "gfx13-5-generic", "gfx9-generic:xnack-", "amdgcnspirv", "all")))
    wrong = ("", "gfx90A", "gfx90g", "gfx9", "gfx000", "gfx11000", "gfx94X-dcgpu", "gfx942:xnack", "gfx942:", "sm90")
    for name in (
        *wrong,
        "gfx942:xnack-:sramecc+",
        "gfx942:fast+",
        "gfx942,gfx942",
        "gfx942;gfx950",
        "amdgcnspirv:xnack+",
    ):
        assert not FAMILY.is_target(name), name
    for name in wrong:
        assert not runs(FAMILY, "gfx90a", name)
        assert FAMILY.rule(NamedTarget("gfx90a", "rocm"), NamedTarget(name, "rocm")) is False
        assert not runs(FAMILY, name, "gfx90a")
