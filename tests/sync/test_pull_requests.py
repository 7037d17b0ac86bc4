"""`sync --pull-request`: one pull request per branch that changes, with the meaning of the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.clock import Clock
from ci_compiler.git import Git
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.recipes.test_affected import Repository

from .test_branches import SPEC, heads, remote, repository, shown
from .test_carried import BUMPED, FILE, synced

__all__ = ["github", "remote", "repository", "synced"]

HEADS = {"main": "ci-compile/main", "cuda-13_0": "ci-compile/cuda-13_0"}


@pytest.fixture
def pushed(synced: Repository, remote: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The synced repository with GitHub, a remote, and a changed spec that is not committed."""
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr(Clock, "sleep", lambda *_: None)
    assert Git(remote).heads()["main"] == heads(synced)["main"]
    synced.write(FILE, BUMPED)
    return synced


def test_each_branch_gets_one_pull_request_with_the_meaning_of_its_change(
    pushed: Repository, remote: Path, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    before = heads(pushed), Git(remote).heads()
    assert pushed.ci("sync", "--pull-request") == 0
    theirs = Git(remote).heads()
    assert (heads(pushed), {name: theirs[name] for name in before[1]}) == before
    opened = {one["base"]: one for one in github.pulls.values()}
    assert {base: one["head"] for base, one in opened.items()} == HEADS
    assert shown(pushed, theirs["ci-compile/cuda-13_0"], FILE) == BUMPED.strip()
    assert "2.10.1" in opened["cuda-13_0"]["body"]
    nothing = "No variant is added, removed or rebuilt"
    assert [base for base, one in opened.items() if nothing in one["body"]] == ["main"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[-2:]] == [[base, one["html_url"]] for base, one in opened.items()]


def test_a_second_run_changes_nothing_and_a_later_change_updates_the_same_pull_request(
    pushed: Repository, remote: Path, github: GitHub
) -> None:
    assert pushed.ci("sync", "--pull-request") == 0
    first = Git(remote).heads()
    assert pushed.ci("sync", "--pull-request") == 0
    assert Git(remote).heads() == first
    pushed.write(FILE, BUMPED.replace("2.10.1", "2.10.2"))
    assert pushed.ci("sync", "--pull-request") == 0
    later = Git(remote).heads()
    assert {name for name in first if first[name] != later[name]} == set(HEADS.values())
    assert len(github.pulls) == 2
    assert all("2.10.2" in one["body"] for one in github.pulls.values())
    parent = pushed.git("rev-parse", f"{later['ci-compile/cuda-13_0']}^")
    assert parent == heads(pushed)["cuda-13_0"]


def test_commits_of_others_on_the_branch_of_a_pull_request_are_kept(
    pushed: Repository, remote: Path, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pushed.ci("sync", "--pull-request") == 0
    head = Git(remote).heads()["ci-compile/main"]
    commit = pushed.git("commit-tree", f"{head}^{{tree}}", "-p", head, "-m", "a correction")
    pushed.git("push", "-q", "origin", f"{commit}:refs/heads/ci-compile/main")
    pushed.write(FILE, SPEC.replace("owner: my-org", "owner: our-org"))
    assert pushed.ci("sync", "--pull-request") == 2
    assert "ci-compile/main: its last commit is not one of sync" in capsys.readouterr().err
    assert Git(remote).heads()["ci-compile/main"] == commit
    assert len(github.pulls) == 2


def test_nothing_is_opened_where_nothing_changes(
    pushed: Repository, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed.write(FILE, SPEC)
    assert pushed.ci("sync", "--pull-request") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "every branch is up to date"
    assert not github.pulls


def test_a_push_and_pull_requests_are_alternatives(pushed: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pushed.ci("sync", "--push", "--pull-request")
    assert "--pull-request and --push exclude each other" in capsys.readouterr().err
