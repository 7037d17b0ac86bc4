"""How long a job may take, and the space that it needs."""

from __future__ import annotations

from ci_compiler.plan.suites import benches, longest_minutes
from ci_compiler.spec.model import Pool, Spec

RESERVE = 120.0
"""Seconds that a stage reserves to report a failure before GitHub ends the job."""


def job_seconds(minutes: int) -> float:
    """The time limit, in seconds, of a stage whose job GitHub ends after `minutes`."""
    return max(60.0, minutes * 60 - RESERVE)


def longest(spec: Spec, pool: Pool) -> int:
    """The most seconds that a job of `pool` may take."""
    stages = [spec.timeouts[stage] for stage in pool.stages]
    taken = [one for one in benches(spec.packages.values()) if one.stage in pool.stages and one.gpus <= pool.gpus]
    return 60 * max(*stages, *(longest_minutes(spec, one) for one in taken), 0)


def most_disk(spec: Spec) -> int:
    """GB of disk that the largest build takes, and that must be free before a job."""
    return max(package.disk for package in spec.packages.values())
