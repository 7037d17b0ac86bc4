"""`pause` and `resume`: the words of the repository variable, and where they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.runner import PROGRAM as RUNNER

from .state import Fault, GitHub

Out = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ([], "all"),
        (["--branch", "main"], "branch:main"),
        (["--pool", "builder"], "pool:builder"),
        (["--pool", "builder", "--branch", "main"], "pool:builder@main"),
    ],
)
def test_a_pause_is_a_word_that_resume_removes(
    served: GitHub, commands: list[str], capsys: Out, options: list[str], word: str
) -> None:
    assert run(PROGRAM, ["pause", *options, *commands]) == 0
    assert served.variables == {"CI_PAUSED": word}
    lift = " ".join(["ci-compile resume", *options])
    assert capsys.readouterr().out == f"paused: {word}; `{lift}` lifts it\n"
    assert run(PROGRAM, ["resume", *options, *commands]) == 0
    assert served.variables == {}


def test_pauses_add_up_and_resume_lifts_one_or_all(served: GitHub, commands: list[str], capsys: Out) -> None:
    for options in (["--branch", "main"], ["--pool", "h100"], ["--branch", "main"]):
        assert run(PROGRAM, ["pause", *options, *commands]) == 0
    assert served.variables == {"CI_PAUSED": "branch:main pool:h100"}
    capsys.readouterr()
    assert run(PROGRAM, ["resume", "--branch", "main", *commands]) == 0
    out, err = capsys.readouterr()
    assert out == "paused: pool:h100; `ci-compile resume --pool h100` lifts it\n"
    assert err == "resumed; a run that skipped jobs while they were paused must be run again\n"
    assert run(PROGRAM, ["resume", "--branch", "main", *commands]) == 1
    assert capsys.readouterr().err == "nothing to resume: CI_PAUSED does not contain branch:main\n"
    assert run(PROGRAM, ["pause", *commands]) == run(PROGRAM, ["resume", *commands]) == 0
    assert served.variables == {}
    assert run(PROGRAM, ["resume", *commands]) == 1


def test_an_unknown_pool_is_refused_before_github_is_asked(served: GitHub, commands: list[str], capsys: Out) -> None:
    assert run(PROGRAM, ["pause", "--pool", "h10", *commands]) == 2
    assert capsys.readouterr().err.startswith("error: --pool: unknown ")
    assert served.asked == []


def test_status_shows_what_is_paused(served: GitHub, commands: list[str], capsys: Out) -> None:
    served.variables["CI_PAUSED"] = "pool:h100@main everything"
    assert run(PROGRAM, ["status", "--json", *commands]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 16
    assert err.splitlines() == [
        "paused: pool:h100@main; `ci-compile resume --pool h100 --branch main` lifts it",
        "warning: CI_PAUSED contains 'everything', but the spec has no such branch or pool",
    ]


def test_status_without_the_right_to_read_variables_says_so(served: GitHub, commands: list[str], capsys: Out) -> None:
    served.faults.append(Fault(403, path="/actions/variables/"))
    assert run(PROGRAM, ["status", *commands]) == 0
    out, err = capsys.readouterr()
    assert "never" in out
    assert "read CI_PAUSED: the token may not do this" in err


def test_the_fleet_watch_shows_what_is_paused(
    commands: list[str], capsys: Out, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI_PAUSED", "all")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert run(RUNNER, ["coverage", *commands]) == 0
    assert "paused: all; `ci-compile resume` lifts it" in capsys.readouterr().err
    assert "paused: all" in (tmp_path / "summary.md").read_text("utf-8")
