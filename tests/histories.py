"""Histories for tests: made up, the same ones every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from ci_compiler.plan.benchmarks import BenchmarkResult, Gain
from ci_compiler.plan.job_graph import PlannedJob, jobs_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import DAY, NEWEST, PASSED, Found, Record, Records, Run, merged
from ci_compiler.reports.forecast import end_of, machine_counts
from ci_compiler.stages import BUILD

NOW = 1_790_856_000
"""2026-10-01, 12:00:00 UTC, as for the GitHub of tests."""


def compared(name: str, beside: str, **gains: Gain) -> BenchmarkResult:
    """What the benchmark of a variant found on `main`."""
    found = {"cpu": Gain(0.4, 0.6), **gains}
    return BenchmarkResult(name=name, branch="main", beside=beside, gains=found, machine="AMD EPYC 9354, NVIDIA H100")


def _ages(days: int, every: int) -> list[int]:
    """The days ago of the runs, the oldest first. Of the older ones, some are left out that would not be kept."""
    every_age = range(0, days + 1, every)
    return [*reversed([*every_age[:NEWEST], *every_age[NEWEST:][:: max(1, 10 // every)]])]


def history(
    plan: Plan,
    *,
    days: int = 365,
    every: int = 2,
    failures: float = 0.0,
    spread: float = 0.0,
    took: Callable[[PlannedJob, int], float] = lambda job, _: job.seconds,
    repository: str = "my-org/build-pytorch",
) -> Records:
    """The history of a fleet each of whose shards was built whole `every` few days, in the last `days`.

    A job takes what `took` says of it and of the days since then, and up to the part `spread` more or less. The part
    `failures` of the variants failed in their first test, or else in their build.
    """
    random = Random(1)  # noqa: S311
    machines = machine_counts(plan.spec)
    runs: list[Run] = []
    found: list[Found] = []
    for at, shard in enumerate(plan.shards):
        jobs = jobs_of(plan.spec, [shard], publish=False)
        for ago in _ages(days, every):
            records: dict[tuple[str, str], Record] = {}
            times = [replace(job, seconds=int(took(job, ago) * (1 + random.uniform(-spread, spread)))) for job in jobs]
            run = Run(
                number=20_000_000_000 + 1000 * ago + at,
                shard=shard.name,
                started=NOW - ago * DAY - 60 * at,
                seconds=end_of(times, machines),
            )
            for job in times:
                before = records.get(job.key)
                if before and before.result != PASSED:
                    continue
                seconds = job.seconds
                passed = random.random() >= failures or (job.stage is BUILD and random.random() < 0.5)
                records[job.key] = Record(
                    run=run,
                    result=PASSED if passed else "failed",
                    ends={**(before.ends if before else {}), job.stage.name: "success" if passed else "failure"},
                    seconds={**(before.seconds if before else {}), job.stage.name: seconds},
                    waited=(before.waited if before else 0) + int(random.uniform(0, 600)),
                )
            runs.append(run)
            found.append(records)
    variants = {(shard.branch, name) for shard in plan.shards for name in shard.variants}
    old = Records(repository=repository)
    return merged(old, found, runs=runs, variants=variants, known=(NOW - days * DAY, NOW))
