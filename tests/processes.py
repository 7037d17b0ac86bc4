"""Waiting for processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def until(what: Callable[[], object]) -> None:
    """Waits until `what` is true, for at most a minute."""
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "it did not become true within a minute"
        time.sleep(0.02)


def has_ended(process: int) -> bool:
    """Whether a process does not exist, or is a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def number_in(file: Path) -> int:
    """The process id that a program wrote to `file`, as soon as it is there."""
    until(lambda: file.exists() and file.read_text("utf-8").endswith("\n"))
    return int(file.read_text("utf-8"))
