"""Checkouts that somebody else made: reading them runs none of their programs, and does not hang."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.checkout import head_branch
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.sync import checkouts
from ci_compiler.sync.branches import BranchPlan


class Checkout:
    """A checkout with two commits whose configuration and hooks write `ran` when one of these programs runs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.ran = folder / "theirs", folder / "ran"
        self.trap = folder / "trap"
        self.trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.ran}'\nexit 1\n", "utf-8")
        self.trap.chmod(0o755)
        self.git(folder, "init", "-q", "-b", "main", str(self.root))
        self.commits = [self.commit(f"{number}\n") for number in range(2)]

    def git(self, folder: Path, *words: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "safe.bareRepository=all"]
        return subprocess.run(
            ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, text: str) -> str:
        (self.root / "file").write_text(text, "utf-8")
        self.git(self.root, "add", "file")
        self.git(self.root, "commit", "-q", "-m", text)
        return self.git(self.root, "rev-parse", "HEAD")

    def set_trap(self) -> None:
        """Names the trap everywhere that git may run a program."""
        for key in ("core.fsmonitor", "gpg.program", "diff.external", "core.pager", "core.sshCommand", "core.editor"):
            self.git(self.root, "config", key, str(self.trap))
        for key in ("log.showSignature", "commit.gpgSign"):
            self.git(self.root, "config", key, "true")
        for name in ("reference-transaction", "post-index-change", "pre-push", "post-rewrite"):
            hook = self.root / ".git/hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_bytes(self.trap.read_bytes())
            hook.chmod(0o755)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    for who in ("AUTHOR", "COMMITTER"):  # of the commits that the product makes; a newcomer may have told git no name
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")
    return Checkout(tmp_path)


def written(git: Git, commits: list[str]) -> None:
    tree = git.write_tree(commits[1], {"file": None, "other": "text\n"})
    git.move_refs({"main": (git.commit_tree(tree, commits[1], "message"), commits[1])})


def updated(git: Git, commits: list[str]) -> None:
    plan = BranchPlan("main", commits[1], {"other": "text\n"}, {}, {}, 1, 0)
    commit = git.commit_tree(git.write_tree(commits[1], plan.changes), commits[1], "message")
    checkout = checkouts.Checkout(git.root, plan)
    assert not list(checkout.refusals())
    for trial in (True, False):
        checkout.update(commit, trial=trial)


READS: dict[str, Callable[[Git, list[str]], object]] = {
    "message": lambda git, commits: git.message(commits[1]),
    "tree": lambda git, commits: git.blobs(list(git.tree(commits[1]).values())),
    "history": lambda git, commits: [git.versions(commits[1], "file"), git.changed(*commits), git.merge_base(*commits)],
    "branches": lambda git, _: [git.heads(), git.worktrees()],
    "writing": written,
    "updating": updated,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_program_of_a_checkout_runs(theirs: Checkout, read: Callable[[Git, list[str]], object]) -> None:
    signed = f"tree {theirs.git(theirs.root, 'rev-parse', 'HEAD^{tree}')}\nparent {theirs.commits[1]}\n"
    signed += (
        "author A <a@example.org> 1 +0000\ncommitter A <a@example.org> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----"
    )
    signed += "\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n"
    (theirs.root / "signed").write_text(signed, "utf-8")
    commit = theirs.git(theirs.root, "hash-object", "-t", "commit", "-w", "signed")
    theirs.git(theirs.root, "update-ref", "refs/heads/main", commit)
    theirs.set_trap()
    read(Git(theirs.root), [theirs.commits[1], commit])
    assert not theirs.ran.exists()


def test_missing_objects_of_a_partial_clone_are_not_fetched(theirs: Checkout) -> None:
    name = theirs.git(theirs.root, "rev-parse", "HEAD:file")
    theirs.set_trap()
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(theirs.root)),
        ("remote.origin.uploadpack", str(theirs.trap)),
    ):
        theirs.git(theirs.root, "config", key, value)
    (theirs.root / ".git/objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(InputError):
        Git(theirs.root).blobs([name])
    assert not theirs.ran.exists()


def test_a_bare_repository_inside_a_checkout_is_not_entered(theirs: Checkout) -> None:
    inner = theirs.root / "docs"
    theirs.git(theirs.root, "init", "-q", "--bare", str(inner))
    with pytest.raises(InputError, match="bare"):
        Git(inner)


def test_the_branch_of_a_checkout_with_pipes_and_huge_files_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "pipe/.git").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe/.git/HEAD")
    (tmp_path / "linked").mkdir()
    os.mkfifo(tmp_path / "linked/.git")
    (tmp_path / "huge/.git").mkdir(parents=True)
    with (tmp_path / "huge/.git/HEAD").open("wb") as file:
        file.write(b"ref: refs/heads/main")
        file.truncate(1 << 40)
    assert [head_branch(tmp_path / name) for name in ("pipe", "linked", "huge")] == ["", "", ""]
