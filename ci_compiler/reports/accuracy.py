"""How far off the forecast was: what it would have said of recorded runs of whole shards, and what they took.

For each run, the forecast knows only the results of runs that started before it, as it would have then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import PASSED, Record, Records, Run
from ci_compiler.plan.sharding import Shard
from ci_compiler.reports.forecast import end_of, machine_counts
from ci_compiler.reports.history import history_of, spread
from ci_compiler.stages import PUBLISH

RUNS = 5
"""The most runs of a shard that are compared, the newest first."""


class Off(NamedTuple):
    """By which part the forecast was above what happened: 10th percentile, median, 90th percentile."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        """`+8.0% at the median, -3.1% to +21.4%`."""
        return f"{self.median:+.1%} at the median, {self.low:+.1%} to {self.high:+.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far the forecast was off in `runs` runs: in the work of the machines, and in the time until the run's end.

    The latter includes waiting for machines that other runs had, which the forecast of one shard does not.
    """

    runs: int
    work: Off
    time: Off


def accuracy(plan: Plan, records: Records) -> Accuracy | None:
    """The accuracy of the forecast of `plan` in the runs that `records` has; None without a run of a whole shard."""
    pairs = [pair for shard in plan.shards for pair in _of_shard(plan, shard, records)]
    if not pairs:
        return None
    work, time = ([said / took - 1 for said, took in both] for both in zip(*pairs, strict=True))
    return Accuracy(runs=len(pairs), work=Off(*spread(work)), time=Off(*spread(time)))


_Pair = tuple[float, float]


def _of_shard(plan: Plan, shard: Shard, records: Records) -> Iterator[tuple[_Pair, _Pair]]:
    """For each run of the whole shard, the work and the time: as forecast, and as they were."""
    keys = {(shard.branch, name) for name in shard.variants}
    own = Records(variants={key: trace for key, trace in records.variants.items() if key in keys})
    for run, found in _whole_runs(shard, own)[:RUNS]:
        known = history_of(own, before=run.started).seconds
        published = any(PUBLISH.name in record.ends for record in found.values())
        jobs = jobs_of(plan.spec, [shard], recorded=known, publish=published)
        said = sum(job.seconds for job in jobs if not job.suite and job.stage is not PUBLISH)
        took = sum(record.seconds.get(stage, 0) for record in found.values() for stage in record.ends)
        yield (said, took), (end_of(jobs, machine_counts(plan.spec)), run.seconds)


def _whole_runs(shard: Shard, records: Records) -> list[tuple[Run, Mapping[str, Record]]]:
    """The runs that built every variant of the shard and passed all its tests at once, the newest first."""
    found: dict[int, dict[str, Record]] = {}
    for (_, name), trace in records.variants.items():
        for record in trace.records:
            if record.result == PASSED and record.built and record.run.attempt == 1 and record.run.seconds:
                found.setdefault(record.run.number, {})[name] = record
    stages = {
        variant.name: {stage.name for stage in route.pools if stage is not PUBLISH}
        for cell, route in shard.cells
        for variant in cell.variants
    }
    whole = [
        one
        for one in found.values()
        if all(name in one and wanted <= one[name].seconds.keys() for name, wanted in stages.items())
    ]
    runs = [(next(iter(one.values())).run, one) for one in whole]
    return sorted(runs, key=lambda one: (one[0].started, one[0].number), reverse=True)
