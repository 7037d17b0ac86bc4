"""The cores on which a benchmark runs, and whether their clock is fixed. Nothing of the machine is changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ci_compiler.outside import text_of

CPUS = Path("/sys/devices/system/cpu")
"""Where Linux describes the CPUs."""

MOST = 4
"""The most cores to use: few enough to be left alone on a shared machine, and the same number on most machines."""


def chosen(available: Sequence[int], usable: int = MOST + 1, root: Path = CPUS) -> tuple[int, ...]:
    """Up to `MOST` of the CPUs `available`, and fewer than `usable`: one per core, all in the socket of the last.

    A core is left to everything else on the machine: threads that wait for each other all wait for one that is
    interrupted. The last CPUs are taken, since Linux handles most interrupts on the first.
    """
    socket = _read(root, max(available), "topology/physical_package_id")
    cores: dict[str, int] = {}
    for cpu in sorted(available, reverse=True):
        cores.setdefault(_read(root, cpu, "topology/thread_siblings_list") or str(cpu), cpu)
    near = [cpu for cpu in cores.values() if _read(root, cpu, "topology/physical_package_id") == socket]
    return tuple(sorted(near[: max(1, min(MOST, usable - 1, len(cores) - 1))]))


def clocks(cores: Sequence[int], root: Path = CPUS) -> str:
    """`locked` if each of `cores` has one clock rate, else `not locked: ` and the reason."""
    for core in cores:
        lowest, highest = (_read(root, core, f"cpufreq/scaling_{end}_freq") for end in ("min", "max"))
        if not lowest or not highest:
            return "not locked: the machine does not show the clocks of its CPU"
        if lowest != highest:
            return f"not locked: CPU {core} may run at {_gigahertz(lowest)} to {_gigahertz(highest)} GHz"
    return "locked"


def disturbed(load: float, cpus: int) -> str:
    """What to know about a machine with `cpus` CPUs that was already busy; '' for nothing. `load` is its load average.

    Up to half of the CPUs may be busy: the benchmark's own are then still free.
    """
    busy = load > cpus / 2
    return f"the machine was busy when it began: its load was {load:.1f} with {cpus} CPUs" if busy else ""


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Within it, this thread and the programs that it starts run on `cores`, where the system allows that."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


def available() -> tuple[int, ...]:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _gigahertz(kilohertz: str) -> str:
    return f"{int(kilohertz) / 1e6:.1f}" if kilohertz.isdecimal() else kilohertz


def _read(root: Path, cpu: int, name: str) -> str:
    """A fact about a CPU; '' if the system does not have it."""
    try:
        return text_of(root / f"cpu{cpu}" / name).strip()
    except OSError:
        return ""
