"""The tool on a Mac: without Linux's calls and files, on a file system that ignores case, with another `uname`."""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.files import atomic
from ci_compiler.files.drift import GITHUB, apply, compare
from ci_compiler.hardware import tables, texts
from ci_compiler.hardware.texts import Answer
from ci_compiler.process import ask
from ci_compiler.runner.detect import this_machine as detect
from ci_compiler.system import SYSTEMS
from tests.processes import MINUTES
from tests.specs import small

OURS = "# Compiled by ci-compile from s\n"


class Library:
    """The C library of macOS, with a `renamex_np` (rename(2) of macOS) that exchanges by three renames."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.exchanged = code, 0

    def renamex_np(self, one: bytes, other: bytes, flags: int) -> int:
        assert flags == 2
        if self.code:
            ctypes.set_errno(self.code)
            return -1
        between = one + b".between"
        for old, new in ((one, between), (other, one), (between, other)):
            os.rename(old, new)  # noqa: PTH104  (the names are bytes)
        self.exchanged += 1
        return 0


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Takes away what only Linux has; what reads a file of Linux fails the test."""
    for module, names in {
        os: ("pidfd_open", "sched_getaffinity", "memfd_create", "eventfd", "copy_file_range", "splice", "getxattr"),
        resource: ("prlimit",),
    }.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    library = Library()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(detect, "ROOT", Path("/there-is-no-proc-here"))
    for module, name in ((io, "open"), (os, "open"), (os, "stat"), (os, "lstat"), (os, "listdir"), (os, "scandir")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name)))
    return library


def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which fails the test for a file that only Linux has."""

    def checked(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | Path) and str(path).startswith(("/proc", "/sys/")):
            pytest.fail(f"{call.__name__} {path}: a Mac has no such file")
        return call(path, *arguments, **options)

    return checked


def test_the_commands_of_a_maintainer_run_on_a_mac(
    mac: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git = {"GIT_CONFIG_GLOBAL": os.devnull}
    git |= {f"GIT_{role}_{key}": "me@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    for name, value in git.items():
        monkeypatch.setenv(name, value)
    spec = tmp_path / ".github/ci-matrix.yaml"
    spec.parent.mkdir()
    spec.write_text(json.dumps(small()), "utf-8")
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main"], check=True)
    commands = ["", "recipes", "--check", "variants", "plan", "forecast", "select --gpu sm90 --cpu avx512"]
    for command in commands:
        assert run(PROGRAM, command.split()) == 0, command
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "Compile"], check=True)
    spec.write_text(spec.read_text("utf-8").replace('"avx512"', '"avx"', 1), "utf-8")
    for command in ("", "recipes", "--check", "diff HEAD", "affected --base HEAD"):
        assert run(PROGRAM, command.split()) == 0, command
    assert mac.exchanged > 1
    assert not list(tmp_path.glob(".ci-compile-*"))


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EINVAL])
def test_files_change_one_by_one_where_folders_cannot_be_exchanged(mac: Library, tmp_path: Path, code: int) -> None:
    mac.code = code
    for text in ("a: 1\n", "a: 2\n"):
        files = {f".github/workflows/{name}.yml": OURS + text for name in ("a", "b")}
        apply(tmp_path, files, compare(tmp_path, files, [GITHUB]), [GITHUB])
        assert compare(tmp_path, files, [GITHUB]) == ()


@pytest.mark.usefixtures("mac")
def test_what_a_running_compile_uses_stays_without_proc(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = [tmp_path / f".ci-compile-.github-{number}-x" for number in (os.getpid(), 1, ended.pid, 10**30)]
    for folder in left:
        folder.mkdir()
    atomic.sweep(tmp_path / ".github")
    assert [folder.exists() for folder in left] == [True, True, False, False]


@pytest.mark.usefixtures("mac")
def test_a_group_of_zombies_that_refuses_signals_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "killpg", refuse)
    assert ask([sys.executable, "-c", "print(1)"], seconds=MINUTES).out == "1\n"


@pytest.mark.usefixtures("mac")
def test_a_mac_is_detected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    says = {"machdep.cpu.brand_string": "Apple M4", "hw.memsize": "34359738368"}
    uname = platform.uname_result("Darwin", "mac", "24.6.0", "Darwin Kernel", "arm64")
    monkeypatch.setattr(platform, "uname", lambda: uname)
    monkeypatch.setattr(detect, "SYSTEM", SYSTEMS["darwin"])
    for module in (detect, texts):
        monkeypatch.setattr(
            module, "answer", lambda *words, **_: Answer(status=0, out=says[words[2]]) if words[0] == "sysctl" else None
        )
    machine = detect.this_machine(tables())
    assert (machine.system, machine.cpu, machine.memory) == ("aarch64-darwin", "Apple M4", 34359738368)
    assert run(PROGRAM, ["select", "--package", "pytorch"]) == 1
    assert "no variant serves this machine" in capsys.readouterr().out


def ignoring_case(call: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """`call`, whose first `count` paths find a file with the same name in other letters."""

    def found(path: Any) -> Any:
        if not isinstance(path, str | Path):
            return path
        folder, name = os.path.split(path)
        try:
            names = listdir(folder or ".")
        except OSError:
            return path
        same = [one for one in names if one.casefold() == name.casefold()]
        return path if name in same or not same else os.path.join(folder, same[0])  # noqa: PTH118

    def resolved(*arguments: Any, **options: Any) -> Any:
        return call(*map(found, arguments[:count]), *arguments[count:], **options)

    return resolved


listdir = os.listdir


def test_a_file_whose_name_changes_in_case_alone_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"open": 1, "stat": 1, "lstat": 1, "unlink": 1, "replace": 2, "rename": 2}
    for name, count in counts.items():
        monkeypatch.setattr(os, name, ignoring_case(getattr(os, name), count))
    monkeypatch.setattr(io, "open", ignoring_case(io.open))
    for name in ("Main", "main", "MAIN"):
        files = {f".github/workflows/{one}.yml": OURS for one in (name, "other")}
        apply(tmp_path, files, compare(tmp_path, files, [GITHUB]), [GITHUB])
        assert sorted(listdir(tmp_path / ".github/workflows")) == sorted([f"{name}.yml", "other.yml"])
        assert compare(tmp_path, files, [GITHUB]) == ()
