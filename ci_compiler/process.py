"""Starting programs. No other module of the package does.

`ask` returns the output of a program, `follow` and `follow_errors` pass it on line by line, `start` leaves a program
running in the background.

All but `start` have a time limit. By default, the program leads a process group of its own, and the whole group has
ended when the function returns or raises (Ctrl-C, SIGTERM within `ending_in_order`). The group gets SIGTERM first, then
SIGKILL. On Windows, it gets Ctrl-Break, and then the program ends with all that it and its children started. All
functions raise InputError (`cannot-start`) for a program that cannot be started.
"""

from __future__ import annotations

import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, Never

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.secret import Secret, cut_secrets
from ci_compiler.system import SYSTEM, limit_memory, readable

if sys.platform == "win32":
    from ci_compiler.system import press_break

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL. A cancelled step has 7.5 seconds to end (the source of actions/runner)."""

PAST_LIMIT = 124
"""The status of a program that reached a limit, as timeout(1) has it."""

TAIL = 40
"""Lines of output that `follow` keeps."""

_STOP: signal.Signals = getattr(signal, SYSTEM.stop)
"""The signal with which GitHub's runner cancels a step."""

_REAP = 2.0
"""Seconds that a killed program gets to end. A call into a driver that crashed may never return."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Ended(NamedTuple):
    """How a program ended: its status (negative: a signal's number), its output without colours, the seconds it ran."""

    status: int
    out: str = ""
    err: str = ""
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """One line that says why it failed: the last error of Nix or git, else the last line; '' for no output."""
        text = self.err if self.err.strip() else self.out
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("error:", "fatal:", "ERROR:"))]
        last = (errors or lines or [""])[-1]
        return re.sub(r"^(error|fatal|ERROR): *", "", last)


Background = subprocess.Popen[bytes]
"""A program that `start` started."""


def find_program(name: str, *, install: str, code: Code = Code.PROGRAM_MISSING, folders: Sequence[str] = ()) -> str:
    """The path of a program on PATH or in `folders`. Raises InputError (`code`), which says how to `install` it."""
    found = located(name, folders)
    if found is None:
        raise wrong(name, code, f"{name} is not on PATH; {install}")
    return found


def located(name: str, folders: Sequence[str] = ()) -> str | None:
    """The path of a program on PATH, in `folders`, or beside another one (`SYSTEM.beside`); None if there is none.

    Windows would look in the current folder first, which may be a checkout of somebody else's code.
    """
    if name in SYSTEM.beside:
        other, below = SYSTEM.beside[name]
        around = Path(located(other, folders) or "").parents
        return next((str(folder / below) for folder in around if (folder / below).is_file()), None)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    programs = (Path(folder, f"{name}{SYSTEM.suffix}") for folder in (*path, *folders) if Path(folder).is_absolute())
    return next(filter(None, map(shutil.which, map(str, programs))), None)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it, SIGTERM (or Ctrl-Break) raises SystemExit(143), so that every `finally` runs. A second is ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> Never:
        signal.signal(_STOP, signal.SIG_IGN)
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(_STOP, end)
    try:
        yield
    finally:
        signal.signal(_STOP, before)


def ask(  # noqa: PLR0913 - each is a plain fact about how to run a program
    command: Sequence[str],
    *,
    seconds: float,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str = "",
    secret: Secret | None = None,
    out: IO[bytes] | None = None,
    group: bool = True,
    stopped: Callable[[], bool] | None = None,
) -> Ended:
    """Runs `command` and returns its output, without `secret`.

    env: the whole environment; None for that of this process.
    out: a file that gets standard output, byte for byte, in place of the result.
    group: False keeps the program in the group and session of this process. It can then ask for a passphrase on the
        terminal, and its daemons survive it; only the program itself is ended at the limit.
    stopped: asked every second; the program is ended, as at the limit, once it returns True.
    """
    start = time.monotonic()
    with _in_memory() as given, tempfile.TemporaryFile() as kept, tempfile.TemporaryFile() as errors:
        given.write(stdin.encode())
        given.seek(0)
        process = _spawn(command, env=env, folder=folder, group=group, streams=(given, out or kept, errors))
        with _ending(process, group=group):
            status = _wait(process, start + seconds, stopped)
        said, complained = (_text(file, secret) for file in (kept, errors))
    if status == PAST_LIMIT:
        complained += f"\nerror: {Path(command[0]).name} did not end within {seconds:.0f} s, and was ended"
    return Ended(status=status, out=said, err=complained, seconds=time.monotonic() - start)


def follow(
    command: Sequence[str],
    on_line: Callable[[str], object],
    *,
    seconds: float,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    secrets: Iterable[Secret] = (),
) -> Ended:
    """Passes each line of both outputs, without `secrets`, to `on_line` and appends it to `log`; returns the tail."""
    start = time.monotonic()
    tail: deque[str] = deque(maxlen=TAIL)
    hidden = [*secrets]
    with Path(log or os.devnull).open("ab") as file:

        def heard(line: str) -> None:
            shown = cut_secrets(line, hidden)
            file.write(f"{shown}\n".encode())
            file.flush()
            on_line(shown)
            tail.append(_COLOUR.sub("", shown))

        streams = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
        process = _spawn(command, env=env, folder=folder, streams=streams)
        with _ending(process):
            status = _hear(process, process.stdout, heard, start + seconds)
    return Ended(status=status, out="\n".join(tail), seconds=time.monotonic() - start)


def follow_errors(
    command: Sequence[str],
    on_line: Callable[[str], bool],
    *,
    seconds: float,
    patience: float,
    memory: int,
    env: Mapping[str, str],
) -> Ended:
    """Passes each line of standard error to `on_line`, which returns whether the line is a sign of progress.

    The program is killed after `patience` seconds without progress. `memory` limits its address space, in bytes, where
    the system can limit that of another process (Linux).
    """
    start = time.monotonic()
    process = _spawn(command, env=env, streams=(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE))
    with _ending(process, grace=0.0):
        with suppress(OSError, ValueError):
            limit_memory(process.pid, memory)
        status = _hear(process, process.stderr, on_line, start + seconds, patience)
    return Ended(status=status, seconds=time.monotonic() - start)


def start(command: Sequence[str], *, env: Mapping[str, str], folder: Path, out: IO[bytes]) -> Background:
    """Starts a program in a session of its own, with the file `out` for its output. It may outlive this process."""
    return _spawn(command, env=env, folder=folder, streams=(subprocess.DEVNULL, out, out))


def _in_memory() -> IO[bytes]:
    """A file without a name, in memory where the system has such files: what it holds may be secret."""
    return os.fdopen(os.memfd_create("stdin"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()


def _spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    streams: Sequence[IO[bytes] | int],
    folder: Path | None = None,
    group: bool = True,
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = streams
    try:
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=folder, **(SYSTEM.group if group else {})
        )
    except OSError as error:
        raise wrong(command[0], Code.CANNOT_START, f"cannot be started: {error.strerror}") from None


@contextmanager
def _ending(process: subprocess.Popen[bytes], *, group: bool = True, grace: float | None = None) -> Iterator[None]:
    """Ends the program, with its group if it leads one, when the block ends."""
    try:
        yield
    finally:
        grace = GRACE if grace is None else grace
        if group:
            _end_group(process, grace)
        else:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAP)
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()


def _end_group(process: subprocess.Popen[bytes], grace: float) -> None:
    """Sends SIGTERM to the group and SIGKILL `grace` seconds later; only SIGKILL if its leader has ended."""
    if sys.platform == "win32":
        with suppress(subprocess.TimeoutExpired):
            if grace and process.poll() is None and press_break(process.pid):
                process.wait(grace)
        kill = [located("taskkill") or "", "/T", "/F", "/PID", str(process.pid)]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(kill, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        process.kill()  # where there is no taskkill
        return
    with suppress(ProcessLookupError, PermissionError):  # the group is gone; macOS refuses signals to its zombies
        if grace and process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            end = time.monotonic() + grace
            while time.monotonic() < end:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], deadline: float, stopped: Callable[[], bool] | None = None) -> int:
    """The status of the program; PAST_LIMIT if it still runs at `deadline`, or when `stopped` returns True."""
    if sys.platform == "linux":
        with suppress(OSError):  # Popen.wait polls, and returns up to 50 ms late
            descriptor = os.pidfd_open(process.pid)
            try:
                while (left := deadline - time.monotonic()) > 0:
                    if select.select([descriptor], [], [], min(left, 1.0) if stopped else left)[0]:
                        break
                    if stopped and stopped():
                        deadline = 0.0
            finally:
                os.close(descriptor)
    while True:
        left = deadline - time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(max(0.0, min(left, 1.0) if stopped else left))
            return -getattr(signal, SYSTEM.crashes[status]) if status in SYSTEM.crashes else status
        if left <= 0 or (stopped and stopped()):
            return PAST_LIMIT


def _hear(
    process: subprocess.Popen[bytes],
    stream: IO[bytes] | None,
    on_line: Callable[[str], object],
    deadline: float,
    patience: float = math.inf,
) -> int:
    """Passes on the lines of `stream` and returns the status; a child that holds the stream open is not waited for."""
    assert stream is not None  # noqa: S101 - the caller asked for a pipe
    rest, quiet, since = b"", 0, time.monotonic()
    while (left := min(deadline, since + patience) - time.monotonic()) > 0:
        if not readable(stream, min(1.0, left)):
            quiet += process.poll() is not None
            if quiet < 2:
                continue
            break
        chunk = os.read(stream.fileno(), 1 << 20)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if on_line(line.decode(errors="replace").removesuffix("\r")):
                since = time.monotonic()
    else:  # a limit has passed
        deadline = 0.0
    if rest:
        on_line(rest.decode(errors="replace"))
    return _wait(process, deadline)


def _text(file: IO[bytes], secret: Secret | None) -> str:
    file.seek(0)
    text = _COLOUR.sub("", file.read().decode(errors="replace"))
    return secret.cut_from(text) if secret else text
