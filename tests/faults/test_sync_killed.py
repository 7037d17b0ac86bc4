"""`ci-compile sync` killed before any step of its own, each git that it starts among them: all branches move, or none.

What a git that is killed itself leaves is git's matter: its transaction of refs locks all of them before it moves one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.checkers import require
from tests.faults.injector import child, command, states
from tests.faults.trees import NEW, OLD, give, put
from tests.specs import small

ENVIRONMENT = {
    **os.environ,
    **{f"GIT_{who}_{what}": f"{who}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(root: Path, *words: str) -> str:
    """What git says."""
    done = subprocess.run(
        [require("git"), "-C", root, *words], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trees(root: Path) -> list[str]:
    """The tree of each branch."""
    return git(root, "for-each-ref", "--format=%(refname) %(tree)", "refs/heads").splitlines()


def test_all_branches_move_or_none_and_the_next_run_moves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    root, folder = tmp_path / "root", tmp_path / "states"
    folder.mkdir()
    put(root, "README.md", "mine\n")
    two = OLD["branches"] | {"other": NEW["branches"]["main"]}
    give(root, small(branches=two))
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "README.md")
    git(root, "commit", "-qm", "first")
    git(root, "branch", "other")
    words = ("ci-compile", "sync", "--root", str(root))
    old = trees(root)
    count = states(words, root, folder)
    new = trees(root)
    assert len(old) == 2
    assert not set(old) & set(new)
    seen = [trees(folder / str(step)) for step in range(1, count + 1)]
    assert all(now in (old, new) for now in seen)
    assert {tuple(now) for now in seen} == {tuple(old), tuple(new)}
    for step in (1, count // 2, count):
        again = folder / str(step)
        assert child(lambda again=again: command("ci-compile", "sync", "--root", str(again))) == 0  # type: ignore[misc]
        assert trees(again) == new
        assert (again / "README.md").read_text("utf-8") == "mine\n"
