"""What is built of a fork's pull request: one job per cell, on a machine for untrusted code, or why it is left out.

Nothing of such a job reaches another machine. So it builds all that its variants need, unless everybody may fetch that
from the cache, and it tests what it built itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from ci_compiler.plan.job_graph import guessed_of, jobs_of, needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pause import words_of_jobs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route, routes_of_forks
from ci_compiler.plan.selection import within_limit
from ci_compiler.plan.sharding import cell_packages, stages_of
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.spec.triggers import PULL_REQUEST
from ci_compiler.stages import BUILD, Stage
from ci_compiler.variant import variant_name

_LONGEST = 5 * 24 * 60
"""The minutes after which GitHub ends any job of a self-hosted machine (GitHub Docs, "Actions limits")."""


class ForkLeg(NamedTuple):
    """A cell that is built of a fork: the variants to test, and all that are built for them, in build order.

    `cells` are also the others that the same build makes.
    """

    cells: tuple[Cell, ...]
    route: Route
    chosen: tuple[str, ...]
    built: tuple[str, ...]

    @property
    def cell(self) -> Cell:
        """The first of its cells."""
        return self.cells[0]

    @property
    def title(self) -> str:
        """The name of its job, by which its result is found."""
        return f"{self.cell.branch} {self.cell.key}"

    @property
    def pool(self) -> Pool:
        """The pool that builds and tests it."""
        return self.route.pools[BUILD]

    @property
    def tests(self) -> tuple[Stage, ...]:
        """The stages that its machine runs after the build."""
        return tuple(stage for stage in self.route.pools if stage.is_test)


class ForkSelection(NamedTuple):
    """What is built, what is left out (the number of variants by the reason), and the forecast in seconds.

    `work` is the work of all machines, `end` when the last job ends if nothing else runs. `guessed` are the packages
    whose minutes in these are a guess.
    """

    legs: tuple[ForkLeg, ...] = ()
    left: tuple[tuple[str, int], ...] = ()
    work: int = 0
    end: int = 0
    guessed: tuple[str, ...] = ()

    @property
    def variants(self) -> int:
        """The number of variants that are built and tested."""
        return sum(len(leg.chosen) for leg in self.legs)


def fork_stages(spec: Spec) -> tuple[Stage, ...]:
    """The tests that a job for a fork may run: those of pull requests that need no other variant beside theirs."""
    tests = (stage for stage in stages_of(spec) if stage.is_test)
    return tuple(stage for stage in tests if stage.in_requests and not stage.neighbours)


def fork_minutes(spec: Spec) -> int:
    """The minutes after which GitHub ends the job of a cell, which builds and tests one variant after the other."""
    each = sum(spec.timeouts[stage] for stage in (BUILD, *fork_stages(spec)))
    return min(_LONGEST, each * max(1, len(cell_packages(spec))) * _most_joined(spec))


def _most_joined(spec: Spec) -> int:
    """The most variants of a package that one build makes: one for each value of the axes that it joins."""
    sizes = {name: len(row.values) for name, row in spec.axes.items()} | {"python": len(spec.pythons)}
    joined = ({axis for row in package.joins for axis in row.axes} for package in spec.packages.values())
    return max(prod(max(1, sizes.get(axis, 1)) for axis in axes) for axes in joined)


def of_fork(plan: Plan, branch: str, rebuilt: Collection[str], paused: str) -> ForkSelection:
    """What is built of the `rebuilt` variants of `branch`. `paused` is the value of the variable of pauses."""
    builds: dict[str, tuple[Cell, ...]] = {}
    for cell in (cell for shard in plan.shards if shard.branch == branch for cell, _ in shard.cells):
        builds[cell.key] = (*builds.get(cell.key, ()), cell)
    rebuilds = {cells[0]: names for cells in builds.values() if (names := _among(cells, rebuilt))}
    routes = routes_of_forks(plan.spec, tuple(rebuilds))
    words = set(paused.lower().split())
    able: list[tuple[Cell, Route]] = []
    left: dict[str, int] = {}
    for cell, names in rebuilds.items():
        route = routes.get(cell)
        if why := _why_not(route, branch, words):
            left[why] = left.get(why, 0) + len(names)
        elif route:
            able.append((cell, route))
    most = plan.spec.pull_request.cells
    kept = within_limit(able, most)
    over = sum(len(rebuilds[cell]) for cell, _ in able) - sum(len(rebuilds[cell]) for cell, _ in kept)
    if over:
        left[f"a pull request builds at most {most} cells (`pull-request.cells`)"] = over
    legs = tuple(_leg(plan.spec, builds[cell.key], route, rebuilds[cell]) for cell, route in kept)
    for why, count in _untested(plan, legs):
        left[why] = left.get(why, 0) + count
    return ForkSelection(legs=legs, left=tuple(left.items()), **_cost(plan, branch, legs))


def _among(cells: Iterable[Cell], names: Collection[str]) -> tuple[str, ...]:
    return tuple(variant.name for cell in cells for variant in cell.variants if variant.name in names)


def _why_not(route: Route | None, branch: str, paused: set[str]) -> str:
    """Why a cell with this route is left out; '' if it is not."""
    if route is None:
        return "no pool for untrusted code builds them"
    words = words_of_jobs([(branch, route.pools[BUILD].name)])
    return "builds are paused (`ci-compile resume`)" if paused & {word.lower() for word in words} else ""


def _leg(spec: Spec, cells: tuple[Cell, ...], route: Route, chosen: tuple[str, ...]) -> ForkLeg:
    """The leg of the build of `cells`, whose machine also builds what `chosen` need if it cannot be fetched."""
    wanted, cell = set(chosen), cells[0]
    by_name = {variant.name: variant.package for one in cells for variant in one.variants}
    if cell.joined:
        wanted = set(by_name)
    elif not (spec.cache and spec.cache.public):
        wanted |= {variant_name(need, cell.suffix) for name in chosen for need in needs_of(spec, by_name[name])}
    built = _among(cells, wanted)
    stages = fork_stages(spec)
    pools = {stage: pool for stage, pool in route.pools.items() if stage is BUILD or stage in stages}
    return ForkLeg(cells=cells, route=replace(route, pools=pools, suites={}), chosen=chosen, built=built)


def _untested(plan: Plan, legs: Iterable[ForkLeg]) -> Iterator[tuple[str, int]]:
    """What other pull requests test of the cells and these do not: why, and the number of variants."""
    left_out = plan.spec.profiles.left_out(PULL_REQUEST)
    usual = {cell: route.of_request(left_out) for shard in plan.shards for cell, route in shard.cells}
    for leg in legs:
        for stage in usual[leg.cell].pools:
            if stage.is_test and stage not in leg.tests:
                yield f"without {stage}, because no pool for untrusted code runs it after their build", len(leg.chosen)
        if usual[leg.cell].suites:
            yield "without their test suites, which builds of forks do not run", len(leg.chosen)


def _cost(plan: Plan, branch: str, legs: Sequence[ForkLeg]) -> dict[str, Any]:
    """The forecast of `legs`: each job builds and tests one variant after the other."""
    by_cell = {cell: leg for leg in legs for cell in leg.cells}
    shards = [
        replace(shard, cells=tuple((cell, by_cell[cell].route) for cell, _ in shard.cells if cell in by_cell))
        for shard in plan.shards
        if shard.branch == branch
    ]
    chosen = {(branch, name) for leg in legs for name in leg.built}
    jobs = jobs_of(plan.spec, [shard for shard in shards if shard.cells], chosen=chosen, publish=False)
    seconds: dict[Cell, int] = {}
    for job in jobs:
        seconds[job.cell] = seconds.get(job.cell, 0) + job.seconds
    end = max(_ends(legs, seconds), default=0)
    return {"work": sum(seconds.values()), "end": end, "guessed": guessed_of(plan.spec, jobs)}


def _ends(legs: Iterable[ForkLeg], seconds: dict[Cell, int]) -> Iterator[int]:
    """When each machine is done, where the machine that is free first takes the next job."""
    machines: dict[str, list[int]] = {}
    for leg in legs:
        busy = machines.setdefault(leg.pool.name, [0] * leg.pool.count)
        first = busy.index(min(busy))
        busy[first] += sum(seconds.get(cell, 0) for cell in leg.cells)
        yield busy[first]
