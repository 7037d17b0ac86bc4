"""Measuring: whole processes by their own accounting, functions by the clock; medians with their spread."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Wall seconds of several runs; of processes also their processor seconds, and the peak memory (MB) of the largest.

    On a machine with other work the processor's seconds say more than the clock's. `bare` are the processor seconds of
    `python -c pass`, run before each process: the ratio to it is comparable between machines.
    """

    seconds: tuple[float, ...]
    processor: tuple[float, ...] = ()
    bare: tuple[float, ...] = ()
    megabytes: float = 0.0

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float:
        """The median ratio of the processor seconds to those of bare Python."""
        return statistics.median(own / bare for own, bare in zip(self.processor, self.bare, strict=True))

    def __str__(self) -> str:
        spread = f"{min(self.seconds):.3f} to {max(self.seconds):.3f}"
        wall = f"{self.median:.3f} s ({spread}, n={len(self.seconds)})"
        if not self.processor:
            return wall
        return f"{wall}; processor {statistics.median(self.processor):.3f} s, {self.ratio:.1f} × bare Python"


class _Usage(NamedTuple):
    """What a process used: wall and processor seconds, and peak memory in kB."""

    seconds: float
    processor: float
    peak: int


def _run(command: Sequence[str], statuses: Sequence[int]) -> _Usage:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, code, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(code)
    took = time.perf_counter() - started
    if child.returncode not in statuses:
        message = f"{' '.join(command)} ended with {child.returncode}"
        raise RuntimeError(message)
    return _Usage(took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def process(
    command: Sequence[str],
    *,
    runs: int,
    statuses: Sequence[int] = (0,),
    before: Callable[[], None] = lambda: None,
    warm: bool = True,
) -> Figure:
    """Wall time and peak memory of whole processes. `before` runs before each process and is not timed.

    `warm`: after one run that does not count. Python may write its bytecode, as an installation has it. The peak is
    that of the largest single process, which may be a child that the process waited for. Raises RuntimeError if a
    status is not one of `statuses`.
    """
    bare, made = [], []
    for _ in range(runs + warm):
        before()
        bare.append(_run([PYTHON, "-c", "pass"], [0]).processor)
        made.append(_run(command, statuses))
    counted = made[warm:]
    return Figure(
        seconds=tuple(one.seconds for one in counted),
        processor=tuple(one.processor for one in counted),
        bare=tuple(bare[warm:]),
        megabytes=max(one.peak for one in made) / 1024,
    )


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
