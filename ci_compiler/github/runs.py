"""Reads what the runs of the shards recorded, for a history that grows: only runs that it does not have yet.

Runs are listed for the whole repository, a page of 100 for each request, and the jobs of those that are new, that went
on when they were read, or that were run again. The time before the oldest known run is read backwards. A command makes
a limited number of requests, and the next one continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from urllib.parse import quote

from ci_compiler.github.actions import Json, file_of, seconds_of, stamp
from ci_compiler.github.client import PER_PAGE, Client
from ci_compiler.github.dispatch import DONE, SUCCESS
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.status import SKIPPED, BuildOutcome, LastBuild, is_own, read_jobs, reported_job
from ci_compiler.plan.benchmarks import BenchmarkResult
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import (
    DAY,
    ENDED,
    NEWEST,
    PASSED,
    Found,
    Key,
    Record,
    Records,
    Run,
    machine_of,
    merged,
    month_of,
)
from ci_compiler.plan.sharding import Shard
from ci_compiler.stages import BENCHMARK, BUILD, PUBLISH
from ci_compiler.workflows.steps import NOT_BUILT

REQUESTS = 400
"""The most requests of one reading; the token of GitHub Actions has 1,000 per hour and repository."""

YEAR = 365 * DAY
"""How far back runs are read; GitHub keeps them for 400 days."""

_WINDOW = 7 * DAY
"""The time whose runs are listed together."""

_WIDEST = 8 * _WINDOW
"""The same where there were few runs."""

_MOST = 1000
"""The most results of a listing by time (GitHub Docs, "List workflow runs for a repository")."""

_MEASURING = 2
"""The most requests that `Measured` makes."""

_STUCK = frozenset({Trouble.RATE, Trouble.SERVER, Trouble.CONNECTION})
"""Failures that the next request would meet as well."""

Measured = Callable[[int], Mapping[Key, BenchmarkResult]]
"""Returns what the benchmarks of a run found, by branch and variant. Raises GitHubError."""


class _SpentError(Exception):
    """The requests of this reading are used up."""


def read_runs(
    client: Client, plan: Plan, old: Records, *, most: int = REQUESTS, measured: Measured | None = None
) -> Reading:
    """`old` with the runs that it does not have yet. A failure of GitHub ends the reading; what was read is kept.

    `measured` is asked about each run with benchmarks.
    """
    reading = Reading(client, plan, old, most, measured)
    try:
        reading.read()
    except _SpentError:
        pass
    except GitHubError as error:
        reading.trouble = error
    keys = {(shard.branch, variant) for shard in plan.shards for variant in shard.variants}
    known = (reading.since, reading.through)
    reading.records = merged(old, reading.found, runs=reading.new, variants=keys, known=known)
    return reading


@dataclass(slots=True)
class Reading:
    """One reading, whether any runs are left, and why. All runs created from `since` to `through` are known.

    `records` is the history with the `new` runs, read with so many `requests`. `unmeasured`: the runs whose benchmarks
    could not be read; they are not asked for them again.
    """

    client: Client
    plan: Plan
    records: Records
    most: int
    measured: Measured | None
    requests: int = 0
    since: int = 0
    through: int = 0
    complete: bool = False
    unmeasured: int = 0
    trouble: GitHubError | None = None
    new: list[Run] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    _numbers: set[int] = field(default_factory=set)
    _counts: dict[Key, int] = field(default_factory=dict)
    _months: set[tuple[Key, int]] = field(default_factory=set)
    _shards: dict[str, Shard] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many runs were read."""
        return len(self.new)

    def read(self) -> None:
        """Reads the runs after the known ones, then those before. Raises _SpentError and GitHubError."""
        now = int(self.client.clock.now())
        self._shards = {shard.path: shard for shard in self.plan.shards}
        for key, trace in self.records.variants.items():
            for record in trace.records:
                self._count(key, record)
        self.through = min(self.records.through or now, now)
        self.since = min(self.records.since or now, self.through)
        start = self.records.listed_from if self.records.through else now
        while start < now:
            end = min(start + _WINDOW, now)
            for run in reversed(self._listed(start, end)):
                self._read_if(run, lambda _: True)
            start, self.through = end, max(self.through, end)
        window = _WINDOW
        while self.since > now - YEAR:
            start = max(self.since - window, now - YEAR)
            runs = self._listed(start, self.since)
            for run in runs:
                self._read_if(run, self._is_wanted)
                self.since = min(self.since, seconds_of(run["created_at"]))
            self.since = start
            window = min(2 * window, _WIDEST) if len(runs) < PER_PAGE else _WINDOW
        self.complete = True

    def _read_if(self, run: Json, wanted: Callable[[Json], bool]) -> None:
        """Reads a run of a shard, unless it is known, or not `wanted`. One may be on the border of two listings."""
        known = self.records.runs.get(run["id"])
        same = known is not None and not known.going and known.attempt == run["run_attempt"]
        if self._is_ours(run) and not same and run["id"] not in self._numbers and wanted(run):
            self._numbers.add(run["id"])
            self._read_run(run)

    def _listed(self, start: int, end: int) -> list[Json]:
        """The runs of all workflows that were created from `start` to `end`, the newest first."""
        created = quote(f"{stamp(start)}..{stamp(end)}")
        listed = self._pages("list the runs", f"actions/runs?created={created}", "workflow_runs")
        runs = list(islice(listed, _MOST))
        if len(runs) < _MOST or end - start < 2:
            return runs
        middle = (start + end) // 2
        return [*self._listed(middle + 1, end), *self._listed(start, middle)]

    def _pages(self, what: str, path: str, item: str) -> Iterator[Json]:
        self._spend()
        for at, entry in enumerate(self.client.pages(what, path, item, dict)):
            if at and at % PER_PAGE == 0:
                self._spend()
            yield entry

    def _spend(self, requests: int = 1) -> None:
        if self.requests + requests > self.most:
            raise _SpentError
        self.requests += requests

    def _is_ours(self, run: Json) -> bool:
        return file_of(run) in self._shards and is_own(self.plan, run["event"], run["head_branch"])

    def _is_wanted(self, run: Json) -> bool:
        """Whether a result of an older run would be kept: some variant lacks results, or a passed one of the month."""
        shard, month = self._shards[file_of(run)], month_of(seconds_of(run["created_at"]))
        keys = [(shard.branch, name) for name in shard.variants]
        return any(self._counts.get(key, 0) < NEWEST or (key, month) not in self._months for key in keys)

    def _read_run(self, run: Json) -> None:
        shard = self._shards[file_of(run)]
        path, what = f"actions/runs/{run['id']}/jobs?filter=latest", f"list the jobs of the run {run['id']}"
        jobs = list(self._pages(what, path, "jobs"))
        run_read = Run(
            number=int(run["id"]),
            shard=shard.name,
            started=seconds_of(run["created_at"]),
            attempt=int(run["run_attempt"]),
            going=run["status"] != DONE,
            commit=str(run.get("head_sha") or "")[:12],
            seconds=_whole(jobs) if run["status"] == DONE else 0,
        )
        lasts = read_jobs(shard, map(reported_job, jobs), url="", started="")
        found = {(last.cell.branch, last.variant.name): _record(run_read, last) for last in lasts}
        if any(BENCHMARK.name in record.ends for record in found.values()):
            results = self._measured(run_read.number)
            found = {key: replace(record, benchmark=results.get(key)) for key, record in found.items()}
        for key, record in found.items():
            self._count(key, record)
        self.new.append(run_read)
        self.found.append(found)

    def _measured(self, run: int) -> Mapping[Key, BenchmarkResult]:
        """What the benchmarks of a run found; nothing if that cannot be read, which would hold up all others."""
        if self.measured is None:
            return {}
        self._spend(_MEASURING)
        try:
            return self.measured(run)
        except GitHubError as error:
            if error.trouble in _STUCK:
                raise
            self.unmeasured += 1
            return {}

    def _count(self, key: Key, record: Record) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] > NEWEST and record.result == PASSED:
            self._months.add((key, month_of(record.run.started)))


def lasts_of(plan: Plan, records: Records, web_host: str) -> Iterator[LastBuild]:
    """The last result of each variant that has one in `records`, as `status` reads it from GitHub."""
    for cell in plan.judged.cells:
        for variant in cell.variants:
            trace = records.variants.get((cell.branch, variant.name))
            for last in trace.records[:1] if trace else ():
                yield LastBuild(
                    variant=variant,
                    cell=cell,
                    result=BuildOutcome(last.result),
                    stages=dict(last.ends),
                    url=records.address(web_host, last.run),
                    started=stamp(last.run.started),
                )


def _record(run: Run, last: LastBuild) -> Record:
    build = last.jobs.get(BUILD.name)
    own = {stage: job for stage, job in last.jobs.items() if stage != PUBLISH.name}  # one job publishes all variants
    return Record(
        run=run,
        result=BuildOutcome(last.result).value,
        ends=dict(last.stages),
        seconds={stage: job.seconds for stage, job in own.items() if job.seconds},
        waited=sum(job.waited for job in own.values()),
        built=build is not None and build.steps.get(NOT_BUILT) != SUCCESS,
        machines={
            stage: machine_of(job.labels)
            for stage, job in own.items()
            if job.labels and job.conclusion in ENDED and stage != BUILD.name
        },
    )


def _whole(jobs: list[Json]) -> int:
    """The seconds from the creation of the first job that ran to the end of the last one."""
    ran = [job for job in jobs if job["conclusion"] != SKIPPED and job.get("completed_at")]
    if not ran:
        return 0
    start = min(seconds_of(job.get("created_at") or job["started_at"]) for job in ran)
    return max(max(seconds_of(job["completed_at"]) for job in ran) - start, 0)
