"""What the runs of the shards recorded of each variant over time, and how much of that is kept.

A variant keeps its newest results, and of the time before them the newest result of each month. So its history stays
small, however often it is built, and what is kept does not depend on the order in which runs are read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ci_compiler.plan.benchmarks import BenchmarkResult

Key = tuple[str, str]
"""A variant's branch and name."""

NEWEST = 24
"""The newest results that are kept of a variant."""

MONTHS = 12
"""The months before these of which one result each is kept."""

DAY = 86_400

AGAIN = 7 * DAY
"""For how long the runs before the newest known one are listed again, since a run may go on, or be run again."""

LONGEST = 36 * DAY
"""For how long a run can go on: GitHub ends it after 35 days."""

GONE = 90 * DAY
"""For how long a variant is kept that is no longer in the spec."""

PASSED = "passed"
"""The result of a variant all of whose stages succeeded."""

ENDED = frozenset({"success", "failure", "timed_out"})
"""The conclusions of a job that ran to its end."""

SUITES = "suites"
"""Stands for all test suites of a variant, as if they were one stage."""


def machine_of(labels: Iterable[str]) -> str:
    """The machine of a job by the labels that it asked for, as a record names it."""
    return ", ".join(sorted(labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a shard: its id on GitHub, its start in seconds since 1970, and which attempt was read last.

    `going`: it had not ended then. `seconds`: from its start to the end of its last job; 0 if it goes on.
    `commit`: the first 12 digits of the commit that it built; '' if it is not known.
    """

    number: int
    shard: str
    started: int
    attempt: int = 1
    going: bool = False
    seconds: int = 0
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The result of a variant in `run`, with the conclusion of each stage that ran, and the seconds of each that ended.

    `waited`: the seconds that its jobs waited for machines, which `seconds` leaves out. Neither counts the job that
    publishes, which all variants of a pool share. `built`: whether its build did not find the result in a store.
    `benchmark`: what its benchmark found, if that compared it with a second build. `machines`: of each test that ran
    to its end, the labels of its machine, sorted and joined; a file keeps those of the newest such record alone.
    """

    run: Run
    result: str
    ends: Mapping[str, str]
    seconds: Mapping[str, int] = field(default_factory=dict)
    waited: int = 0
    built: bool = True
    benchmark: BenchmarkResult | None = None
    machines: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The seconds of its stages together."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The results of a variant, the newest first. `gone`: since when it is no longer in the spec; 0 if it is."""

    records: tuple[Record, ...]
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The history of the variants of `repository`: of all runs created from `since` to `through`.

    `runs` has every run of a record, and those so new that they may be listed again.
    """

    repository: str = ""
    since: int = 0
    through: int = 0
    runs: Mapping[int, Run] = field(default_factory=dict)
    variants: Mapping[Key, Trace] = field(default_factory=dict)

    def address(self, web_host: str, run: Run) -> str:
        """The address of a run."""
        return f"https://{web_host}/{self.repository}/actions/runs/{run.number}"

    @property
    def listed_from(self) -> int:
        """The start of the oldest run that a listing must have, so that runs which changed are read again."""
        going = (run.started for run in self.runs.values() if run.going)
        return min([self.through - AGAIN, *(start for start in going if start >= self.through - LONGEST)])


Found = Mapping[Key, Record]
"""What a run recorded, by variant."""


def merged(
    old: Records, found: Iterable[Found], *, runs: Iterable[Run], variants: Collection[Key], known: tuple[int, int]
) -> Records:
    """`old` with what `runs` recorded. `variants` are those of the spec; `known`: the time whose runs were all read."""
    since, through = known
    every = {**old.runs, **{run.number: run for run in runs}}
    by_variant = {key: {one.run.number: one for one in trace.records} for key, trace in old.variants.items()}
    for records in found:
        for key, record in records.items():
            of_variant = by_variant.setdefault(key, {})
            before = of_variant.get(record.run.number)
            benchmark = record.benchmark or (before.benchmark if before else None)
            of_variant[record.run.number] = replace(record, benchmark=benchmark)
    traces = {}
    for key, of_variant in sorted(by_variant.items()):
        gone = 0 if key in variants else (old.variants[key].gone if key in old.variants else 0) or through
        if not gone or through - gone < GONE:
            traces[key] = Trace(records=kept_of(of_variant.values(), through), gone=gone)
    needed = {record.run.number for trace in traces.values() for record in trace.records}
    fresh = replace(old, runs=every, through=through).listed_from
    return Records(
        repository=old.repository,
        since=since,
        through=through,
        runs={number: run for number, run in sorted(every.items()) if number in needed or run.started >= fresh},
        variants=traces,
    )


def kept_of(records: Iterable[Record], now: int) -> tuple[Record, ...]:
    """The records that are kept, the newest first: the newest ones, then the newest of each month before.

    A result that passed stands for a month rather than one that did not, since its durations are whole.
    """
    ordered = sorted(records, key=lambda record: (record.run.started, record.run.number), reverse=True)
    months: dict[int, Record] = {}
    for record in ordered[NEWEST:]:
        month = month_of(record.run.started)
        if month_of(now) - month > MONTHS:
            break
        if month not in months or (record.result == PASSED and months[month].result != PASSED):
            months[month] = record
    return (*ordered[:NEWEST], *months.values())


def month_of(seconds: int) -> int:
    """The month of a time in seconds since 1970, counted from year 0."""
    moment = time.gmtime(seconds)
    return moment.tm_year * 12 + moment.tm_mon - 1
