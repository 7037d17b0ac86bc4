"""What `sync --push` starts: said in jobs and hours, refused where GitHub would cancel or overlook it, or in waves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.git import Git
from ci_compiler.plan.limits import Limit
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import load_spec
from ci_compiler.sync.compiled import compile_files
from tests.github.conftest import github
from tests.github.state import GitHub
from tests.recipes.test_affected import Repository

from .test_branches import heads, remote, repository, shown
from .test_carried import BUMPED, FILE, synced
from .test_pull_requests import pushed

__all__ = ["github", "pushed", "remote", "repository", "synced"]

LONG = BUMPED.replace("attribute: torch", "attribute: torch, minutes: {cpu: 1400, gpu: 1400}")
"""The change with builds of torch that take a day each."""


@pytest.fixture
def served(pushed: Repository, github: GitHub) -> GitHub:
    """GitHub with the compiled workflows."""
    github.push(compile_files(plan(load_spec(pushed.root / FILE, shown=FILE))))
    return github


def test_a_push_says_what_it_starts(pushed: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert pushed.ci("sync", "--push") == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("the push starts"))
    assert "machine-hours, done in" in line
    assert "[skip ci]" not in pushed.git("log", "-1", "--format=%B", "cuda-13_0")


def test_a_push_that_github_would_cancel_is_refused_before_it_is_made(
    pushed: Repository, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert LONG != BUMPED
    pushed.write(FILE, LONG)
    before = heads(pushed), Git(remote).heads()
    assert pushed.ci("sync", "--push") == 2
    said = capsys.readouterr().err
    assert "[queue-too-long]" in said
    assert "`--waves` starts the shards in" in said
    assert (heads(pushed), Git(remote).heads()) == before


def test_a_push_of_more_files_than_path_filters_see_is_refused_before_it_is_made(
    pushed: Repository, remote: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_compiler.plan.limits.limit", lambda _: Limit(gate=2, limit=2))
    before = heads(pushed), Git(remote).heads()
    assert pushed.ci("sync", "--push") == 2
    err = capsys.readouterr().err
    assert "cuda-13_0: the push changes" in err
    assert "[too-many-files]" in err
    assert (heads(pushed), Git(remote).heads()) == before


def test_in_waves_the_push_starts_nothing_and_a_workflow_builds_what_changed(
    pushed: Repository, served: GitHub, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed.write(FILE, LONG)
    assert pushed.ci("sync", "--push", "--waves") == 0
    assert shown(pushed, Git(remote).heads()["cuda-13_0"], FILE) == LONG.strip()
    assert pushed.git("log", "-1", "--format=%B", "cuda-13_0").rstrip().endswith("[skip ci]")
    (started,) = served.dispatched
    assert (started["path"], started["ref"], started["branch"]) == (
        ".github/workflows/waves.yml",
        "main",
        "cuda-13_0",
    )
    assert started["publish"] == "true"
    assert started["about"].endswith(" of cuda-13_0")
    assert served.runs[-1]["html_url"] in capsys.readouterr().out


def test_waves_without_a_push_are_refused(pushed: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert pushed.ci("sync", "--waves") == 2
    assert "--waves: needs --push" in capsys.readouterr().err
