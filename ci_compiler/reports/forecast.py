"""The cost and the duration of builds: simulates the jobs of a plan on the pools that the spec declares.

`plan.job_graph` provides the jobs and their dependencies. The duration of a build is the median of recorded builds, or
the spec's minutes if there are none. The hosted jobs around the cells of a shard count as one constant minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ci_compiler.plan.job_graph import PlannedJob, better_order, guessed_of, jobs_of
from ci_compiler.plan.limits import limit
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.profiles import builds
from ci_compiler.plan.selection import in_request, most_cells, within_limit
from ci_compiler.plan.simulation import LowerBound, QueueOrder, TimedJob, Timeline, critical_path, lower_bound, simulate
from ci_compiler.recipes.capabilities import variants_with_capabilities
from ci_compiler.reports.costs import Bill, bill_of
from ci_compiler.reports.history import History, SeedHits
from ci_compiler.reports.seeded import seeders, seeders_first, taken
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.spec.triggers import PULL_REQUEST
from ci_compiler.stages import BUILD
from ci_compiler.units import duration, machine_hours

HOSTED_SECONDS = 60
"""Seconds of a run besides its cells: the hosted jobs for the selection and the verdict."""

RESULT_SHARE = 0.1
"""The size of a result as a share of the disk space of its build (seed documents: 1 to 3 of 20 GB, 0.5 of 6 GB)."""

NO_HISTORY = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The work and the end, in seconds, if every recorded job took its tenth and its ninetieth percentile."""

    least: int
    most: int
    first_end: int
    last_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Shards that can be dispatched at once without GitHub cancelling a queued job, and their duration in seconds."""

    shards: tuple[str, ...]
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolForecast:
    """A pool during a full build: its jobs, their seconds, and the share of the time that its machines are busy.

    `bound`: the lower bound that the pool sets for a full build, in seconds. `build_disk`: the disk space of its
    largest build on one machine, in GB. `disk_peak`: the most disk space on one machine if nothing is garbage
    collected, in GB. `one_more`: the seconds that one more machine saves in a full build; list scheduling can also get
    slower with it, then `one_more` is negative.
    """

    pool: Pool
    jobs: int
    seconds: int
    busy: float
    bound: int
    build_disk: int
    disk_peak: float
    one_more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestRequest:
    """The slowest pull request: its branch, the cells that it builds, its duration in seconds."""

    branch: str
    cells: tuple[Cell, ...]
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A forecast; times are in seconds. `schedule` is the schedule of `jobs` in GitHub's order.

    `measured`: variants whose build is recorded. `guessed`: packages whose minutes, a guess, are in it. `memory`: the
    most memory of a recorded build in bytes, by package.
    `seeds`: what recorded builds found in compiler seeds, by package. `better_end`: the end with the jobs in
    `better_order`. `longest_end`: the end with a scheduler that starts the longest job first. `overdue`: queued jobs
    that GitHub cancels if all shards are dispatched at once; in `waves` there are none. `shards`: the duration of a run
    of each shard alone. `capabilities`: the variants whose recipes set the capabilities of all packages, by GPU; their
    builds also build the libraries that they are linked with, which the times leave out. `alone_seconds`, `alone_end`:
    the work and the end if each package built all packages that it needs itself. `spread`: where durations were
    recorded. `bill`: where the spec has prices.
    """

    variants: int
    measured: int
    guessed: tuple[str, ...]
    memory: Mapping[str, int]
    seeds: Mapping[str, SeedHits]
    jobs: tuple[PlannedJob, ...]
    schedule: Timeline
    bound: LowerBound
    path: tuple[PlannedJob, ...]
    pools: tuple[PoolForecast, ...]
    better_end: int
    longest_end: int
    overdue: int
    waves: tuple[Wave, ...]
    shards: Mapping[str, int]
    pull_request: SlowestRequest
    capabilities: Mapping[str, int]
    alone_seconds: int
    alone_end: int
    spread: Spread | None = None
    bill: Bill | None = None

    @property
    def seconds(self) -> int:
        """The work of all jobs."""
        return sum(job.seconds for job in self.jobs)

    @property
    def end(self) -> int:
        """When a full build ends if all shards are dispatched at once, with the jobs in their written order."""
        return HOSTED_SECONDS + self.schedule.end

    @property
    def in_waves(self) -> int:
        """When a full build ends whose waves are dispatched one after the other."""
        return sum(wave.seconds for wave in self.waves)

    @property
    def lower_bound(self) -> int:
        """The lower bound for every order of the jobs."""
        return HOSTED_SECONDS + self.bound.seconds


def forecast(plan: Plan, *, history: History = NO_HISTORY, publish: bool = True) -> Forecast:
    """The forecast of `plan`. `publish`: whether a full build publishes what passes its tests."""
    spec, better, machines = plan.spec, better_order(plan.spec, plan.shards), machine_counts(plan.spec)
    jobs = jobs_of(spec, plan.shards, recorded=history.seconds, publish=publish)
    again = jobs_of(spec, plan.shards, recorded=history.seconds, publish=publish, alone=True)
    by_shard = {shard.name: jobs_of(spec, [shard], recorded=history.seconds, publish=publish) for shard in plan.shards}
    schedule, bound = simulate(jobs, machines), lower_bound(jobs, machines)
    return Forecast(
        variants=sum(len(shard.variants) for shard in plan.shards),
        measured=sum((*job.key, BUILD.name) in history.seconds for job in jobs if job.stage is BUILD),
        guessed=guessed_of(spec, jobs, history.seconds),
        memory=_memory(jobs, history),
        seeds=_seeds(jobs, history),
        jobs=jobs,
        schedule=schedule,
        bound=bound,
        path=tuple(jobs[index] for index in critical_path(jobs)),
        pools=tuple(_pools(spec, jobs, schedule, bound)),
        better_end=end_of(jobs_of(spec, better, recorded=history.seconds, publish=publish), machines),
        longest_end=end_of(jobs, machines, QueueOrder.LONGEST),
        overdue=overdue_in(schedule),
        waves=tuple(waves_of(plan, [by_shard[shard.name] for shard in better])),
        shards={name: end_of(own, machines) for name, own in by_shard.items()},
        pull_request=max(_pull_requests(plan, history, machines), key=lambda pull_request: pull_request.seconds),
        capabilities=Counter(cell.target for cell in plan.judged.cells for _ in variants_with_capabilities(spec, cell)),
        alone_seconds=sum(job.seconds for job in again),
        alone_end=end_of(again, machines),
        spread=_spread(plan, history, publish=publish) if history.seconds else None,
        bill=bill_of(spec, _work(jobs), len(plan.shards)),
    )


def overdue_in(schedule: Timeline) -> int:
    """The jobs that wait longer than GitHub lets a job wait."""
    longest = limit("queued-hours").limit * 3600
    return sum(start - ready > longest for start, ready in zip(schedule.starts, schedule.ready, strict=True))


def machine_counts(spec: Spec) -> dict[str, int]:
    """The number of machines of each pool."""
    return {pool.name: pool.count for pool in spec.pools}


def end_of(jobs: Sequence[TimedJob], machines: Mapping[str, int], order: QueueOrder = QueueOrder.READY) -> int:
    """The seconds from the dispatch to the verdict of a run of `jobs`."""
    return HOSTED_SECONDS + simulate(jobs, machines, order).end


def pool_table(found: Forecast) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The headers and rows of a table of the pools."""
    headers = ["pool", "machines", "jobs", "machine-hours", "busy", "least time"]
    headers += ["largest build", "disk uncollected", "one more saves", *(["cost"] if found.bill else [])]
    rows = [
        (
            pool.pool.name,
            f"{pool.pool.count:,}",
            f"{pool.jobs:,}",
            machine_hours(pool.seconds),
            f"{pool.busy:.0%}",
            duration(pool.bound),
            f"{pool.build_disk} GB" if pool.build_disk else "-",
            f"{pool.disk_peak:.0f} of {pool.pool.disk:,} GB",
            duration(pool.one_more) if pool.one_more else "-",
            *([found.bill.shown(found.bill.machines[pool.pool.name])] if found.bill else []),
        )
        for pool in found.pools
    ]
    return headers, rows


# Parts of the forecast.


def _work(jobs: Iterable[PlannedJob]) -> Counter[str]:
    """The seconds of the jobs of each pool."""
    seconds = Counter[str]()
    for job in jobs:
        seconds[job.pool] += job.seconds
    return seconds


def _spread(plan: Plan, history: History, *, publish: bool) -> Spread:
    machines, both = machine_counts(plan.spec), (history.low, history.high)
    cases = [jobs_of(plan.spec, plan.shards, recorded=recorded, publish=publish) for recorded in both]
    least, most = (sum(job.seconds for job in jobs) for jobs in cases)
    first_end, last_end = (end_of(jobs, machines) for jobs in cases)
    return Spread(least=least, most=most, first_end=first_end, last_end=last_end)


def _seeds(jobs: Iterable[PlannedJob], history: History) -> dict[str, SeedHits]:
    """What the recorded builds of each package found in compiler seeds, where any took one."""
    found: dict[str, SeedHits] = {}
    for job in jobs:
        if job.stage is BUILD and (hits := history.seeds.get(job.key)):
            found[job.variant.package] = hits.plus(found.get(job.variant.package, SeedHits()))
    return found


def _memory(jobs: Iterable[PlannedJob], history: History) -> dict[str, int]:
    """The most memory of a recorded build of each package, in bytes."""
    most: dict[str, int] = {}
    for job in jobs:
        if job.stage is BUILD and (used := history.memory.get(job.key)):
            most[job.variant.package] = max(used, most.get(job.variant.package, 0))
    return most


def _pools(spec: Spec, jobs: Sequence[PlannedJob], schedule: Timeline, bound: LowerBound) -> Iterator[PoolForecast]:
    machines = machine_counts(spec)
    peaks = _disk_peaks(spec, jobs, schedule)
    by_pool: dict[str, list[int]] = {}
    for index, job in enumerate(jobs):
        by_pool.setdefault(job.pool, []).append(index)
    for pool in spec.pools:
        own = by_pool.get(pool.name, [])
        if not own:
            continue
        seconds = sum(jobs[index].seconds for index in own)
        waited = any(schedule.starts[index] > schedule.ready[index] for index in own)
        more = simulate(jobs, machines | {pool.name: pool.count + 1}).end if waited else schedule.end
        builds = [jobs[index].variant.package for index in own if jobs[index].stage is BUILD]
        yield PoolForecast(
            pool=pool,
            jobs=len(own),
            seconds=seconds,
            busy=seconds / (pool.count * schedule.end),
            bound=HOSTED_SECONDS + bound.pools[pool.name],
            build_disk=max((spec.packages[package].disk for package in builds), default=0),
            disk_peak=peaks[pool.name],
            one_more=schedule.end - more,
        )


def _disk_peaks(spec: Spec, jobs: Sequence[PlannedJob], schedule: Timeline) -> dict[str, float]:
    """The peak disk use on one machine of each pool in GB: earlier results plus the running build."""
    store: dict[tuple[str, int], float] = {}
    held: set[tuple[tuple[str, int], tuple[str, str]]] = set()
    peaks: dict[str, float] = {}
    for index in sorted(range(len(jobs)), key=lambda index: (schedule.starts[index], index)):
        job, machine = jobs[index], (jobs[index].pool, schedule.machines[index])
        disk = spec.packages[job.variant.package].disk
        result = (machine, job.key)
        before = store.get(machine, 0.0)
        after = before if result in held else before + disk * RESULT_SHARE
        held.add(result)
        store[machine] = after
        used = before + disk if job.stage is BUILD else after
        peaks[job.pool] = max(peaks.get(job.pool, 0.0), used)
    return {pool: round(peak, 1) for pool, peak in peaks.items()}


def waves_of(plan: Plan, shards: Iterable[Sequence[PlannedJob]]) -> Iterator[Wave]:
    """Shards in groups; each group is dispatched when the previous one has finished.

    While a job waits, every machine of its pool is busy, so no job waits longer than the group's work for that pool
    divided by its machines. A group is full when that time would exceed the limit's gate, or when the next shard takes
    a compiler seed from one in it.
    """
    machines, seeded = machine_counts(plan.spec), seeders(plan)
    gate = limit("queued-hours").gate * 3600
    group: list[Sequence[PlannedJob]] = []
    load = Counter[str]()
    before: set[tuple[str, str]] = set()
    for jobs in seeders_first(tuple(shards), seeded):
        own, keys = _work(jobs), {job.key for job in jobs}
        full = any(load[pool] + more > gate * machines[pool] for pool, more in own.items())
        if group and (full or before & taken(keys, seeded)):
            yield _wave(group, machines)
            group, load, before = [], Counter(), set()
        group.append(jobs)
        load += own
        before |= keys
    yield _wave(group, machines)


def _wave(group: Sequence[Sequence[PlannedJob]], machines: Mapping[str, int]) -> Wave:
    jobs: list[PlannedJob] = []
    for own in group:
        offset = len(jobs)
        jobs += [replace(job, needs=tuple(need + offset for need in job.needs)) for job in own] if offset else own
    return Wave(shards=tuple(own[0].shard for own in group), seconds=end_of(jobs, machines))


def _pull_requests(plan: Plan, history: History, machines: Mapping[str, int]) -> Iterator[SlowestRequest]:
    """For each branch, the pull request that rebuilds the whole branch; it publishes nothing."""
    for branch in plan.spec.branches:
        shards = [replace(shard, cells=in_request(plan.spec, shard)) for shard in plan.shards if shard.branch == branch]
        cells = [part for shard in shards for part in shard.cells]
        wanted = within_limit([part for part in cells if builds(plan.spec, PULL_REQUEST, part[0])], most_cells(plan))
        chosen = {(branch, variant.name) for cell, _ in wanted for variant in cell.variants}
        jobs = jobs_of(plan.spec, shards, chosen=chosen, recorded=history.seconds, publish=False)
        yield SlowestRequest(branch=branch, cells=tuple(cell for cell, _ in wanted), seconds=end_of(jobs, machines))
