"""The probe by itself: which GPU it takes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ci_compiler.runner.jobs.smoke_probe import checks


@pytest.mark.parametrize(
    ("built", "there", "runs"),
    [((8, 6), (8, 9), True), ((8, 9), (8, 6), False), ((8, 0), (9, 0), False), ((12, 0), (12, 1), True)],
)
def test_a_gpu_runs_a_build_for_the_same_major_capability_and_no_higher_minor(
    monkeypatch: pytest.MonkeyPatch, built: tuple[int, int], there: tuple[int, int], runs: bool
) -> None:
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda _: "GPU",
        get_device_capability=lambda _: there,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    if runs:
        assert checks.gpu({"capability": built}) == 0
    else:
        with pytest.raises(checks.WrongError, match="no GPU runs sm_"):
            checks.gpu({"capability": built})
