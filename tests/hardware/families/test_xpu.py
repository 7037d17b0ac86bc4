"""XPU's targets."""

from __future__ import annotations

from ci_compiler.hardware.families.xpu import FAMILY
from tests.hardware.families import runs, what_runs


def test_code_runs_on_its_own_gpu_and_spirv_on_each() -> None:
    assert what_runs(FAMILY, "bmg", "pvc bmg dg2 arl-h spir64 all pvc,bmg pvc,arl-h pvc,spir64") == [
        *("bmg", "spir64", "all", "pvc,bmg", "pvc,spir64")
    ]
    assert runs(FAMILY, "lnl-m", "xpu")
    assert not runs(FAMILY, "lnl-m", "cuda")


def test_sentences_call_it_by_its_names() -> None:
    assert (FAMILY.title, FAMILY.toolkit) == ("XPU", "oneAPI")


def test_targets_are_words() -> None:
    assert not any(map(FAMILY.is_target, ("", "BMG", "-bmg", "arl-", "pvc,", "pvc,pvc", "pvc bmg", "7pvc")))
