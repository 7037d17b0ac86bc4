"""`recall --rebuild` starts the builds of what is recalled and of what was built with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.pipeline import Plan

from .state import GitHub

SM90 = "python313-cuda12_8-sm90-avx2"


@pytest.mark.usefixtures("commands")
def test_a_rebuild_publishes_what_is_recalled_and_what_was_built_with_it_again(
    served: GitHub, stack: Plan, tmp_path: Path
) -> None:
    spec = tmp_path / "ci-matrix.yaml"
    spec.write_text("\n".join(f"{key}: {json.dumps(one)}" for key, one in stack.spec.document.value.items()), "utf-8")
    words = ["recall", f"pytorch-{SM90}", "--because", "wrong", "--rebuild", "--root", str(tmp_path)]
    assert run(PROGRAM, [*words, "--spec", str(spec)]) == 0
    (started,) = served.dispatched
    assert (
        started.items() >= {"path": ".github/workflows/build-main-sm90.yml", "publish": "true", "again": "true"}.items()
    )
    assert started["only"].split() == [f"{package}-{SM90}" for package in ("pytorch", "torchvision")]
