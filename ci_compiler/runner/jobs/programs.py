"""Starting programs: within a limit of time, ended as a group, their secrets kept out of what they say.

Whatever is started leads a process group of its own, which is gone when these functions return, by an exception too:
SIGTERM within `ending_in_order`, Ctrl-C, a limit that passed. First the group is asked to end, then it is killed.
"""

from __future__ import annotations

import os
import re
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Never

from ci_compiler.errors import wrong
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Backend
from ci_compiler.workflows.variant import TOKEN

Secrets = Mapping[Backend, Secret]
"""The publishing secrets of the backends, as far as they are given."""

GRACE = 5.0
"""Seconds between asking a group to end and killing it: GitHub's runner gives a cancelled step 7.5 (its source)."""

RESERVE = 120.0
"""Seconds of a job's time that a stage keeps to say what went wrong, before GitHub ends the job."""

PAST_LIMIT = 124
"""The status of what did not end in time, as timeout(1) has it."""

TAIL = 40
"""Lines of a log that a failure shows."""

_DEFAULT_PROFILE = "/nix/var/nix/profiles/default/bin"
"""Where a multi-user installation puts Nix' programs, which a service's PATH often lacks."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: its status (negative: the signal's number), what it said, the seconds that it took."""

    status: int
    out: str = ""
    err: str = ""
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """Why it failed, in one line: the last that Nix or git calls an error, else the last line; '' for none."""
        text = self.err if self.err.strip() else self.out
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("error:", "fatal:", "ERROR:"))]
        last = (errors or lines or [""])[-1]
        return re.sub(r"^(error|fatal|ERROR): *", "", last)


def job_seconds(minutes: int) -> float:
    """The limit of a stage whose job GitHub ends after `minutes`."""
    return max(60.0, minutes * 60 - RESERVE)


def program(name: str, *, install: str) -> str:
    """The path of a program. Raises InputError, which says how to `install` it."""
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), _DEFAULT_PROFILE)))
    if found is None:
        raise wrong(name, "program-missing", f"not on PATH; {install}")
    return found


@contextmanager
def taking_secrets() -> Iterator[Secrets]:
    """The publishing secrets that are given. Within it they are not in the environment that programs inherit."""
    before = {name: os.environ.pop(name) for name in TOKEN.values() if name in os.environ}
    try:
        yield {Backend(key): Secret(before[name]) for key, name in TOKEN.items() if before.get(name, "").strip()}
    finally:
        os.environ.update(before)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it, SIGTERM is an exit with 143 that runs every `finally`; one that comes meanwhile changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> Never:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ask(
    command: Sequence[str],
    *,
    seconds: float,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str = "",
    secret: Secret | None = None,
) -> Ended:
    """What `command` answers. `env` is its whole environment (None: this process' own)."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        start = time.monotonic()
        with _started(command, stdin=given, stdout=out, stderr=err, env=env, folder=folder) as process:
            status = _status(process, start + seconds)
        said, complained = (_text(file, secret) for file in (out, err))
    if status == PAST_LIMIT:
        complained += f"\nerror: {Path(command[0]).name} did not end within {seconds:.0f} s, and was ended"
    return Ended(status=status, out=said, err=complained, seconds=time.monotonic() - start)


def follow(
    command: Sequence[str],
    *,
    seconds: float,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    secret: Secret | None = None,
) -> Ended:
    """Runs `command` and shows what it says on standard output as it comes, and in the file `log`; keeps the tail."""
    start = time.monotonic()
    tail: deque[str] = deque(maxlen=TAIL)
    with (
        log.open("ab") if log else tempfile.TemporaryFile() as kept,
        _started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, folder=folder) as process,
    ):
        for line in _lines(process, start + seconds):
            shown = secret.cut_from(line) if secret else line
            kept.write(shown.encode())
            kept.flush()
            sys.stdout.write(shown)
            sys.stdout.flush()
            tail.append(_COLOUR.sub("", shown.rstrip("\n")))
        status = _status(process, start + seconds)
    return Ended(status=status, out="\n".join(tail), seconds=time.monotonic() - start)


@contextmanager
def _started(
    command: Sequence[str],
    *,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    env: Mapping[str, str] | None,
    folder: Path | None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program; leaving ends its whole group. Raises InputError for what cannot be started."""
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=None if env is None else dict(env),
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        message = f"cannot be started: {error.strerror}"
        raise wrong(command[0], "cannot-start", message) from None
    try:
        yield process
    finally:
        _end(process)
        if process.stdout:
            process.stdout.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the group that `process` leads, and reaps it. What its end left behind is not asked first."""
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            end = time.monotonic() + GRACE
            while time.monotonic() < end:
                process.poll()
                os.killpg(process.pid, 0)  # raises where the whole group is gone
                time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _status(process: subprocess.Popen[bytes], deadline: float) -> int:
    seconds = max(0.0, deadline - time.monotonic())
    if process.poll() is None and hasattr(os, "pidfd_open"):  # `wait` with a limit looks up to 50 ms late
        descriptor = os.pidfd_open(process.pid)
        try:
            select.select([descriptor], [], [], seconds)
        finally:
            os.close(descriptor)
        seconds = 0.0
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return PAST_LIMIT


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[str]:
    """The lines of its output until it ends; what it left behind does not keep this waiting for more."""
    assert process.stdout is not None  # noqa: S101  (it was asked for)
    rest, quiet_after_end = b"", 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline and quiet_after_end < 2:
            if not selector.select(min(1.0, max(0.0, deadline - time.monotonic()))):
                quiet_after_end += process.poll() is not None
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (f"{line.decode(errors='replace')}\n" for line in lines)
            if not chunk:
                break
    if rest:
        yield f"{rest.decode(errors='replace')}\n"


def _text(file: IO[bytes], secret: Secret | None) -> str:
    file.seek(0)
    text = _COLOUR.sub("", file.read().decode(errors="replace"))
    return secret.cut_from(text) if secret else text
