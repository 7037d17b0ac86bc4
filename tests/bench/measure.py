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
    """Seconds of several runs, and the peak memory (MB) of the largest; 0 where none was taken."""

    seconds: tuple[float, ...]
    megabytes: float = 0.0

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        spread = f"{min(self.seconds):.3f} to {max(self.seconds):.3f}"
        return f"{self.median:.3f} s ({spread}, n={len(self.seconds)})"


def process(command: Sequence[str], *, runs: int, cwd: str | None = None, status: int = 0) -> Figure:
    """Wall time and peak memory of whole processes, after one that does not count."""
    seconds, peak = [], 0
    for run in range(runs + 1):
        started = time.perf_counter()
        with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            _, code, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(code)
        if child.returncode != status:
            message = f"{' '.join(command)} ended with {child.returncode}, not {status}"
            raise RuntimeError(message)
        if run:
            seconds.append(time.perf_counter() - started)
        peak = max(peak, usage.ru_maxrss)
    return Figure(seconds=tuple(seconds), megabytes=peak / 1024)


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
