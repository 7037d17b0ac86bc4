"""The most memory that a build uses, sampled while it runs.

Builds run in the control group of Nix' daemon where there is one, otherwise in that of this process. Everything in the
group counts, so builds at the same time count together. Page cache does not count, because the system can drop it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from ci_compiler.hardware.texts import text_of
from ci_compiler.runner.detect import this_machine

SECONDS = 1.0
"""The time between two samples."""

_USED = re.compile(r"^(?:anon|shmem|kernel) (\d+)$", re.MULTILINE)
"""The lines of `memory.stat` that count. Source: Linux, Documentation/admin-guide/cgroup-v2.rst."""


class MemoryPeak:
    """The most `memory` in use so far, in bytes; 0 if it is unknown."""

    memory: int = 0


@contextmanager
def watched_memory(*, uses_nix: bool) -> Iterator[MemoryPeak]:
    """Measures the memory of builds while the body runs."""
    peak, ended = MemoryPeak(), Event()
    group = build_group(uses_nix=uses_nix)
    if group is None:
        yield peak
        return

    def sample() -> None:
        while True:
            peak.memory = max(peak.memory, used(group))
            if ended.wait(SECONDS):
                return

    thread = Thread(target=sample, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def used(group: Path) -> int:
    """The memory in use in a control group, in bytes."""
    return sum(map(int, _USED.findall(text_of(group / "memory.stat"))))


def build_group(*, uses_nix: bool) -> Path | None:
    """The control group (version 2) that builds run in; None if it is not visible, as that of a foreign daemon."""
    process = "self"
    if uses_nix and _has_daemon():
        process = next(_daemons(), "")
    groups = this_machine.control_groups("memory", process) if process else iter(())
    return next((group for group in groups if (group / "cgroup.controllers").is_file()), None)


def _has_daemon() -> bool:
    """Whether Nix hands builds to its daemon. Source: Nix manual, `store`: `auto`."""
    remote = os.environ.get("NIX_REMOTE", "")
    if remote not in {"", "auto"}:
        return remote.startswith(("daemon", "unix:"))
    state = this_machine.ROOT / "nix/var/nix"
    return not os.access(state, os.W_OK) and (state / "daemon-socket/socket").exists()


def _daemons() -> Iterator[str]:
    """The process IDs of Nix' daemons; the oldest process comes first."""
    for folder in sorted((this_machine.ROOT / "proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        if text_of(folder / "comm").strip() == "nix-daemon":
            yield folder.name
