"""Measuring: whole processes by their own accounting, functions by the clock; medians with their spread."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Wall seconds of several runs; of processes their processor seconds too, and the peak memory (MB) of the largest.

    On a machine with other work the processor's seconds say more than the clock's.
    """

    seconds: tuple[float, ...]
    processor: tuple[float, ...] = ()
    megabytes: float = 0.0

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        spread = f"{min(self.seconds):.3f} to {max(self.seconds):.3f}"
        used = f"; processor {statistics.median(self.processor):.3f} s" if self.processor else ""
        return f"{self.median:.3f} s ({spread}, n={len(self.seconds)}){used}"


def process(
    command: Sequence[str],
    *,
    runs: int,
    statuses: Sequence[int] = (0,),
    before: Callable[[], None] = lambda: None,
    warm: bool = True,
) -> Figure:
    """Wall time and peak memory of whole processes. `before` runs before each process and is not timed.

    `warm`: after one run that does not count. The peak is that of the largest single process, which may be a child that
    the process waited for. Raises RuntimeError if a status is not one of `statuses`.
    """
    seconds, processor, peak = [], [], 0
    for run in range(runs + warm):
        before()
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            _, code, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(code)
        took = time.perf_counter() - started
        if child.returncode not in statuses:
            message = f"{' '.join(command)} ended with {child.returncode}"
            raise RuntimeError(message)
        if run >= warm:
            seconds.append(took)
            processor.append(usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss)
    return Figure(seconds=tuple(seconds), processor=tuple(processor), megabytes=peak / 1024)


def call(function: Callable[[], object], *, runs: int) -> Figure:
    """Wall time of a function's calls, after one that does not count."""
    seconds = []
    for run in range(runs + 1):
        started = time.perf_counter()
        function()
        if run:
            seconds.append(time.perf_counter() - started)
    return Figure(seconds=tuple(seconds))


PYTHON = sys.executable
CI_COMPILE = [PYTHON, "-m", "ci_compiler"]
