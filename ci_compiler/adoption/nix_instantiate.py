"""Running `nix-instantiate`: in an environment of its own, without a store, within limits of time and memory.

Nothing of the machine's Nix enters an evaluation: no configuration, no search path, no store (`dummy://`, so neither
a daemon nor a writable `/nix` is needed), no network, and no file outside the folders that the caller names. Works
with Nix 2.8 (Debian's nix-bin) and later, as any user.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.errors import Finding, Place, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROGRAM = "nix-instantiate"
MEMORY = 6 * 1024**3  # bytes of address space that one evaluation may take
_SYSTEM = "x86_64-linux"  # `builtins.currentSystem`, the same on every machine
_MESSAGE = re.compile(r"^\s*error: *(\S.*)$", re.MULTILINE)
_POSITION = re.compile(r"\bat (/[^\n]*?):(\d+):(\d+):?\s*$", re.MULTILINE)
_FILES_A_COMMAND = 500  # well within the limit on a command line's length


class Ending(StrEnum):
    """How a process ended."""

    DONE = "done"
    FAILED = "failed"  # Nix said what is wrong
    STALLED = "stalled"  # nothing happened for as long as the caller had patience
    LATE = "late"  # the deadline passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What Nix says of an error: its first line, and the position nearest to the error in a file of interest."""

    message: str
    file: Path | None = None
    line: int = 0
    column: int = 0


def environment(home: Path) -> dict[str, str]:
    """The whole environment of a Nix process; `home` is an empty folder that stands in for every configuration."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "NIX_CONF_DIR": str(home),
        "NIX_USER_CONF_FILES": "",
        "NIX_PATH": "",
    }


def command(*arguments: str, readable: Sequence[Path] = ()) -> list[str]:
    """A `nix-instantiate` command that may read the folders `readable` (resolved paths) and nothing else.

    Raises InputError, saying how to install it, where the program is missing.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        message = (
            f"{PROGRAM} is not installed; `apt install nix-bin` on Debian or Ubuntu, or see https://nixos.org/download"
        )
        raise wrong(PROGRAM, "nix-missing", message)
    options = {"restrict-eval": "true", "allow-import-from-derivation": "false", "system": _SYSTEM}
    return [
        program,
        *("--store", "dummy://"),
        *(word for name, value in options.items() for word in ("--option", name, value)),
        *(word for index, folder in enumerate(readable) for word in ("-I", f"readable{index}={folder}")),
        *arguments,
    ]


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    on_line: Callable[[str], bool],
    patience: float,
    deadline: float,
) -> Ending:
    """Run a command and hand over each line of its standard error as it comes.

    `on_line` returns whether the line is a sign of progress. `patience` is how many seconds may pass between two of
    those, `deadline` the `time.monotonic()` at which all is over. Whatever was started is gone when this returns.
    """
    process = subprocess.Popen(  # the caller's signals do not reach its group: it is ended below
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _limit_memory(process.pid)
        overdue = _lines(process, on_line, patience, deadline)
        if overdue:
            return overdue
        return Ending.DONE if process.wait() == 0 else Ending.FAILED
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr:
            process.stderr.close()


def _limit_memory(pid: int) -> None:
    """Hold a process to `MEMORY`, where the system can do that to another process (Linux)."""
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is not None:
        with contextlib.suppress(OSError, ValueError):
            prlimit(pid, resource.RLIMIT_AS, (MEMORY, MEMORY))


def _lines(
    process: subprocess.Popen[bytes], on_line: Callable[[str], bool], patience: float, deadline: float
) -> Ending | None:
    """Hand over lines until the end of the stream; which limit was passed, if one was."""
    assert process.stderr is not None  # noqa: S101 - it was asked for
    descriptor, rest, since = process.stderr.fileno(), b"", time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now >= deadline:
                return Ending.LATE
            if now >= since + patience:
                return Ending.STALLED
            if not selector.select(min(deadline, since + patience) - now):
                continue
            chunk = os.read(descriptor, 1 << 20)
            *lines, rest = (rest + chunk).split(b"\n")
            if not chunk and rest:
                lines, rest = [rest], b""
            for line in lines:
                if on_line(line.decode(errors="replace")):
                    since = time.monotonic()
            if not chunk:
                return None


def failure(text: str, folders: Sequence[Path]) -> Failure:
    """Read Nix's error message.

    Nix before 2.13 puts the error first and the innermost frame of its trace next to it; later ones put it last, after
    the outermost. Either way the frame of `folders` that is nearest to the error is the place.
    """
    said = list(_MESSAGE.finditer(text))
    if not said:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "it ended without a word")
        return Failure(message=f"{PROGRAM} failed: {first}")
    positions = [
        (match.start(), Path(match[1]), int(match[2]), int(match[3]))
        for match in _POSITION.finditer(text)
        if any(Path(match[1]).is_relative_to(folder) for folder in folders)
    ]
    message = said[-1]
    after = [position for position in positions if position[0] > message.start()]
    nearest = after[0] if after else positions[-1] if positions else None
    if nearest is None:
        return Failure(message=message[1].strip())
    return Failure(message=message[1].strip(), file=nearest[1], line=nearest[2], column=nearest[3])


def parse(paths: Sequence[Path], *, timeout: float = 60.0) -> tuple[Finding, ...]:
    """Check the syntax of Nix files: a finding `recipe-syntax` for each that Nix cannot parse, in the order given.

    Nix says of variables that are nowhere bound, too. One process does all files while they are sound, and one more
    each time that one is not; `timeout` is the seconds for everything together. Raises InputError where Nix is missing.
    """
    deadline = time.monotonic() + timeout
    wrong: dict[Path, Finding] = {}
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as home:
        for start in range(0, len(paths), _FILES_A_COMMAND):
            batch = list(dict.fromkeys(paths[start : start + _FILES_A_COMMAND]))
            while batch:
                done, finding = _parse_until_wrong(batch, Path(home), deadline)
                if finding is not None:
                    wrong[batch[done - 1]] = finding
                batch = batch[done:]
    return tuple(wrong[path] for path in dict.fromkeys(paths) if path in wrong)


def _parse_until_wrong(batch: Sequence[Path], home: Path, deadline: float) -> tuple[int, Finding | None]:
    """Parse files up to the first that is wrong: how many are dealt with, and what is wrong with the last of those."""

    def wrong(index: int, code: str, message: str, line: int = 0, column: int = 0) -> tuple[int, Finding]:
        place = Place(file=str(batch[index]), line=line, column=column)
        return index + 1, Finding(place=place, code=code, message=message)

    real = [path.resolve() for path in batch]
    missing = next((index for index, path in enumerate(real) if not path.is_file()), len(batch))
    if missing == 0:
        return wrong(0, "recipe-syntax", "there is no such file")
    real = real[:missing]
    said: list[str] = []

    def heard(line: str) -> bool:
        said.append(line)
        return True

    argv = command("--parse", "--", *map(str, real), readable=sorted({path.parent for path in real}))
    ending = stream(argv, env=environment(home), on_line=heard, patience=math.inf, deadline=deadline)
    if ending is Ending.DONE:
        return len(real), None
    if ending is not Ending.FAILED:
        return wrong(0, "recipe-timeout", "parsing took too long")
    problem = failure("\n".join(said), real)
    if problem.file in real:
        index = real.index(problem.file)
        return wrong(index, "recipe-syntax", problem.message, problem.line, problem.column)
    if len(real) > 1:  # Nix does not say which: halve until it is clear
        return _parse_until_wrong(batch[: len(real) // 2], home, deadline)
    return wrong(0, "recipe-syntax", problem.message)
