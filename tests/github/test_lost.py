"""Jobs that lost their runner are run again once, and real failures never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.github.lost import is_lost

from .state import NOW, GitHub

RECORDED = json.loads((Path(__file__).parent / "recorded/annotations.json").read_bytes())
LOST, REAL = RECORDED["lost"], RECORDED["real"]
SHARD = ".github/workflows/build-main-sm90.yml"


def test_the_annotations_tell_a_lost_runner_from_a_real_failure() -> None:
    assert [one for one in LOST if not is_lost(one)] == []
    assert [one for one in REAL if is_lost(one)] == []


@pytest.mark.parametrize(
    ("jobs", "more", "again"),
    [
        ({"3.13 avx2 / pytorch / build": LOST[0], "3.13 avx512 / pytorch / build": LOST[3]}, {}, True),
        ({"3.13 avx2 / pytorch / build": LOST[0], "3.13 avx512 / pytorch / build": REAL[1]}, {}, False),
        ({"3.13 avx2 / pytorch / build": LOST[0]}, {"run_attempt": 2}, False),
        ({"3.13 avx2 / pytorch / build": LOST[0]}, {"workflow": ".github/workflows/waves.yml"}, False),
        ({"3.13 avx2 / pytorch / build": LOST[0], "Publish on builder": LOST[0]}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_run_is_run_again_once(
    served: GitHub,
    commands: list[str],
    monkeypatch: pytest.MonkeyPatch,
    jobs: dict[str, list[str]],
    more: dict[str, Any],
    again: bool,
) -> None:
    monkeypatch.setattr("ci_compiler.clock.Clock.now", lambda _: NOW)
    named = [(name, "completed", "failure") for name in (*jobs, "Verdict")]
    path = more.get("workflow", SHARD)
    failed = served.add_run(
        path,
        [*named, ("3.13 avx2 / torchvision / build", "completed", "skipped")],
        **{key: value for key, value in more.items() if key != "workflow"},
    )
    failed["conclusion"] = "failure"
    for job in served.jobs[failed["id"]]:
        served.annotations[job["id"]] = jobs.get(job["name"], REAL[1])
    assert run(PROGRAM, ["rerun", "--dry-run", *commands]) == 0
    assert served.rerun == []
    assert run(PROGRAM, ["rerun", *commands]) == 0
    assert served.rerun == ([failed["id"]] if again else [])
    failed |= {"status": "completed", "conclusion": "failure"}
    assert run(PROGRAM, ["rerun", *commands]) == 0
    assert len(served.rerun) == again


def test_the_number_of_requests_is_limited(
    served: GitHub, commands: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_compiler.github.lost.RUNS", 2)
    for _ in range(3):
        failed = served.add_run(SHARD, [("3.13 avx2 / pytorch / build", "completed", "failure")], conclusion="failure")
        served.annotations[served.jobs[failed["id"]][0]["id"]] = LOST[0]
    assert run(PROGRAM, ["rerun", "--dry-run", *commands]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "lost its runner in 3.13 avx2 / pytorch / build; https://github.com/" in lines[0]
    assert sum("/jobs" in path for _, path, _ in served.asked) == 2
