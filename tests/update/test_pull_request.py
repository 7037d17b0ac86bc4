"""`update --pull-request`: one pull request with the edited spec, what it compiles to, and what it means."""

from __future__ import annotations

import subprocess

import pytest

from ci_compiler.clock import Clock
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import Upstreams

__all__ = ["github"]


@pytest.fixture
def pushed(fleet: Repository, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The fleet, compiled, with a remote and GitHub."""
    return connected(fleet, github, monkeypatch)


def connected(fleet: Repository, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr(Clock, "sleep", lambda *_: None)
    assert fleet.ci() == 0
    assert fleet.ci("recipes", "--branch", "main") == 0
    fleet.commit()
    remote = fleet.root.parent / "remote"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    fleet.git("remote", "add", "origin", str(remote))
    fleet.git("push", "-q", "origin", "main")
    return fleet


def test_one_pull_request_follows_the_newest_release(pushed: Repository, github: GitHub, upstreams: Upstreams) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    assert pushed.ci("update", "--pull-request") == 0
    assert pushed.ci("update", "--pull-request") == 0
    (opened,) = github.pulls.values()
    assert (opened["title"], opened["head"], opened["base"]) == (
        "Update pytorch to 2.8.1, torchvision to 0.23.1",
        "ci-compile-update",
        "main",
    )
    for said in ("| main | pytorch | 2.8.0 | 2.8.1 |", "machine-hours", "4 recipes compiled and audited, 0 defects"):
        assert said in opened["body"]
    first = pushed.git("ls-remote", "origin", "ci-compile-update")
    upstreams.release("2.8.2", "0.23.2", "")
    assert pushed.ci("update", "--pull-request") == 0
    assert pushed.git("ls-remote", "origin", "ci-compile-update") != first
    (same,) = github.pulls.values()
    assert same["title"] == "Update pytorch to 2.8.2, torchvision to 0.23.2"
    assert (pushed.root / FILE).read_text("utf-8") == SPEC
    pushed.git("fetch", "-q", "origin", "ci-compile-update")
    pushed.git("checkout", "-q", "--detach", "FETCH_HEAD")
    assert "pytorch: 2.8.2" in (pushed.root / FILE).read_text("utf-8")
    assert pushed.ci("--check", "--branch", "main") == 0
    assert pushed.ci("recipes", "--check", "--branch", "main") == 0
