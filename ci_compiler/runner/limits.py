"""How long a job may take, and the space that it needs."""

from __future__ import annotations

from ci_compiler.spec.model import Pool, Spec

RESERVE = 120.0
"""Seconds that a stage reserves to report a failure before GitHub ends the job."""


def job_seconds(minutes: int) -> float:
    """The time limit, in seconds, of a stage whose job GitHub ends after `minutes`."""
    return max(60.0, minutes * 60 - RESERVE)


def longest(spec: Spec, pool: Pool) -> int:
    """The most seconds that a job of `pool` may take."""
    return 60 * max(spec.timeouts[stage] for stage in pool.stages)


def most_disk(spec: Spec) -> int:
    """GB of disk that the largest build takes, and that must be free before a job."""
    return max(package.disk for package in spec.packages.values())
