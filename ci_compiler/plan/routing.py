"""Which pool runs which stage of which cell: by what the pool has, never by what it is called.

All packages of a cell go the same way, so that a closure finds its tester and a test its hardware without a copy per
package. Of the pools that fit, the least scarce wins: one without a GPU before one with, a GPU of exactly the SM before
one that merely runs its cubin, many machines before few, few instruction sets before many, then the spec's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import TESTS, Backend, Pool, RunsOn, Spec, Stage, TestPolicy

Needs = tuple[str, str, str, int, int]
"""What decides a cell's way: system, GPU, ISA, and the most disk and memory (GB) that a package's build takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The pool of each stage of a cell. A stage that is not run is absent, with its reason in `skipped`."""

    pools: Mapping[Stage, Pool]
    skipped: Mapping[Stage, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A route for every cell, in the cells' order, and what was wrong or odd on the way."""

    routes: tuple[Route, ...]
    findings: tuple[Finding, ...]


def route(spec: Spec, cells: tuple[Cell, ...]) -> Routed:
    """The route of each of `cells`."""
    router = _Router(spec)
    routes = tuple(map(router.route, cells))
    findings = [
        *router.lacks.values(), *_stealing_pools(spec), *_unused_pools(spec, routes), *_without_a_cache(spec, routes)
    ]  # fmt: skip
    return Routed(routes=routes, findings=tuple(findings))


class _Router:
    """Routes cell by cell; cells of the same needs share one `Route`, and a lack is told once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.runs = {pool.name: spec.hardware.runs(pool.cpu) for pool in spec.pools}
        self.known: dict[Needs, Route] = {}
        self.lacks: dict[str, Finding] = {}
        self.needs = {name: (package.disk, package.memory) for name, package in spec.packages.items()}

    def route(self, cell: Cell) -> Route:
        disk = max(self.needs[variant.package][0] for variant in cell.variants)
        memory = max(self.needs[variant.package][1] for variant in cell.variants)
        needs = (cell.system, cell.gpu, cell.isa, disk, memory)
        if needs not in self.known:
            self.known[needs] = self._new_route(cell, disk, memory)
        return self.known[needs]

    def _new_route(self, cell: Cell, disk: int, memory: int) -> Route:
        pools: dict[Stage, Pool] = {}
        skipped: dict[Stage, str] = {}
        for stage in Stage:
            if stage is Stage.GPU_TEST and cell.gpu == CPU:
                continue
            if self.spec.tests.get(stage) is TestPolicy.NEVER:
                skipped[stage] = f"the spec switches {stage} off"
                continue
            fitting = [pool for pool in self.spec.pools if stage in pool.stages and self._fits(stage, cell, pool)]
            if stage not in TESTS:
                fitting = [pool for pool in fitting if pool.disk >= disk and pool.memory >= memory]
            if fitting:
                pools[stage] = min(fitting, key=lambda pool: scarcity(self.spec.hardware, pool, cell.gpu))
            else:
                skipped[stage] = self._lack(stage, cell, disk, memory)
        return Route(pools=pools, skipped=skipped)

    def _fits(self, stage: Stage, cell: Cell, pool: Pool) -> bool:
        if pool.system != cell.system:
            return False
        if stage not in TESTS:
            return True
        if cell.isa not in self.runs[pool.name]:
            return False
        return stage is Stage.CPU_TEST or runs_gpu(self.spec.hardware, pool, cell.gpu)

    def _lack(self, stage: Stage, cell: Cell, disk: int, memory: int) -> str:
        """Why no pool runs `stage`, for people; an error where the stage or the policy cannot do without."""
        if not any(pool.system == cell.system and stage in pool.stages for pool in self.spec.pools):
            return self._told(stage, cell, f"no pool for {stage} has {cell.system}")
        wanted = {
            Stage.CPU_TEST: f"a CPU that runs {cell.isa}",
            Stage.GPU_TEST: f"a GPU that runs {cell.gpu} beside a CPU that runs {cell.isa}",
        }.get(stage, f"{disk} GB of disk and {memory} GB of memory")
        return self._told(stage, cell, f"no pool for {stage} on {cell.system} has {wanted}")

    def _told(self, stage: Stage, cell: Cell, reason: str) -> str:
        if self.spec.tests.get(stage) in {None, TestPolicy.REQUIRED}:
            whose = f"{cell.variants[0].name} on {cell.branch}"
            finding = self.spec.finding(("runners",), _NO_POOL[stage], f"{reason} ({whose})", key=True)
            self.lacks.setdefault(reason, finding)
        return reason


_NO_POOL = {
    Stage.BUILD: Code.NO_POOL_FOR_BUILD,
    Stage.CPU_TEST: Code.NO_POOL_FOR_CPU_TEST,
    Stage.GPU_TEST: Code.NO_POOL_FOR_GPU_TEST,
    Stage.PUBLISH: Code.NO_POOL_FOR_PUBLISH,
}
"""The finding for each stage that no pool runs."""


def runs_gpu(hardware: Hardware, pool: Pool, gpu: str) -> bool:
    """Whether `pool` has a GPU that runs a cubin built for the architecture `gpu`."""
    return bool(pool.gpu) and hardware.gpu(pool.gpu).runs_cubin_of(hardware.gpu(gpu))


def scarcity(hardware: Hardware, pool: Pool, gpu: str = CPU) -> tuple[bool, bool, int, int]:
    """The order in which pools are taken: has a GPU, another GPU than `gpu`, fewer machines, more instruction sets."""
    return (bool(pool.gpu), gpu not in {CPU, pool.gpu}, -pool.count, len(hardware.runs(pool.cpu)))


def _label_set(runs_on: RunsOn) -> frozenset[str]:
    return frozenset(label.lower() for label in runs_on.labels)


def _stealing_pools(spec: Spec) -> Iterator[Finding]:
    """Pools whose jobs GitHub would hand to another pool's machines as well (labels are case-insensitive)."""
    for pool, other in permutations(spec.pools, 2):
        if _serves(other.runs_on, pool.runs_on):
            message = (
                f"jobs for {pool.name} would run on {other.name} as well, whose machines bear all of its labels; "
                f"give {pool.name} a label that {other.name} lacks"
            )
            yield spec.finding(("runners", pool.name, "runs-on"), Code.POOL_STEALS, message)


def _serves(machines: RunsOn, job: RunsOn) -> bool:
    """Whether machines that are addressed by `machines` take a job that asks for `job`."""
    if machines.scale_set or job.scale_set:
        return machines.scale_set == job.scale_set
    in_group = not job.group or job.group.lower() == machines.group.lower()
    return in_group and _label_set(job) <= _label_set(machines)


def _without_a_cache(spec: Spec, routes: tuple[Route, ...]) -> Iterator[Finding]:
    """What needs a binary cache that the spec does not name."""
    if spec.cache is not None:
        return
    if spec.backend is Backend.NIX:
        message = "backend nix publishes into a binary cache: without a `cache` publishing fails"
        yield spec.finding(("backend",), Code.NO_CACHE, message)
        return
    for pools in {id(route): route.pools for route in routes}.values():
        build = pools.get(Stage.BUILD)
        other = next((pool for pool in pools.values() if build and pool.name != build.name), None)
        if build and other:
            message = (
                f"what {build.name} builds, {other.name} tests or publishes: without a `cache` to bring it there, "
                "this fails where they share no store"
            )
            yield spec.finding(("runners", other.name), Code.NO_CACHE, message, key=True)
            return


def _unused_pools(spec: Spec, routes: tuple[Route, ...]) -> Iterator[Finding]:
    used = {pool.name for known in {id(route): route for route in routes}.values() for pool in known.pools.values()}
    for pool in spec.pools:
        if pool.name not in used:
            yield spec.finding(("runners", pool.name), Code.UNUSED_POOL, f"no job goes to {pool.name}", key=True)
