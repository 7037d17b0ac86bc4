"""The checkout that a stage works in: what it says of it, and how it is put on a branch without losing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.backends.checkout import JobCheckout
from tests.backends.programs import outcome
from tests.checkers import require


class Repository:
    """A repository with a remote: two commits on main, and one more on the branch `topic` that is not pushed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        self.checkout = JobCheckout(self.root)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, encoding="utf-8", check=True)
        return done.stdout.strip()

    def commit(self, name: str, text: str) -> str:
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("git")
    folder = tmp_path_factory.mktemp("made")
    (folder / "repository").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        _settings(patch)
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", folder / "repository"], check=True)
        repository = Repository(folder)
        repository.git("init", "--quiet", "--bare", "--initial-branch=main", "../origin.git")
        repository.git("remote", "add", "origin", "../origin.git")
        repository.commit("a file", "first")
        repository.commit("folder/größe", "second")
        repository.git("push", "--quiet", "origin", "main")
        repository.git("checkout", "--quiet", "-b", "topic")
        repository.commit("topic", "third")
        repository.git("checkout", "--quiet", "main")
    return folder


def _settings(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        patch.setenv(f"GIT_{who}_NAME", "a")
        patch.setenv(f"GIT_{who}_EMAIL", "a@example.com")


@pytest.fixture
def repository(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    _settings(monkeypatch)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Repository(tmp_path)


def test_a_commit_and_its_history_are_named_by_their_hashes(repository: Repository) -> None:
    checkout, head, first = repository.checkout, *repository.git("rev-parse", "HEAD", "HEAD~1").split()
    assert (checkout.commit(), checkout.resolve(first[:12]), checkout.tip("main")) == (head, first, head)
    assert checkout.tree_id() == repository.git("rev-parse", "HEAD^{tree}")
    assert checkout.history([], 5) == (head, first)
    assert checkout.history([], 1) == (head,)
    assert checkout.history(["a file"], 5) == (first,)


def test_changes_are_those_of_tracked_files_and_of_all_files_at_a_path(repository: Repository) -> None:
    assert repository.checkout.changed() == ()
    (repository.root / "folder/new").mkdir()
    (repository.root / "folder/new/größe").touch()
    assert (repository.checkout.changed(), repository.checkout.changed("a file")) == ((), ())
    assert repository.checkout.changed("folder") == ("folder/new/größe",)
    repository.git("mv", "a file", "z")
    assert repository.checkout.changed() == ("a file", "z")


def test_a_commit_must_be_on_the_branch_of_the_remote(repository: Repository, tmp_path: Path) -> None:
    tip = repository.git("rev-parse", "main")
    for commit in (tip, "main~1"):
        repository.checkout.require("main", commit)
    message = f"main: topic is not on origin/main (which is at {tip}); push it first [commit-not-on-branch]"
    assert outcome(lambda: repository.checkout.require("main", "topic")) == message
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth=1", f"file://{tmp_path}/origin.git", str(shallow))
    assert outcome(lambda: JobCheckout(shallow).require("main", tip)) == (
        f"{shallow}: the clone is shallow; publishing needs the full history: fetch-depth: 0, or `git fetch "
        "--unshallow` [shallow-clone]"
    )


def test_the_files_of_a_commit_are_in_a_folder_of_the_same_name_for_a_while(repository: Repository) -> None:
    hook = repository.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hooked\n", "utf-8")
    hook.chmod(0o755)
    (repository.root / "a file").write_text("changed", "utf-8")
    with repository.checkout.tree("main~1") as folder:
        assert {path.name for path in folder.iterdir()} == {".git", "a file"}
        assert (folder.name, (folder / "a file").read_text("utf-8")) == ("repository", "first")
    assert not folder.exists()
    with pytest.raises(KeyboardInterrupt), repository.checkout.tree("main") as folder:
        raise KeyboardInterrupt
    assert not folder.exists()
    assert len(repository.git("worktree", "list").splitlines()) == 1
    with pytest.raises(Exception, match=r"git worktree: invalid reference: nowhere \[git\]"):
        repository.checkout.tree("nowhere").__enter__()


BUSY = "main: is checked out in another worktree, whose files would not change; see `git worktree list` [checkout-busy]"
CHANGED = "a file: differs from the commit{}; {} needs a clean tree [tree-changed]"
PREPARED: dict[str, tuple[Callable[[Repository], object], str | None]] = {
    "on the branch": (lambda repository: repository.git("checkout", "--quiet", "main"), None),
    "on no branch": (lambda repository: repository.git("checkout", "--quiet", "--detach", "main~1"), None),
    "on another branch": (lambda repository: repository.git("checkout", "--quiet", "topic"), None),
    "without the branch": (
        lambda repository: (
            repository.git("checkout", "--quiet", "topic"),
            repository.git("branch", "--quiet", "-D", "main"),
        ),
        None,
    ),
    "with the branch before": (lambda repository: repository.git("reset", "--quiet", "--hard", "main~1"), None),
    "with untracked files": (lambda repository: (repository.root / "new").touch(), None),
    "with a commit that is not pushed": (
        lambda repository: repository.commit("a file", "third"),
        "main: has commits that origin/main lacks; push them first [branch-ahead]",
    ),
    "with a worktree of the branch": (
        lambda repository: (
            repository.git("checkout", "--quiet", "topic"),
            repository.git("worktree", "add", "--quiet", "../other", "main"),
        ),
        BUSY,
    ),
    "with another worktree": (
        lambda repository: repository.git("worktree", "add", "--quiet", "../other", "topic"),
        None,
    ),
    "with a change": (
        lambda repository: (repository.root / "a file").write_text("x", "utf-8"),
        CHANGED.format("", "publishing"),
    ),
    "with changes": (
        lambda repository: [(repository.root / name).unlink() for name in ("a file", "folder/größe")],
        CHANGED.format(" and 1 more", "publishing"),
    ),
}


@pytest.mark.parametrize("state", PREPARED)
def test_a_checkout_is_put_on_a_branch_unless_something_would_be_lost(repository: Repository, state: str) -> None:
    prepare, refused = PREPARED[state]
    tip = repository.git("rev-parse", "main")
    prepare(repository)
    before = repository.git("rev-parse", "HEAD")
    assert outcome(lambda: repository.checkout.put_on("main", tip)) == refused
    assert repository.checkout.commit() == (before if refused else tip)
    if refused is None:
        assert repository.git("rev-parse", "--abbrev-ref", "HEAD", "@{upstream}").split() == ["main", "origin/main"]


def test_a_checkout_is_put_at_a_commit_unless_something_would_be_lost(repository: Repository) -> None:
    first = repository.git("rev-parse", "main~1")
    repository.checkout.put_at(first)
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert repository.checkout.commit() == first
    (repository.root / "a file").write_text("changed", "utf-8")
    refused = CHANGED.format("", "checking out another commit")
    assert outcome(lambda: repository.checkout.put_at("main")) == refused
