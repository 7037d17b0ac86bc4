"""Simulates pools of machines that run jobs with dependencies, and computes lower bounds for every schedule.

A job runs on one machine of its pool, exclusively and without interruption, after the jobs that it needs. GitHub starts
a pool's queued jobs roughly in the order in which they became ready; `QueueOrder.LONGEST` is the order that list
scheduling uses instead. Times are whole seconds from the start, so that rounding loses nothing. Everything is a pure
function of the jobs and the machine counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedJob:
    """A job: the pool that runs it, its duration, and the indexes of the jobs that it needs.

    Jobs form a sequence, in the order in which they are written; a job needs only earlier ones.
    """

    pool: str
    seconds: int
    needs: tuple[int, ...] = ()


class QueueOrder(StrEnum):
    """Which of a pool's waiting jobs a free machine takes; ties go by the order of the sequence."""

    READY = "ready"
    """The one that has been ready for longest, as on GitHub."""

    LONGEST = "longest"
    """The one with the longest chain of jobs that wait for it."""


class Timeline(NamedTuple):
    """A schedule, by job index: when each job was ready, when it started, on which machine of its pool (from 0)."""

    ready: tuple[int, ...]
    starts: tuple[int, ...]
    machines: tuple[int, ...]
    end: int

    @property
    def longest_wait(self) -> int:
        """The longest time that a job waited for a machine, in seconds."""
        return max((start - ready for start, ready in zip(self.starts, self.ready, strict=True)), default=0)


class LowerBound(NamedTuple):
    """Lower bounds for every schedule: the longest chain of dependencies, and each pool's work divided by its machines.

    A bound in `pools` also includes the shortest time before the pool's first job and after its last.
    """

    chain: int
    pools: Mapping[str, int]

    @property
    def seconds(self) -> int:
        """The highest of the bounds."""
        return max((self.chain, *self.pools.values()))

    @property
    def pool(self) -> str:
        """The pool that sets the bound; '' if the longest chain does."""
        busiest = max(self.pools, key=self.pools.__getitem__, default="")
        return busiest if busiest and self.pools[busiest] > self.chain else ""


def simulate(jobs: Sequence[TimedJob], machines: Mapping[str, int], order: QueueOrder = QueueOrder.READY) -> Timeline:
    """The schedule of `jobs` on `machines` (a count by pool). Raises ValueError for jobs that could never run."""
    _check(jobs, machines)
    return _Simulation(jobs, machines, order).run()


def lower_bound(jobs: Sequence[TimedJob], machines: Mapping[str, int]) -> LowerBound:
    """The lower bound for schedules of `jobs` on `machines`. Raises ValueError for jobs that could never run."""
    _check(jobs, machines)
    before, after = heads(jobs), tails(jobs)
    by_pool: dict[str, list[int]] = {}
    for index, job in enumerate(jobs):
        by_pool.setdefault(job.pool, []).append(index)
    pools = {
        pool: min(before[index] for index in own)
        - (-sum(jobs[index].seconds for index in own) // machines[pool])
        + min(after[index] - jobs[index].seconds for index in own)
        for pool, own in by_pool.items()
    }
    return LowerBound(chain=max(after, default=0), pools=pools)


def heads(jobs: Sequence[TimedJob]) -> list[int]:
    """The earliest second at which each job could start with unlimited machines."""
    found: list[int] = []
    for job in jobs:
        found.append(max((found[need] + jobs[need].seconds for need in job.needs), default=0))
    return found


def tails(jobs: Sequence[TimedJob]) -> list[int]:
    """The seconds from each job's start to the end of the longest chain of jobs that wait for it."""
    after = [0] * len(jobs)
    found = [0] * len(jobs)
    for index in range(len(jobs) - 1, -1, -1):
        job = jobs[index]
        found[index] = after[index] + job.seconds
        for need in job.needs:
            after[need] = max(after[need], found[index])
    return found


def critical_path(jobs: Sequence[TimedJob]) -> tuple[int, ...]:
    """The indexes of the longest chain of dependencies, the first one of several that are equally long."""
    if not jobs:
        return ()
    before = heads(jobs)
    last = max(range(len(jobs)), key=lambda index: (before[index] + jobs[index].seconds, -index))
    path = [last]
    while needs := jobs[path[-1]].needs:
        path.append(max(needs, key=lambda need: (before[need] + jobs[need].seconds, -need)))
    return tuple(reversed(path))


def _check(jobs: Sequence[TimedJob], machines: Mapping[str, int]) -> None:
    for index, job in enumerate(jobs):
        if job.seconds < 0 or machines.get(job.pool, 0) < 1 or any(not 0 <= need < index for need in job.needs):
            message = f"job {index} can never run: {job}, {machines.get(job.pool, 0)} machines in {job.pool}"
            raise ValueError(message)


class _Simulation:
    """The state of a simulation: waiting jobs and free machines by pool, running jobs by their ends."""

    def __init__(self, jobs: Sequence[TimedJob], machines: Mapping[str, int], order: QueueOrder) -> None:
        self.jobs = jobs
        self.ranks = [-tail for tail in tails(jobs)] if order is QueueOrder.LONGEST else None
        self.free = {pool: list(range(count)) for pool, count in machines.items()}
        self.waiting: dict[str, list[tuple[int, int]]] = {pool: [] for pool in machines}
        self.running: list[tuple[int, int]] = []
        self.open = [len(job.needs) for job in jobs]
        self.dependents: list[list[int]] = [[] for _ in jobs]
        for index, job in enumerate(jobs):
            for need in job.needs:
                self.dependents[need].append(index)
        self.ready = [0] * len(jobs)
        self.starts = [0] * len(jobs)
        self.machines = [0] * len(jobs)

    def run(self) -> Timeline:
        for index, count in enumerate(self.open):
            if not count:
                self._wait(index, 0)
        now, touched = 0, set(self.waiting)
        while True:
            for pool in touched:
                self._start(pool, now)
            if not self.running:
                break
            now = self.running[0][0]
            touched = self._finish(now)
        return Timeline(ready=tuple(self.ready), starts=tuple(self.starts), machines=tuple(self.machines), end=now)

    def _wait(self, index: int, now: int) -> str:
        """Puts a ready job into its pool's queue and returns the pool."""
        pool = self.jobs[index].pool
        self.ready[index] = now
        heappush(self.waiting[pool], (now if self.ranks is None else self.ranks[index], index))
        return pool

    def _start(self, pool: str, now: int) -> None:
        """Starts waiting jobs of the pool on its free machines, lowest machine number first."""
        free, waiting = self.free[pool], self.waiting[pool]
        while free and waiting:
            _, index = heappop(waiting)
            self.starts[index] = now
            self.machines[index] = heappop(free)
            heappush(self.running, (now + self.jobs[index].seconds, index))

    def _finish(self, now: int) -> set[str]:
        """Ends the jobs that end at `now` and queues those that waited for them; returns the pools that changed."""
        touched: set[str] = set()
        while self.running and self.running[0][0] == now:
            _, index = heappop(self.running)
            pool = self.jobs[index].pool
            heappush(self.free[pool], self.machines[index])
            touched.add(pool)
            for later in self.dependents[index]:
                self.open[later] -= 1
                if not self.open[later]:
                    touched.add(self._wait(later, now))
        return touched
