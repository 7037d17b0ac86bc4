"""Running `nix-instantiate` in a clean environment, without a store, with limits on time and memory.

The Nix of the machine does not affect an evaluation: there is no configuration, no search path, no store (`dummy://`,
which needs neither a daemon nor a writable `/nix`), no network, and no file outside the folders that the caller names.
Works with Nix 2.8 (nix-bin of Debian) and later, as any user.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.outside import object_of
from ci_compiler.process import PAST_LIMIT, find_program, follow_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROGRAM = "nix-instantiate"
MEMORY = 6 * 1024**3  # the limit on the address space of an evaluation, in bytes
_SYSTEM = "x86_64-linux"  # `builtins.currentSystem`, the same on every machine
_MESSAGE = re.compile(r"^\s*error: *(\S.*)$", re.MULTILINE)
_POSITION = re.compile(r"\bat (/[^\n]*?):(\d+):(\d+):?\s*$", re.MULTILINE)
_FUNCTION = re.compile(r" at \S+:\d+:\d+ (?=called with)")
"""Where a function is, as Nix before 2.9 says in the middle of a message."""

_FILES_A_COMMAND = 500  # well within the limit on the length of a command line


class Ending(StrEnum):
    """How an evaluation ended."""

    DONE = "done"
    FAILED = "failed"  # Nix reported an error
    STALLED = "stalled"  # no progress for longer than the caller's patience
    LATE = "late"  # the deadline passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error message of Nix: its first line, and the position nearest to the error in a file of interest."""

    message: str
    file: Path | None = None
    line: int = 0
    column: int = 0


def environment(home: Path) -> dict[str, str]:
    """The whole environment of a Nix process; `home` is an empty folder, in which Nix finds no configuration."""
    folders = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NIX_CONF_DIR")
    path = os.environ.get("PATH", os.defpath)
    return {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        **dict.fromkeys(folders, str(home)),
        **dict.fromkeys(("NIX_USER_CONF_FILES", "NIX_PATH"), ""),
    }


def program() -> str:
    """The path of `nix-instantiate`. Raises InputError, which says how to install Nix, if it is missing."""
    install = "`apt install nix-bin` on Debian or Ubuntu, or see https://nixos.org/download"
    return find_program(PROGRAM, install=install, code=Code.NIX_MISSING)


def command(*arguments: str, readable: Sequence[Path] = ()) -> list[str]:
    """A `nix-instantiate` command that may read the folders `readable` (resolved paths) and nothing else.

    Raises InputError if the program is missing.
    """
    options = {"restrict-eval": "true", "allow-import-from-derivation": "false", "system": _SYSTEM}
    return [
        program(),
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
    memory: int = MEMORY,
) -> Ending:
    """Runs a command and passes each line of its standard error to `on_line`.

    `on_line` returns whether the line is a sign of progress. `patience` is the seconds that may pass between two such
    lines, `deadline` the `time.monotonic()` at which the command is killed, `memory` the limit on its address space in
    bytes.
    """
    seconds = deadline - time.monotonic()
    status = follow_errors(argv, on_line, seconds=seconds, patience=patience, memory=memory, env=env).status
    if status == PAST_LIMIT:
        return Ending.LATE if time.monotonic() >= deadline else Ending.STALLED
    return Ending.DONE if status == 0 else Ending.FAILED


def ended(
    argv: Sequence[str], *, env: Mapping[str, str], patience: float, deadline: float, memory: int = MEMORY
) -> tuple[Ending, list[str]]:
    """How a command ended, and the lines of its standard error, each of which is a sign of progress."""
    lines: list[str] = []

    def heard(line: str) -> bool:
        lines.append(line)
        return True

    return stream(argv, env=env, on_line=heard, patience=patience, deadline=deadline, memory=memory), lines


def event(line: str, tag: str) -> dict[str, Any] | None:
    """The object after `tag` in a line of `builtins.trace`; None for Nix's own output, or if a crash cut it off."""
    start = f"trace: {tag} "
    if not line.startswith(start):
        return None
    try:
        return object_of(line[len(start) :])
    except OSError:
        return None


def failure(text: str, folders: Sequence[Path]) -> Failure:
    """Reads an error message of Nix.

    Nix before 2.13 puts the error first, followed by the innermost frame of its trace; later releases put it last,
    after the outermost frame. In both cases, the place is the frame in `folders` that is nearest to the error.
    """
    messages = list(_MESSAGE.finditer(text))
    if not messages:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "it ended without a message")
        return Failure(message=f"{PROGRAM} failed: {first}")
    words = _FUNCTION.sub(" ", messages[-1][1].strip())
    frames = [frame for frame in _POSITION.finditer(text) if any(map(Path(frame[1]).is_relative_to, folders))]
    if not frames:
        return Failure(message=words)
    nearest = next((frame for frame in frames if frame.start() > messages[-1].start()), frames[-1])
    return Failure(message=words, file=Path(nearest[1]), line=int(nearest[2]), column=int(nearest[3]))


def parse(paths: Sequence[Path], *, timeout: float = 60.0) -> tuple[Finding, ...]:
    """Checks the syntax of Nix files: a finding `recipe-syntax` for each that Nix cannot parse, in the order given.

    Nix also reports unbound variables. One process parses all files up to the first that is wrong, the next one goes
    on after it. `timeout` is the limit for all of them, in seconds. Raises InputError if Nix is missing.
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
    """Parses files up to the first that is wrong: how many were parsed, and what is wrong with the last of them."""

    def wrong(message: str, code: Code = Code.RECIPE_SYNTAX, *, at: Failure | None = None) -> tuple[int, Finding]:
        index = real.index(at.file) if at and at.file else 0
        place = Place(str(batch[index]), at.line, at.column) if at else Place(str(batch[index]))
        return index + 1, about(place, code, message)

    real = [path.resolve() for path in batch]
    real = real[: next((index for index, path in enumerate(real) if not path.is_file()), len(batch))]
    if not real:
        return wrong("there is no such file")
    argv = command("--parse", "--", *map(str, real), readable=sorted({path.parent for path in real}))
    ending, errors = ended(argv, env=environment(home), patience=math.inf, deadline=deadline)
    if ending is Ending.DONE:
        return len(real), None
    if ending is not Ending.FAILED:
        return wrong("parsing took too long", Code.RECIPE_TIMEOUT)
    problem = failure("\n".join(errors), real)
    if problem.file in real:
        return wrong(problem.message, at=problem)
    if len(real) > 1:  # Nix does not name the file: bisect
        return _parse_until_wrong(batch[: len(real) // 2], home, deadline)
    return wrong(problem.message)
