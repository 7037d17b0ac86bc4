"""`ci-compile sync` killed before any of its steps, including each git that it starts: all branches move, or none.

The next ordinary commit in the checkout removes nothing.

A git that is killed itself while it moves the refs, which it has locked all before it moves one, leaves its locks: the
next run says which file stands in the way, and once that is gone moves the rest.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkers import require
from tests.faults.injector import child, command, states
from tests.faults.kernel import KILLED, TRACING, changing, striking
from tests.faults.trees import NEW, OLD, give, put, replaced
from tests.specs import small

pytestmark = pytest.mark.slow

ENVIRONMENT = {
    **os.environ,
    **{f"GIT_{who}_{what}": f"{who}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(root: Path, *words: str) -> str:
    """The output of git."""
    done = subprocess.run(
        [require("git"), "-C", root, *words], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trees(root: Path) -> list[str]:
    """The tree of each branch."""
    return git(root, "for-each-ref", "--format=%(refname) %(tree)", "refs/heads").splitlines()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two branches to bring up to date."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    put(root, "README.md", "mine\n")
    two = OLD["branches"] | {"other": NEW["branches"]["main"]}
    give(root, small(branches=two))
    git(root, "init", "-q", "-b", "main", "--template=")
    for files in ("packedRefs", "filesRefLock"):  # milliseconds to wait for a lock, which a killed git left here
        git(root, "config", f"core.{files}Timeout", "1")
    git(root, "add", "README.md")
    git(root, "commit", "-qm", "first")
    git(root, "branch", "other")
    return root


def sync(root: Path) -> tuple[str, ...]:
    """The arguments of the command."""
    return ("ci-compile", "sync", "--root", str(root))


def test_all_branches_move_or_none_and_the_next_run_moves_them(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "states"
    folder.mkdir()
    old = trees(root)
    count = states(sync(root), root, folder)
    new = trees(root)
    assert len(old) == 2
    assert not set(old) & set(new)
    seen = [*(trees(folder / str(step)) for step in range(1, count + 1)), new]
    assert all(now in (old, new) for now in seen)
    assert {tuple(now) for now in seen} == {tuple(old), tuple(new)}
    for step in (1, count // 2, count):
        again = folder / str(step)
        assert child(lambda again=again: command(*sync(again))) == 0  # type: ignore[misc]
        assert trees(again) == new
        assert (again / "README.md").read_text("utf-8") == "mine\n"
    before, after = (listed(root, lines[0].split()[1]) for lines in (old, new))
    for step, (main, _) in enumerate(seen[:-1], 1):
        then = next_commit(folder / str(step))
        assert before <= then <= before | after, f"step {step}"
        assert then == after or main == old[0], f"step {step}"


def next_commit(root: Path) -> set[str]:
    """The files that `git commit --all` would commit."""
    git(root, "add", "--update")
    return listed(root, git(root, "write-tree").strip())


def listed(root: Path, tree: str) -> set[str]:
    return set(git(root, "ls-tree", "-r", tree).splitlines())


WRAPPER = """\
#!/bin/sh
PATH={path}
case " $* " in
*" update-ref "*) exec strace -qq -e signal=none $STRIKE git "$@" ;;
*) exec git "$@" ;;
esac
"""


def test_a_git_killed_while_it_moves_branches_is_reported_and_recovered_from(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("strace")
    put(tmp_path, "bin/git", WRAPPER.format(path=shlex.quote(os.environ["PATH"]))).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    kept, log = tmp_path / "kept", tmp_path / "log"
    shutil.copytree(root, kept)
    old = trees(root)
    monkeypatch.setenv("STRIKE", f"{TRACING} -o {log}")
    assert command(*sync(root)) == 0
    new = trees(root)
    calls = list(changing(log.read_text("utf-8"), root))
    assert {"rename", "unlink"} <= {call.name for call in calls}
    for call in calls:
        replaced(root, kept)
        monkeypatch.setenv("STRIKE", f"-o {os.devnull} {striking(call, KILLED)}")
        assert command(*sync(root)) == 2, call
        assert "git update-ref ended with" in capsys.readouterr().err
        assert all(line in old or line in new for line in trees(root)), call
        monkeypatch.setenv("STRIKE", "-o /dev/null")
        for _ in range(10):  # each run finds one leftover lock
            if command(*sync(root)) == 0:
                break
            said = capsys.readouterr().err
            left = re.search(r"If no other git is running, delete (.*) \[git\]", said)
            assert left, said
            Path(left[1]).unlink()
        assert trees(root) == new, call
        # HEAD's own lock stops no sync once its branch has moved; the next commit here reports it.
        assert {path.name for path in root.rglob("*.lock")} <= {"HEAD.lock"}, call
