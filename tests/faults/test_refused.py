"""A full disk, a read-only folder, other files in the way: each is a one-line error, and nothing changes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import OpenFolder
from tests.faults.injector import child, command
from tests.faults.trees import (
    COMMANDS,
    NEW,
    OLD,
    STAGING,
    below,
    give,
    leftovers,
    prepared,
    put,
    repository,
    snapshot,
)

pytestmark = pytest.mark.slow

NOBODY = 65534

VARIANT = ".github/workflows/cell.yml"


@pytest.fixture
def root(open_folder: OpenFolder) -> Path:
    """A repository with the new spec and the workflows of the old one, and folders for other commands to write to."""
    return prepared(open_folder() / "root")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("room", [0, 1000])
def test_a_full_disk_leaves_the_old_tree(root: Path, name: str, room: int) -> None:
    before = snapshot(root, staged=True)

    def full() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))  # no file can grow beyond it, as on a full disk
        return command(*COMMANDS[name](root))

    assert child(full) == 2
    assert snapshot(root, staged=True) == before
    assert not leftovers(root)
    assert child(lambda: command(*COMMANDS[name](root))) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_a_one_line_error(root: Path, name: str) -> None:
    before = snapshot(root, staged=True)
    folders = [path for path in (root, *root.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)

    def unprivileged() -> int:
        without_capabilities()
        return command(*COMMANDS[name](root))

    assert child(unprivileged) == 2
    for folder in folders:
        folder.chmod(0o755)
    assert snapshot(root, staged=True) == before
    assert not leftovers(root)


def without_capabilities() -> None:
    """Bind this process to the permissions of files even as root: capset(2) with the third version of its header."""
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.parametrize("closed", [".github", ".github/workflows"])
def test_a_folder_that_its_owner_made_read_only_stays_so(root: Path, closed: str) -> None:
    (root / closed).chmod(0o555)
    said = root.parent / "said"

    def as_its_owner() -> int:
        without_capabilities()
        with said.open("w", encoding="utf-8") as file, contextlib.redirect_stderr(file):
            return command(*COMMANDS["compile"](root))

    before = below(snapshot(root), ".github")
    assert child(as_its_owner) == 2
    last = said.read_text("utf-8").splitlines()[-1]
    assert last == f"error: {root}/{closed}: cannot be written: Permission denied [cannot-write]"
    assert below(snapshot(root), ".github") == before
    assert not leftovers(root)


def test_the_error_names_the_folder_and_the_reason(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "out/file").write_text("x", "utf-8")
    assert command("ci-compile", "site", str(root / "out/file"), "--root", str(root)) == 2
    assert "cannot be written: " in capsys.readouterr().err


def _a_folder(path: Path, _: Path) -> None:
    path.mkdir()


def _a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "kept")


def _a_dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new")


def _a_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


OBSTACLES = (_a_folder, _a_link, _a_dangling_link, _a_pipe)
FILES = {
    "compile": VARIANT,
    "recipes": ".flox/pkgs/pytorch-python313-cuda12_9-sm80-avx2.nix",
    "site": "out/index.html",
    "deploy": "out/systemd/install.md",
    "init": "bare/.github/ci-matrix.schema.json",
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_file_that_became_something_else_is_refused(
    root: Path, name: str, obstacle: Callable[[Path, Path], None]
) -> None:
    outside = root.parent / "outside"
    put(outside, "kept", "kept\n")
    target = root / FILES[name]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    obstacle(target, outside)
    before = snapshot(root, staged=True), snapshot(outside)
    assert child(lambda: command(*COMMANDS[name](root))) == 2
    assert (snapshot(root, staged=True), snapshot(outside)) == before
    assert not leftovers(root)


@pytest.mark.parametrize("name", ["compile", "deploy", "init"])
def test_a_folder_that_became_a_link_outside_is_refused(root: Path, name: str) -> None:
    outside = root.parent / "outside"
    folder = (root / FILES[name]).parent
    if folder.exists():
        folder.rename(outside)
    else:
        outside.mkdir()
        folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(outside)
    before = snapshot(outside)
    assert child(lambda: command(*COMMANDS[name](root))) == 2
    assert snapshot(outside) == before


def test_two_compiles_at_once_end_like_one(root: Path) -> None:
    single = root.parent / "single"
    repository(single, NEW)
    assert child(lambda: command(*COMMANDS["recipes"](single))) == 0
    assert child(lambda: command(*COMMANDS["compile"](single))) == 0
    for spec in (OLD, NEW) * 4:
        give(root, spec)
        assert _together(*[lambda: command(*COMMANDS["compile"](root))] * 2) == [0, 0]
        assert not leftovers(root)
    mine = snapshot(root)
    for folder in (".github", ".flox/pkgs"):
        assert below(mine, folder) == below(snapshot(single), folder)


def test_two_compiles_of_two_specs_leave_the_tree_of_one(root: Path) -> None:
    specs, trees = [], []
    for number, spec in enumerate((OLD, NEW)):
        specs.append(put(root.parent, f"{number}/s.yaml", json.dumps(spec)))
        assert child(lambda: command("ci-compile", "--root", str(root), "--spec", str(specs[-1]))) == 0
        trees.append(below(snapshot(root), ".github"))
    for _ in range(6):
        works = [lambda at=at: command("ci-compile", "--root", str(root), "--spec", str(specs[at])) for at in (0, 1)]
        assert set(_together(*works)) <= {0, 2}  # the second one may report that the files changed
        assert below(snapshot(root), ".github") in trees
        assert not leftovers(root)


def _together(*works: Callable[[], int]) -> list[int]:
    """The exit statuses of child processes that start at the same moment."""
    ready, steady = os.pipe()
    children = []
    for work in works:
        pid = os.fork()
        if pid == 0:
            os.close(steady)
            os.read(ready, 1)  # ends when the last writer closes
            os._exit(child(work))
        children.append(pid)
    os.close(ready)
    os.close(steady)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def test_leftovers_of_a_dead_compile_are_removed_even_if_nothing_changes(root: Path) -> None:
    assert child(lambda: command(*COMMANDS["compile"](root))) == 0
    put(root, f"{STAGING}.github-999999999-x/.github/README.md", "x\n")
    assert child(lambda: command(*COMMANDS["compile"](root))) == 0
    assert not leftovers(root)
