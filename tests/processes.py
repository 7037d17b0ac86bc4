"""Waiting for processes, on machines that may be busy with others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

MINUTES = 600.0
"""Seconds after which a program hangs: none of the tests' takes as long, however busy the machine is."""

LONGEST_WAIT = 60.0
"""Seconds for which a test waits for something to become true."""

Result = TypeVar("Result")


def until(what: Callable[[], object]) -> None:
    """Waits until `what` is true."""
    end = time.monotonic() + LONGEST_WAIT
    while not what():
        assert time.monotonic() < end, f"it did not become true within {LONGEST_WAIT:g} s"
        time.sleep(0.02)


def with_time(trial: Callable[[float], Result], enough: Callable[[Result], object], *, first: float = 0.5) -> Result:
    """The result of a `trial` with a time limit in which a busy machine comes far `enough`: `first`, or more."""
    seconds = first
    while not enough(result := trial(seconds)):
        seconds *= 4
        assert seconds < MINUTES, result
    return result


def has_written(file: Path) -> bool:
    """Whether a program has written a whole line to `file`."""
    return file.exists() and file.read_text("utf-8").endswith("\n")


def has_ended(process: int) -> bool:
    """Whether a process does not exist, or is a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def number_in(file: Path) -> int:
    """The process id that a program wrote to `file`, as soon as it is there."""
    until(lambda: has_written(file))
    return int(file.read_text("utf-8"))
