"""The comment on a pull request of the repository: meaning, cost, results, what was left out; one, kept up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.merges import merge_request
from tests.recipes.test_affected import Repository
from tests.specs import small

__all__ = ["github"]

CPU = "pytorch-python313-cpu-avx2"


def spec(**changes: Any) -> str:
    """A spec whose pull requests build one cell."""
    return json.dumps(small(**{"pull-request": {"cells": 1, "comment": True}}, **changes), indent=1)


@pytest.fixture
def requested(tmp_path: Path) -> Repository:
    """The merge of a pull request that gives pytorch other jobs, checked out."""
    (tmp_path / "work").mkdir()
    made = Repository(tmp_path / "work")
    for jobs in (8, 2):
        packages = {"pytorch": {"attribute": "torch", "jobs": jobs}, "torchvision": {"needs": ["pytorch"]}}
        made.write(".github/ci-matrix.yaml", spec(packages=packages))
        assert made.ci("recipes", "--branch", "main") == 0
        made.commit()
    return made


@pytest.fixture
def commented(
    requested: Repository, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[dict[str, Any]]]:
    """The command line of the compiled workflow in that checkout, and the comments of the pull request."""
    head = requested.git("rev-parse", "HEAD")
    number = 7
    github.comments[number] = []
    requested.git("checkout", "-q", "-B", "main", "HEAD^")
    event = {"number": number, **merge_request(requested.git, head)}
    (tmp_path / "event.json").write_text(json.dumps(event), "utf-8")
    environment = {
        "API_URL": github.url,
        "TOKEN": TOKEN,
        "REPOSITORY": REPOSITORY,
        "RUN_ID": "17",
        "SERVER_URL": "https://github.com",
        "EVENT_NAME": "pull_request",
        "EVENT_PATH": str(tmp_path / "event.json"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    words = ["comment", "--results", str(tmp_path / "results"), "--root", str(requested.root), "--verdict"]
    return words, github.comments[number]


def result(folder: Path, name: str, file: str, **content: Any) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / file).write_text(json.dumps(content), "utf-8")


def test_it_says_what_the_change_means_costs_and_left_out_and_how_it_ended(
    commented: tuple[list[str], list[dict[str, Any]]], tmp_path: Path
) -> None:
    words, comments = commented
    assert run(PROGRAM, [*words, "failure"]) == 0
    result(tmp_path / "results", f"build-{CPU}@main", "manifest.json", seconds=90, closure_size=10**9)
    result(tmp_path / "results", f"cpu-test-{CPU}@main", "result.json", passed=True, reach="own")
    assert run(PROGRAM, [*words, "success"]) == 0
    (comment,) = comments
    body = comment["body"]
    assert "### Verdict: passed; [the run](https://github.com/my-org/stack/actions/runs/17)" in body
    assert "- `packages.pytorch.jobs`: `8` → `2`" in body
    assert "| main | 8 | 2 | the merge of the request |" in body
    assert "Forecast for 2 variants: " in body
    (row,) = (line for line in body.splitlines() if line.startswith(f"| `{CPU}`"))
    assert "passed" in row
    assert "6 further variants are rebuilt by this change; start them with" in body
    assert "gh workflow run build-main-sm90.yml --ref topic -f variant=all" in body


def test_another_event_has_no_comment(
    commented: tuple[list[str], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, comments = commented
    monkeypatch.setenv("GITHUB_EVENT_NAME", "merge_group")
    assert run(PROGRAM, [*words, "success"]) == 2
    monkeypatch.setenv("GITHUB_RUN_ID", "")
    assert run(PROGRAM, [*words, "success"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert ["is no pull request" in said[-2], "names no run" in said[-1]] == [True, True]
    assert comments == []
