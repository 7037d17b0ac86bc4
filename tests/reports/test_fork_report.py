"""The comment on a fork's pull request: from GitHub's own results, and with no text of the fork as markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.github.status import ReportedJob
from ci_compiler.reports.fork_report import fork_comment, outcome
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.specs import SMALL, small

__all__ = ["github"]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
URL = "https://github.com/my-org/stack/actions/runs/1"
STEPS = {"Build": "build", "Run cpu-test": "cpu-test"}
TITLES = ["main python313-cpu-avx2", "main python313-cuda12_8-sm90-avx2"]
CELLS = [{"title": title, "pool": "forks", "variants": ["a", "b"], "tests": ["cpu-test"]} for title in TITLES]
REQUEST: dict[str, Any] = {
    "number": 7,
    "commit": COMMIT,
    "branch": "main",
    "cells": CELLS,
    "left": {"no pool for untrusted code builds them": 3},
    "work": 7200,
    "end": 3600,
}
REFUSED = {"number": 7, "commit": COMMIT, "refused": [".flox/@everyone/<img src=x>: is a link"]}


def job(title: str, conclusion: str, **steps: str) -> ReportedJob:
    named = {"build": "Build", "test": "Run cpu-test"}
    return ReportedJob(
        name=title, status="completed", conclusion=conclusion, steps={named[key]: value for key, value in steps.items()}
    )


ENDED = [
    job(TITLES[0], "success", build="success", test="success"),
    job(TITLES[1], "failure", build="failure", test="skipped"),
    job("Say what is built", "success", build="failure"),
]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| main")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_it_begins_with_what_is_built_its_cost_and_what_is_left_out() -> None:
    text = fork_comment(REQUEST, None, STEPS, URL)
    assert f"### Build of {COMMIT}" in text
    assert "4 variants on main" in text
    assert f"Forecast: 2.0 machine-hours, 1 h where nothing else runs. [The run]({URL}) has the logs." in text
    assert "- 3 variants: no pool for untrusted code builds them" in text
    assert [row[2:] for row in rows(text)] == [["2", "not ended", "not ended"]] * 2
    assert outcome(REQUEST, None) == ("pending", "4 variants in 2 jobs")


def test_it_ends_with_what_github_says_of_the_jobs_alone() -> None:
    text = fork_comment(REQUEST, ENDED, STEPS, URL)
    assert [row[2:] for row in rows(text)] == [["2", "passed", "passed"], ["2", "**failed**", "–"]]
    assert outcome(REQUEST, ENDED) == ("failure", "1 of 2 jobs passed")
    assert outcome(REQUEST, [job(title, "success") for title in TITLES]) == ("success", "2 of 2 jobs passed")
    assert outcome(REQUEST, []) == ("failure", "0 of 2 jobs passed")
    assert "Nothing of this is published" in text


def test_a_refusal_shows_the_reason_and_no_text_of_the_fork_as_markup() -> None:
    text = fork_comment(REFUSED, None, STEPS, URL)
    assert "<img" not in text.replace(r"\<img", "")
    assert r"- .flox/`@everyone/`\<img src=x\>: is a link" in text
    assert outcome(REFUSED, None) == ("", "")


def test_a_check_of_the_recipes_that_failed_is_named() -> None:
    text = fork_comment(REQUEST, [job("Recipes are sound", "failure")], STEPS, URL)
    assert "Failed on a hosted machine: Recipes are sound." in text
    assert "Failed on" not in fork_comment(REQUEST, ENDED, STEPS, URL)


def test_a_commit_that_rebuilds_nothing_is_fine() -> None:
    nothing = REQUEST | {"cells": [], "left": {}}
    assert "It rebuilds nothing." in fork_comment(nothing, None, STEPS, URL)
    assert outcome(nothing, None) == ("success", "nothing to build")


def test_a_commit_of_which_nothing_is_built_is_not_fine() -> None:
    paused = REQUEST | {"cells": [], "left": {"builds are paused (`ci-compile resume`)": 2}}
    text = fork_comment(paused, None, STEPS, URL)
    assert "Nothing of it is built." in text
    assert "- 2 variants: builds are paused" in text
    assert outcome(paused, None) == ("failure", "nothing is built of 2 variants")


def test_the_command_keeps_one_comment_and_sets_the_status_of_the_commit(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forks = {"runs-on": ["self-hosted", "linux", "x64", "forks"], "cpu": ["avx512"], "untrusted": True}
    (tmp_path / "spec.yaml").write_text(json.dumps(small(runners=SMALL["runners"] | {"forks": forks})), "utf-8")
    github.push({".github/workflows/fork.yml": "{name: x, on: {issue_comment: }, jobs: {}}"})
    ends = [(title, "completed", "success") for title in TITLES]
    number = github.add_run(".github/workflows/fork.yml", ends)["id"]
    for one in github.jobs[number]:
        names = ("Build", "Run cpu-test")
        one["steps"] = [
            {"name": name, "status": "completed", "conclusion": "success", "number": at}
            for at, name in enumerate(names)
        ]
    request = REQUEST | {"number": github.add_request(COMMIT)}
    environment = {"API_URL": github.url, "TOKEN": TOKEN, "REPOSITORY": REPOSITORY, "RUN_ID": str(number)}
    for name, value in {**environment, "SERVER_URL": "https://github.com"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setattr("time.sleep", lambda _: None)
    words = ["--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    for more in ([], ["--ended"]):
        assert run(PROGRAM, ["comment", "--fork", json.dumps(request), *more, *words]) == 0
    (comment,) = github.comments[request["number"]]
    assert [row[2:] for row in rows(comment["body"])] == [["2", "passed", "passed", "–"]] * 2
    assert [(one["sha"], one["state"]) for one in github.statuses] == [(COMMIT, "pending"), (COMMIT, "success")]
    capsys.readouterr()
    for text in WRONG_REQUESTS:
        assert run(PROGRAM, ["comment", "--fork", text, *words]) == 2
        assert "is not what `ci-compile choose --fork` prints" in capsys.readouterr().err
    for text in ("{", "[]", "[" * 100_000):
        assert run(PROGRAM, ["comment", "--fork", text, *words]) == 2
        assert capsys.readouterr().err.startswith("error: --fork")
    assert len(github.comments[request["number"]]) == 1


WRONG_REQUESTS = (
    '{"number": "7"}',
    '{"number": true, "commit": "c"}',
    *(
        json.dumps({"number": 7, "commit": COMMIT} | more)
        for more in ({"cells": 7}, {"cells": [7]}, {"cells": [{}]}, {"refused": 7}, {"left": [1]}, {"left": {"a": "b"}})
    ),
)
