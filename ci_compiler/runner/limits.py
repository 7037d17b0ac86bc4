"""What the jobs of a pool may take and need: time, space, a sandbox for builds, keys to trust."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ci_compiler.hardware.machine import NOMINAL, Machine
from ci_compiler.plan.suites import benches, longest_minutes
from ci_compiler.spec.model import Package, Pool, Spec
from ci_compiler.stages import BUILD, Stage
from ci_compiler.units import GB

RESERVE = 120.0
"""Seconds that a stage reserves to report a failure before GitHub ends the job."""


def job_seconds(minutes: int) -> float:
    """The time limit, in seconds, of a stage whose job GitHub ends after `minutes`."""
    return max(60.0, minutes * 60 - RESERVE)


def compile_jobs(package: Package, machine: Machine, pool: Pool | None) -> int:
    """The compilers that a build of `package` may run at a time on `machine`, whose share for a job is that of `pool`.

    A control group's limits are those of the machine. A number that is unknown (0) limits nothing.
    """
    cores = (machine.cores, pool.cores if pool else 0)
    memory = (int(machine.memory / (GB * NOMINAL)), pool.memory if pool else 0)
    most = min((one // package.memory_per_job for one in memory if one), default=package.jobs)
    return max(1, min(package.jobs, most, *filter(None, cores)))


def longest(spec: Spec, pool: Pool) -> int:
    """The most seconds that a job of `pool` may take."""
    stages = [spec.timeouts[stage] for stage in pool.stages]
    taken = [
        bench for bench in benches(spec.packages.values()) if bench.stage in pool.stages and bench.gpus <= pool.gpus
    ]
    return 60 * max(*stages, *(longest_minutes(spec, bench) for bench in taken), 0)


CLOSURE = 0.5
"""The most that a closure takes of the disk of its build, which also holds sources, objects and build dependencies."""


WORK_ROOM = 1
"""GB of disk that any job needs where it checks out; so much do the images of runners ask for, too."""


def most_disk(packages: Iterable[Package]) -> int:
    """GB of disk that the largest build takes."""
    return max(package.disk for package in packages)


def room_for(packages: Iterable[Package], stages: Collection[Stage]) -> int:
    """GB of disk that must be free before a job of `stages` (none given: any): a build, or the closure of one."""
    most = most_disk(packages)
    return most if not stages or BUILD in stages else math.ceil(most * CLOSURE)


def builds_in(spec: Spec, pool: Pool) -> bool:
    """Whether jobs of `pool` build, for which Nix must be able to make its sandbox there."""
    return not spec.building.isdisjoint(pool.stages)


def trusted_keys(spec: Spec) -> tuple[str, ...]:
    """The public keys whose paths jobs may fetch: those of the cache and of the builders."""
    return (*spec.cache.keys, *spec.cache.builder_keys) if spec.cache else ()


def room_of(spec: Spec, pool: Pool) -> int:
    """GB of disk that must be free before a job of `pool`."""
    return room_for(spec.packages.values(), [BUILD] if builds_in(spec, pool) else pool.stages)
