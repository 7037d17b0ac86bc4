"""Runs a command in a child process that dies at a step that changes the disk, as if killed by SIGKILL.

Python raises an audit event before every call that changes a folder (open for writing, mkdir, link, rename, unlink, …)
and before every program start. Two steps have no audit event and are added here: a file's text is written in two
halves, with a step before each, and folders are exchanged by a call of the C library.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ci_compiler
from ci_compiler.cli import compile as compiling
from ci_compiler.cli import runner
from ci_compiler.cli.app import run
from ci_compiler.cli.program import Program
from ci_compiler.files import atomic as disk

KILLED = 137
"""The exit status of a child that died at its step."""

CHANGES = frozenset(
    {f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "link", "symlink", "chmod", "chown", "truncate")}
    | {"subprocess.Popen", "os.posix_spawn"}
)
"""The audit events of calls that change the disk, and of program starts, which may."""

PROGRAMS: dict[str, Program] = {"ci-compile": compiling.PROGRAM, "ci-runner": runner.PROGRAM}


def command(*words: str) -> int:
    """Runs a command in this process. Returns its exit code."""
    return run(PROGRAMS[words[0]], words[1:])


@cache
def import_all() -> None:
    """Imports all modules of the package, so that no child that is forked later spends its time on that."""
    for module in pkgutil.walk_packages(ci_compiler.__path__, "ci_compiler."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def child(work: Callable[[], int]) -> int:
    """The exit status of a child process that runs `work`. Its output is discarded."""
    import_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with pytest-xdist's thread running
        pid = os.fork()
    if pid == 0:
        code = 99
        try:
            sys.stdout = sys.stderr = io.StringIO()
            sys.dont_write_bytecode = True
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def states(words: Sequence[str], root: Path, folder: Path) -> int:
    """Runs the command `words` and copies `root` to `folder/N` before its N-th step. Returns the number of steps.

    What a copy holds is what a process that is killed there leaves: nothing is written but by the steps.
    """

    def keep(step: int) -> None:
        shutil.copytree(root, folder / str(step), symlinks=True)

    assert child(lambda: _stepping(words, keep)) == 0
    return len(list(folder.iterdir()))


def die(words: Sequence[str], last: int) -> None:
    """Runs the command `words` in a process that is killed before its step `last`."""

    def end(step: int) -> None:
        if step == last:
            os._exit(KILLED)

    assert child(lambda: _stepping(words, end)) == KILLED


def _stepping(words: Sequence[str], act: Callable[[int], None]) -> int:
    """Runs the command and calls `act(N)` before each step that changes the disk. Steps of `act` do not count."""
    steps, acting = 0, False

    def step() -> None:
        nonlocal steps, acting
        if not acting:
            steps, acting = steps + 1, True
            act(steps)
            acting = False

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES or (event == "open" and _writes(arguments)):
            step()

    def written(path: Path, text: str, encoding: str = "utf-8", newline: str = "\n") -> int:
        with path.open("w", encoding=encoding, newline=newline) as file:
            for half in (text[: len(text) // 2], text[len(text) // 2 :]):
                step()
                file.write(half)
                file.flush()
        return len(text)

    exchange, exchange_all = disk._exchange, disk._exchange_all  # noqa: SLF001

    def exchanged(one: Path, other: Path) -> bool:
        step()
        return exchange(one, other)

    def all_exchanged(changes: Sequence[Any]) -> bool:
        nonlocal acting
        if len(changes) > 1:  # a child process does it, which a signal to this one does not stop
            step()
            acting = True
        try:
            return exchange_all(changes)
        finally:
            acting = False

    Path.write_text = written  # type: ignore[method-assign, assignment]
    disk._exchange, disk._exchange_all = exchanged, all_exchanged  # noqa: SLF001  (the steps without an audit event)
    sys.addaudithook(heard)
    return command(*words)


def _writes(arguments: tuple[object, ...]) -> bool:
    path, _, flags = arguments
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) and path != os.devnull
