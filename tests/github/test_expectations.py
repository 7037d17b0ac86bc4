"""`status` and `update --check` beside the failures that the spec expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from tests.output import checked

from .state import GitHub
from .test_status import SHARD, ran

ENTRY = {"variants": "pytorch-*-sm90-*", "branches": ["main"], "stage": "gpu-test", "because": "no kernels"}


def expecting(commands: list[str], *entries: dict[str, Any]) -> list[str]:
    """`commands`, with a spec that also expects failures."""
    path = Path(commands[-1])
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(document | {"expected-failures": [ENTRY | one for one in entries]}), "utf-8")
    return commands


def fail(served: GitHub) -> None:
    jobs = ran("avx2", "pytorch", build="success", gpu_test="failure")
    served.add_run(SHARD, [*jobs, *ran("avx512", "pytorch", build="success", gpu_test="success")])


def test_status_shows_what_is_expected_and_what_passes_again(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fail(served)
    assert run(PROGRAM, ["status", "--branch", "main", *expecting(commands, {"until": "2999-12-31"})]) == 0
    out, err = capsys.readouterr()
    assert "failed" in out  # nothing is hidden
    assert "gpu-test of 1 variant failed as expected: no kernels (until 2999-12-31)\n" in err
    named = "gpu-test of pytorch-python313-cuda12_8-sm90-avx512 on main passes again; remove the entry"
    assert f"{named}, or name fewer variants [expectation-passes]" in err
    assert "expectation-ends" not in err


def test_an_expected_failure_that_has_ended_counts_again(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fail(served)
    assert run(PROGRAM, ["status", "--branch", "main", *expecting(commands, {"until": "2020-01-01"})]) == 0
    err = capsys.readouterr().err
    assert "failed as expected" not in err
    assert "ended after 2020-01-01, and failures count again: no kernels [expectation-expired]" in err


def test_the_json_has_the_entries_of_each_variant(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fail(served)
    issue = "https://github.com/my-org/stack/issues/7"
    options = expecting(commands, {"until": "2999-12-31", "issue": issue})
    assert run(PROGRAM, ["status", "--json", *options]) == 0
    rows = checked("ci-compile status", capsys.readouterr().out)
    entry = {"stage": "gpu-test", "reason": "no kernels", "until": "2999-12-31", "issue": issue}
    found = {row["name"]: row["expected"] for row in rows if "expected" in row}
    assert sorted(found) == [f"pytorch-python313-cuda12_8-sm90-{isa}" for isa in ("avx2", "avx512")]
    assert all(one == [entry | {"standing": "expected"}] for one in found.values())
    name = "pytorch-python313-cuda12_8-sm90-avx2"
    assert run(PROGRAM, ["explain", name, "--json", *options]) == 0
    (built,) = checked("ci-compile explain", capsys.readouterr().out)["built"]
    assert built["expected"] == [entry]
    assert run(PROGRAM, ["explain", name, *options]) == 0
    assert f"  expected     gpu-test fails: no kernels (until 2999-12-31, {issue})\n" in capsys.readouterr().out
