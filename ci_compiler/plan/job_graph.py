"""The jobs that the compiled workflows run, with their dependencies, and the order in which to write them.

The stages of a variant run in order: build, tests with their suites, publish. Within a cell, a build waits for the
builds that it needs. Publishing waits for all cells of the shard that publish on the same pool, and publishes one
variant after the other; each counts as a job here. A build's duration is the
recorded one, else the spec's minutes. Those are for a builder with 32 cores: a builder with half the cores takes twice
as long, and one with more cores is faster until it has as many cores as the package has compile jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ci_compiler.hardware import CPU
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard, waits_for
from ci_compiler.plan.simulation import TimedJob, tails
from ci_compiler.plan.suites import bench_of, suites_of
from ci_compiler.spec.model import Package, Pool, Spec, in_build_order
from ci_compiler.spec.packages import BUILDER_CORES
from ci_compiler.stages import BUILD, PUBLISH, Stage, StageKind, stages
from ci_compiler.units import reached
from ci_compiler.variant import variant_name

Recorded = Mapping[tuple[str, str, str], int]
"""Durations of recorded builds and tests in seconds, by branch, variant name and stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(TimedJob):
    """A job of the compiled workflows: a stage of a variant, or a shard of a `suite` of the stage, in a cell."""

    shard: str
    cell: Cell
    variant: Variant
    stage: Stage
    suite: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The branch and the name of its variant."""
        return self.cell.branch, self.variant.name


def jobs_of(
    spec: Spec,
    shards: Iterable[Shard],
    *,
    chosen: Collection[tuple[str, str]] | None = None,
    recorded: Recorded | None = None,
    publish: bool = True,
    alone: bool = False,
) -> tuple[PlannedJob, ...]:
    """The jobs of a run of `shards`, in the order in which they are written.

    `chosen`: the variants to build, by branch and name; None for all. `alone`: as if variants did not share results,
    so that each one builds all the packages that it needs.
    """
    jobs = _Jobs(spec, recorded or {}, publish=publish, alone=alone)
    for shard in shards:
        needs = Needs(spec, [cell for cell, _ in shard.cells])
        every: dict[tuple[Cell, Variant], JobsByStage] = {}
        for cell, route in _needed_first(needs, shard.cells):
            built: dict[str, JobsByStage] = {}
            for variant in cell.variants:
                if chosen is None or (cell.branch, variant.name) in chosen:
                    packages = () if alone else built_after(spec, variant.package)
                    needed = [built[need] for need in packages if need in built]
                    others = () if alone else needs.of(cell, variant.package)
                    needed += [every[one] for one in others if one in every and one[0] != cell]
                    every[cell, variant] = built[variant.package] = jobs.add(shard, cell, route, variant, needed)
        jobs.publish()
    return tuple(jobs.jobs)


def _needed_first(needs: Needs, cells: Iterable[tuple[Cell, Route]]) -> Iterable[tuple[Cell, Route]]:
    """`cells` in their order, but each after those with variants that its own are built with."""
    routes, found, started = dict(cells), dict[Cell, Route](), set[Cell]()
    waiting = list(routes)[::-1]
    while waiting:
        cell = waiting[-1]
        before = () if cell in started else (other for other in needs.cells_before(cell) if other in routes)
        started.add(cell)
        if first := [one for one in before if one not in started]:
            waiting += first[::-1]
        else:
            found.setdefault(waiting.pop(), routes[cell])
    return found.items()


def guessed_of(spec: Spec, jobs: Iterable[PlannedJob], recorded: Recorded | None = None) -> tuple[str, ...]:
    """The packages whose minutes are a guess, and enter the durations of `jobs`."""
    known = recorded or {}
    builds = (job for job in jobs if job.stage is BUILD and (*job.key, BUILD.name) not in known)
    packages = dict.fromkeys(job.variant.package for job in builds)
    return tuple(name for name in packages if spec.is_guess("packages", name, "minutes"))


def needs_of(spec: Spec, package: str) -> tuple[str, ...]:
    """The packages that `package` needs in every cell, directly and transitively, each once."""
    return tuple(reached(spec.packages[package].needs, lambda name: spec.packages[name].needs))


def built_after(spec: Spec, package: str) -> tuple[str, ...]:
    """The packages that any edge of `package` leads to, directly and transitively, each once, without itself."""
    found = reached(spec.packages[package].built_after(), lambda name: spec.packages[name].built_after())
    return tuple(name for name in found if name != package)


def with_needs(spec: Spec, packages: Iterable[str]) -> list[Package]:
    """`packages` and what they need, in build order."""
    names = {held for package in packages for held in (package, *needs_of(spec, package))}
    return [package for package in in_build_order(spec.packages) if package.name in names]


JobsByStage = Mapping[Stage, tuple[int, ...]]
"""The indexes of the last jobs of each stage of a variant: the stage itself, or its suites."""


class _Jobs:
    """Collects jobs in order, each with its estimated duration."""

    def __init__(self, spec: Spec, recorded: Recorded, *, publish: bool, alone: bool) -> None:
        self.spec, self.recorded = spec, recorded
        self.jobs: list[PlannedJob] = []
        self.publishes = publish
        self.stages = [stage for stage in stages() if stage.kind is not StageKind.PUBLISH]
        self.waiting: dict[str, list[PlannedJob]] = {}
        self.joined: dict[tuple[str, str], tuple[int, ...]] = {}
        self.builds = {name: (name, *(needs_of(spec, name) if alone else ())) for name in spec.packages}
        self.first = {stage: waits_for(spec, stage) for stage in self.stages}
        unproved = (stage for stage in self.stages if not stage.proves)  # publishing waits for the job all the same
        self.last = tuple(dict.fromkeys((*waits_for(spec, PUBLISH), *unproved)))

    def add(
        self, shard: Shard, cell: Cell, route: Route, variant: Variant, needed: Sequence[JobsByStage]
    ) -> JobsByStage:
        """Adds the jobs of `variant`, and returns their indexes. `needed` are those of what the variant needs."""
        at: dict[Stage, tuple[int, ...]] = {}
        build = (cell.branch, cell.joined)
        for stage in self.stages:
            if stage is BUILD and build in self.joined:
                at[stage] = self.joined[build]
            elif stage in route.pools:
                others = [] if stage.is_test else [one.get(stage, ()) for one in needed]
                waits = [at.get(other, ()) for other in self.first[stage]]
                needs = tuple(sorted(chain(*waits, *others)))
                self.jobs.append(self._job(shard, cell, route.pools[stage], variant, stage, needs))
                at[stage] = self._add_suites(self.jobs[-1], route)
                if stage is BUILD and cell.joined:
                    self.joined[build] = at[stage]
        if self.publishes and PUBLISH in route.pools:
            needs = tuple(sorted(chain(*(at.get(other, ()) for other in self.last))))
            job = self._job(shard, cell, route.pools[PUBLISH], variant, PUBLISH, needs)
            self.waiting.setdefault(job.pool, []).append(job)
        return at

    def publish(self) -> None:
        """Adds the publishing of the variants added so far: one after the other on each pool, after all tests."""
        for waiting in self.waiting.values():
            needs = tuple(sorted({index for job in waiting for index in job.needs}))
            for job in waiting:
                self.jobs.append(replace(job, needs=needs))
                needs = (len(self.jobs) - 1,)
        self.waiting.clear()

    def _job(
        self, shard: Shard, cell: Cell, pool: Pool, variant: Variant, stage: Stage, needs: tuple[int, ...]
    ) -> PlannedJob:
        seconds = self._seconds(cell, variant, stage, pool)
        return PlannedJob(
            pool=pool.name, seconds=seconds, needs=needs, shard=shard.name, cell=cell, variant=variant, stage=stage
        )

    def _add_suites(self, test: PlannedJob, route: Route) -> tuple[int, ...]:
        """Adds the shards of the suites after `test`, the last job. Returns the indexes of the stage's last jobs."""
        last = len(self.jobs) - 1
        for suite in suites_of(self.spec, test.cell, test.variant):
            pool = route.suites.get(bench_of(suite))
            if pool and suite.stage is test.stage:
                job = replace(test, pool=pool.name, seconds=suite.minutes * 60, needs=(last,), suite=suite.name)
                self.jobs += [job] * suite.shards
        return tuple(range(last + 1, len(self.jobs))) or (last,)

    def _seconds(self, cell: Cell, variant: Variant, stage: Stage, pool: Pool) -> int:
        if stage.kind is not StageKind.BUILD:
            known = self.recorded.get((cell.branch, variant.name, stage.name)) if self.recorded else None
            return self.spec.stage_minutes[stage] * 60 if known is None else known
        return sum(self._build_seconds(cell, package, pool) for package in self.builds[variant.package])

    def _build_seconds(self, cell: Cell, package: str, pool: Pool) -> int:
        """The recorded duration, else the spec's minutes scaled to the compile jobs that the pool's cores allow."""
        if self.recorded:
            seconds = self.recorded.get((cell.branch, variant_name(package, cell.suffix), BUILD.name))
            if seconds is not None:
                return seconds
        return usual_seconds(self.spec.packages[package], cell, pool)


def usual_seconds(package: Package, cell: Cell, pool: Pool) -> int:
    """The duration of a build on `pool` by the minutes of the spec."""
    minutes = package.minutes["cpu" if cell.target == CPU else "gpu"]
    return minutes * 60 * min(BUILDER_CORES, package.jobs) // min(pool.cores, package.jobs)


# The order in which jobs are written.


def better_order(spec: Spec, shards: Iterable[Shard]) -> tuple[Shard, ...]:
    """`shards` and the cells in each, sorted so that those with the longest critical path come first.

    GitHub starts the job that has been ready for longest, so jobs that are written and dispatched first start first.
    Long jobs, and jobs that compete for few machines, then do not remain until the end. A cell's rank depends on that
    cell alone, and on the spec's minutes instead of recorded durations, so that adding or removing a cell does not
    change the order of the cells in other shards.
    """
    rank = _ranking(spec)
    return tuple(sorted(with_cells_ordered(spec, shards), key=lambda shard: rank(shard, shard.cells[0])))


def with_cells_ordered(spec: Spec, shards: Iterable[Shard]) -> tuple[Shard, ...]:
    """`shards` in their given order, with the cells in each in the better order: how their files are written."""
    rank = _ranking(spec)
    return tuple(
        replace(shard, cells=tuple(sorted(shard.cells, key=lambda part: rank(shard, part)))) for shard in shards
    )


def _ranking(spec: Spec) -> Callable[[Shard, tuple[Cell, Route]], tuple[int, float]]:
    """A function of a shard and one of its cells, whose rank is by its critical path; the highest sorts first.

    A rank is the longest chain of the cell, then its work divided by the machines that share it. Cells with the same
    packages and the same route share a rank.
    """
    machines = {pool.name: pool.count for pool in spec.pools}
    known: dict[tuple[int, bool, tuple[str, ...]], tuple[int, float]] = {}

    def rank(shard: Shard, part: tuple[Cell, Route]) -> tuple[int, float]:
        cell, route = part
        key = (id(route), cell.target == CPU, tuple(variant.package for variant in cell.variants))
        if key not in known:
            jobs = jobs_of(spec, [replace(shard, cells=(part,))])
            known[key] = (-max(tails(jobs)), -sum(job.seconds / machines[job.pool] for job in jobs))
        return known[key]

    return rank
