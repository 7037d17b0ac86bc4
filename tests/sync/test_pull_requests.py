"""`sync --pull-request`: one pull request per branch that changes, with the meaning of the change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.clock import Clock
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.github.client import url_in
from ci_compiler.sync.branches import WRITTEN, BranchPlan
from ci_compiler.sync.pull_requests import HEAD, open_pull_requests
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once, init

from .test_branches import SPEC, heads, remote, repository, shown
from .test_carried import BUMPED, FILE, synced

__all__ = ["github", "remote", "repository", "synced"]

HEADS = {"main": "ci-compile/main", "cuda-13_0": "ci-compile/cuda-13_0"}


class Hub:
    """GitHub as the pull requests of a sync use it; `asked` has each request."""

    access = SimpleNamespace(owner="my-org")

    def __init__(self, *found: dict[str, int]) -> None:
        self.found = found
        self.asked: list[Any] = []

    def git_environment(self) -> dict[str, str]:
        return {}

    def pages(self, what: str, path: str, *_: object) -> Iterator[dict[str, int]]:
        self.asked.append((what, path))
        yield from self.found

    def request(self, what: str, method: str, path: str, given: dict[str, str], **options: object) -> str:
        self.asked.append((what, method, path, given, options["read"], options.get("again", True)))
        return f"{path} of {given['title']}"


@pytest.fixture
def offering(tmp_path: Path) -> Repository:
    """A repository with the branches `a` and `b`, and a remote."""
    copy_once(small_with_remote, tmp_path)
    return Repository(tmp_path / "small")


def small_with_remote(folder: Path) -> None:
    made = Repository(folder / "small")
    made.write("x", "1\n")
    made.commit()
    init(folder / "small.git", bare=True)
    made.git("remote", "add", "origin", str(folder / "small.git"))
    for branch in ("a", "b"):
        made.git("branch", branch)
    made.git("push", "-q", "origin", "--all")


def there(made: Repository) -> dict[str, str]:
    """The branches of the remote."""
    return Git(made.root).list_remote("origin", {})


def opened(made: Repository, hub: Any, text: str, *, head: str = HEAD) -> list[tuple[str, str]]:
    """Opens a pull request for `a`, whose file `x` gets another text, and none for `b`."""
    parent = made.git("rev-parse", "main")
    plans = [BranchPlan("a", parent, {"x": text}, {}, {}, 0, 0), BranchPlan("b", parent, {}, {}, {}, 0, 0)]
    messages = {"a": f"Title {text}\n\n{WRITTEN}\n", "b": "none"}
    found = open_pull_requests(hub, Git(made.root), "origin", plans, messages, {"a": "body", "b": "none"}, head=head)
    return list(found)


LOOKED = ("look for the pull request of a", "pulls?state=open&base=a&head=my-org%3Aci-compile%2Fa")


def test_a_commit_is_pushed_and_its_request_opened_or_updated(offering: Repository) -> None:
    made, hub = offering, Hub()
    assert opened(made, hub, "2") == [("a", "pulls of Title 2")]
    given = {"title": "Title 2", "body": "body", "base": "a", "head": "ci-compile/a"}
    assert hub.asked == [LOOKED, ("open a pull request for a", "POST", "pulls", given, url_in, False)]
    first = there(made)
    assert made.git("show", f"{first['ci-compile/a']}:x") == "2"
    assert {*first} == {"main", "a", "b", "ci-compile/a"}
    hub = Hub({"number": 7})
    assert opened(made, hub, "2") == [("a", "pulls/7 of Title 2")]
    given = {"title": "Title 2", "body": "body"}
    assert hub.asked == [LOOKED, ("update the pull request of a", "PATCH", "pulls/7", given, url_in, True)]
    assert there(made) == first, "the same changes are there already"
    opened(made, Hub(), "3")
    later = there(made)["ci-compile/a"]
    assert made.git("show", f"{later}:x") == "3"
    assert Git(made.root).parents(later) == [made.git("rev-parse", "a")]
    opened(made, Hub(), "3", head="bump/{branch}")
    assert "bump/a" in there(made)


def test_a_commit_of_somebody_else_is_not_replaced(offering: Repository) -> None:
    made = offering
    made.git("push", "-q", "origin", "main:refs/heads/ci-compile/a", "main:refs/heads/ci-compile/b")
    with pytest.raises(InputError) as raised:
        opened(made, Hub(), "2")
    message = "its last commit is not one of sync; merge its pull request, or delete the branch [in-the-way]"
    assert str(raised.value) == f"ci-compile/a: {message}"
    assert there(made)["ci-compile/a"] == made.git("rev-parse", "main")


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
