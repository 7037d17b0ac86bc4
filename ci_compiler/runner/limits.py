"""What the jobs of a pool may take and need: time, space, a sandbox for builds, keys to trust."""

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


def builds_in(spec: Spec, pool: Pool) -> bool:
    """Whether jobs of `pool` build, for which Nix must be able to make its sandbox there."""
    return not spec.building.isdisjoint(pool.stages)


def trusted_keys(spec: Spec) -> tuple[str, ...]:
    """The public keys whose paths jobs may fetch: those of the cache and of the builders."""
    return (spec.cache.public_key, *spec.cache.builder_keys) if spec.cache else ()
