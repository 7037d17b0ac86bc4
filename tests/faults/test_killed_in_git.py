"""Killed at any moment in a git checkout: git sees the old files or the new ones, and nothing else."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.files import atomic as disk
from tests.faults.injector import child, command, import_all, states
from tests.faults.test_sync_killed import ENVIRONMENT, git
from tests.faults.trees import FOREIGN, NEW, OLD, STAGING, give, leftovers, put, snapshot

pytestmark = pytest.mark.slow

SECONDS, KILLS, FEWEST = (20.0, 60, 5) if os.environ.get("CI_COMPILER_FAULTS") == "every" else (5.0, 15, 3)
"""The time for kills at random moments, the most of them, and the fewest on however busy a machine."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a commit with the new spec and what the old one compiles to."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    for path, text in FOREIGN.items():
        put(root, path, text)
    git(root, "init", "-q", "-b", "main", "--template=")
    give(root, OLD)
    assert child(lambda: command("ci-compile", "recipes", "--branch", "main", "--root", str(root))) == 0
    assert child(lambda: command("ci-compile", "--branch", "main", "--root", str(root))) == 0
    give(root, NEW)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "old")
    return root


def words(root: Path) -> list[str]:
    return ["ci-compile", "--branch", "main", "--root", str(root)]


def files(root: Path) -> dict[str, bytes]:
    """What `git add --all` would make of the checkout."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {path: (root / path).read_bytes() for path in listed if (root / path).is_file()}


@pytest.mark.parametrize("beside", [False, True], ids=["in the git folder", "beside the files"])
def test_git_sees_the_old_or_the_new_before_every_step(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    if beside:
        monkeypatch.setattr(disk, "_place", lambda path: path.parent)
    before, folder = files(root), tmp_path / "states"
    folder.mkdir()
    count = states(words(root), root, folder)
    after = files(root)
    seen = [files(folder / str(step)) for step in range(1, count + 1)]
    assert before != after
    assert all(now in (before, after) for now in seen)
    assert before in seen
    assert after in seen
    staged = [leftovers(folder / str(step)) for step in range(1, count + 1)]
    assert any(staged)
    inside = any(list((folder / str(step) / ".git").glob(f"{STAGING}*")) for step in range(1, count + 1))
    assert inside is not beside
    assert not leftovers(root)


def of_worktree(root: Path) -> Path:
    git(root, "worktree", "add", "-q", "--detach", str(root.parent / "linked"))
    return root.parent / "linked"


@pytest.mark.weekly
@pytest.mark.parametrize("checkout", [lambda root: root, of_worktree], ids=["main", "linked worktree"])
def test_a_kill_at_a_random_moment_leaves_nothing_that_git_sees(root: Path, checkout: Callable[[Path], Path]) -> None:
    folder = checkout(root)
    before = files(folder)
    import_all()
    start = time.monotonic()
    assert child(lambda: command(*words(folder))) == 0
    whole, after = time.monotonic() - start, files(folder)
    assert before != after
    kills, left = 0, 0
    while kills < FEWEST or (kills < KILLS and time.monotonic() < start + SECONDS):
        git(folder, "reset", "-q", "--hard")
        git(folder, "clean", "-qffd")
        _kill_after(random.uniform(0, whole), words(folder))  # noqa: S311
        assert STAGING not in git(folder, "status", "--porcelain", "--untracked-files=all")
        assert files(folder) in (before, after)
        kills, left = kills + 1, left + bool(leftovers(root))
    print(f"{kills} kills, {left} copies left in the git folder")
    assert child(lambda: command(*words(folder))) == 0
    assert files(folder) == after
    assert not leftovers(root)
    assert not leftovers(folder)


def _kill_after(seconds: float, command_line: list[str]) -> None:
    """Runs the command and kills it after `seconds`; waits for all processes that it started."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        sys.stdout = sys.stderr = io.StringIO()
        command(*command_line)
        os._exit(0)
    os.close(writing)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.read(reading, 1)  # ends when the last process that has the other end has ended
    os.close(reading)


def test_a_git_folder_from_which_nothing_can_move_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(one: Path, other: Path) -> Path:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(one), None, str(other))

    assert disk._place(root / ".github") == root / ".git"  # noqa: SLF001
    with monkeypatch.context() as mounted:
        mounted.setattr(Path, "rename", elsewhere)
        assert disk._place(root / ".github") == root  # noqa: SLF001
    shutil.rmtree(root / ".git")
    assert disk._place(root / ".github") == root  # noqa: SLF001


def test_a_git_folder_on_another_file_system_is_not_used(root: Path) -> None:
    other = Path("/dev/shm") / f"ci-compile-test-{os.getpid()}"  # noqa: S108
    if not other.parent.is_dir() or other.parent.stat().st_dev == root.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    try:
        shutil.move(root / ".git", other)
        put(root, ".git", f"gitdir: {other}\n")
        assert child(lambda: command(*words(root))) == 0
        assert not leftovers(root)
        assert snapshot(other)
    finally:
        shutil.rmtree(other, ignore_errors=True)
