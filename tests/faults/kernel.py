"""Faults at system calls: strace kills a command at a call that changes the disk, or makes the call fail.

What `injector` does within Python, for every step and cheaply, this does to a real process, git's among them, at the
calls themselves: the proof that the steps there miss nothing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.checkers import require

CHANGING = (
    "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat",
    "renameat2", "truncate", "ftruncate", "fallocate", "chmod", "fchmod", "fchmodat", "utimensat", "setxattr",
)  # fmt: skip
"""System calls that always change the disk."""

OPENING, WRITING = ("open", "openat", "creat"), ("write", "pwrite64", "writev")
"""System calls that change the disk if they open for writing, or write to a file."""

ONLY_TRACED = "-f --seccomp-bpf"
"""strace's options to stop the process at no other calls, a third of the time. Signals are then not injected (6.1)."""

KILLED, FULL = "signal=KILL", "error=ENOSPC"
"""Faults for strace to inject: the process is killed before the call; the call fails for lack of space."""

ROOT = Path(__file__).parents[2]
TRACING = f"-y -s 0 -e trace={','.join(f'?{name}' for name in (*CHANGING, *OPENING, *WRITING))}"
"""strace's options to list the calls, with the files of descriptors."""

_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_FOR_WRITING = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The system call `name` that is the `number`-th of its name in its process, from 1."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: its exit status (minus the signal's number if a signal ended it) and standard error."""

    status: int
    said: str


def program(*words: str) -> list[str]:
    """The command line that runs `words` (`ci-compile` or `ci-runner` first) in its own process."""
    code = "import sys; from tests.faults.injector import command; sys.exit(command(*sys.argv[1:]))"
    return [sys.executable, "-c", code, *words]


def changing_calls(words: Sequence[str], folder: Path, log: Path) -> list[Call]:
    """The calls by which the process `words` changes `folder`, in order. It is run once to find them."""
    ended = _strace(f"{ONLY_TRACED} {TRACING} -o {log}", words)
    assert ended.status == 0, ended.said
    return list(changing(log.read_text("utf-8"), folder))


def struck(words: Sequence[str], call: Call, fault: str, log: Path) -> Ended:
    """How the process `words` ends if `fault` is injected at `call`, which it must reach."""
    stops = "" if fault == KILLED else ONLY_TRACED
    ended = _strace(f"{stops} {striking(call, fault)} -o {log}", words)
    assert ended.status == -signal.SIGKILL or "(INJECTED)" in log.read_text("utf-8"), f"{call} never came"
    return ended


def striking(call: Call, fault: str) -> str:
    """strace's options to inject `fault` at `call`."""
    return f"-e trace={call.name} -e inject={call.name}:{fault}:when={call.number}"


def _strace(options: str, words: Sequence[str]) -> Ended:
    same = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.fspath(ROOT)}
    done = subprocess.run(
        [require("strace"), "-qq", "-e", "signal=none", *options.split(), *words],
        env={**os.environ, **same},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(status=done.returncode, said=done.stderr)


def changing(trace: str, folder: Path) -> Iterator[Call]:
    """The calls of a trace (`TRACING`) of one process that change `folder`."""
    seen = Counter[str]()
    for line in trace.splitlines():
        if found := _CALL.match(line):
            name, arguments = found.groups()
            seen[name] += 1
            below = os.fspath(folder) in arguments
            if name in CHANGING or (below and (name in WRITING or _FOR_WRITING.search(arguments))):
                yield Call(name=name, number=seen[name])
