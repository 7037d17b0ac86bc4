"""Which pool runs which stage of which cell. The pool's hardware decides, never its name.

All packages of a cell share one route. Of the pools that fit, the least scarce is chosen: first pools without GPUs,
then pools whose GPU has exactly the architecture, then the others. Among equals, fewer GPUs, more machines and fewer
instruction sets win, and finally the order in the spec.

The build scripts that the spec puts into containers can run on Linux, on a machine with an engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, permutations

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.plan.matrix import Cell, applying, setting
from ci_compiler.plan.suites import Bench, benches_of
from ci_compiler.spec.axes import Accelerator
from ci_compiler.spec.model import Pool, RecipeKind, RunsOn, Spec
from ci_compiler.spec.triggers import PULL_REQUEST
from ci_compiler.stages import BUILD, PUBLISH, Axis, Stage, TestPolicy, stages

Needs = tuple[str, str, str, int, int, str, tuple[str, ...], tuple[Bench, ...]]
"""What decides a cell's route: system, GPU, ISA, the largest disk and memory (GB) that a build of the cell needs, the
pool that the spec names for it, the neighbours for the stages that take one, and the machines that its suites need."""


_FEW = 3
"""The most pools that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The pool of each stage of a cell. A stage that is not run is absent, with its reason in `skipped`.

    `neighbours` has the suffix of the neighbouring cell for each stage that takes another variant on the same machine.
    `suites` and `skipped_suites` are about the machines of test suites.
    """

    pools: Mapping[Stage, Pool]
    skipped: Mapping[Stage, str]
    neighbours: Mapping[Stage, str]
    suites: Mapping[Bench, Pool]
    skipped_suites: Mapping[Bench, str]

    def of_request(self, left_out: Collection[Stage]) -> Route:
        """The route in a pull request or a merge group, without `left_out` and the stages that these cannot run."""
        why = {stage: f"pull requests do not run {stage}" for stage in self._stages if not stage.in_requests}
        return self._without(self._profiled(PULL_REQUEST, left_out) | why)

    def in_profile(self, profile: str, left_out: Collection[Stage]) -> Route:
        """The route in a run of `profile`, which leaves out the tests `left_out`."""
        return self._without(self._profiled(profile, left_out))

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return (*self.pools, *self.skipped)

    def _profiled(self, profile: str, left_out: Collection[Stage]) -> dict[Stage, str]:
        return {stage: f"the profile {profile} leaves it out" for stage in self._stages if stage in left_out}

    def _without(self, why: dict[Stage, str]) -> Route:
        """The route without stages, each with its reason."""
        if not why:
            return self
        without = {bench: why[bench.stage] for bench in self.suites if bench.stage in why}
        return Route(
            pools={stage: pool for stage, pool in self.pools.items() if stage not in why},
            skipped=dict(self.skipped) | why,
            neighbours={stage: one for stage, one in self.neighbours.items() if stage not in why},
            suites={bench: pool for bench, pool in self.suites.items() if bench not in without},
            skipped_suites=dict(self.skipped_suites) | without,
        )


def route(spec: Spec, cells: tuple[Cell, ...]) -> tuple[tuple[Route, ...], tuple[Finding, ...]]:
    """The route of each of `cells`, in their order, and the errors and warnings about the routes."""
    router = _Router(spec, cells)
    routes = tuple(map(router.route, cells))
    distinct = tuple({id(route): route for route in routes}.values())
    building = [(cell, one.pools[BUILD]) for cell, one in zip(cells, routes, strict=True) if BUILD in one.pools]
    lacks = chain.from_iterable(map(_at_most_few, router.lacks.values()))
    unused = _unused_pools(spec, distinct)
    full = _overfull_builders(spec, zip(cells, routes, strict=True))
    shared = _shared_publishers(spec, distinct)
    return routes, (
        *lacks,
        *_stealing_pools(spec),
        *_misspelled(spec),
        *unused,
        *full,
        *container_findings(spec, building),
        *shared,
        *_without_a_cache(spec, distinct),
    )


class _Router:
    """Routes cell by cell. Cells with the same needs share one `Route`, and a missing pool is reported once."""

    def __init__(self, spec: Spec, cells: tuple[Cell, ...]) -> None:
        self.spec = spec
        self.runs = {pool.name: self._runs(pool) for pool in spec.pools}
        self.known: dict[Needs, Route] = {}
        self.lacks: dict[tuple[Stage, str], dict[str, Finding]] = {}
        self.pairing = [stage for stage in stages() if stage.neighbours and self._is_on(stage)]
        self.suffixes = {_key(cell, {}): cell.suffix for cell in cells if self.pairing}

    def _runs(self, pool: Pool) -> frozenset[str]:
        """The ISAs that the machines of `pool` run, with the baselines of the further platforms that they run."""
        hardware = self.spec.hardware
        return hardware.runs(pool.cpu, pool.system) | {hardware.systems[name].baseline for name in pool.runs}

    def route(self, cell: Cell) -> Route:
        packages = [self.spec.packages[variant.package] for variant in cell.variants]
        disk, memory = max(package.disk for package in packages), max(package.memory for package in packages)
        neighbours = {
            stage: next(filter(None, (self._neighbour(axis, cell) for axis in stage.neighbours)), "")
            for stage in self.pairing
        }
        suites = tuple(
            bench for bench in benches_of(self.spec, cell) if cell.target != CPU or not bench.stage.needs_gpu
        )
        near, pool = tuple(neighbours.values()), self._pool_of(cell)
        needs = (cell.system, cell.target, cell.isa, disk, memory, pool, near, suites)
        if needs not in self.known:
            made = self._new_route(cell, disk, memory, neighbours)
            self.known[needs] = self._with_suites(made, cell, suites)
        return self.known[needs]

    def _pool_of(self, cell: Cell) -> str:
        """The pool that the spec names for a listed variant, or by the setting `pool`; '' for any that fits."""
        listed = self.spec.packages[cell.variants[0].package].variants.get(cell.listed)
        return listed.pool if listed else setting(self.spec, "pool", cell)

    def _is_on(self, stage: Stage) -> bool:
        return self.spec.tests.get(stage) is not TestPolicy.NEVER

    def _neighbour(self, axis: Axis, cell: Cell) -> str:
        """The suffix of the nearest cell along `axis` whose code runs wherever that of `cell` runs; '' without one."""
        hardware = self.spec.hardware
        if axis is Axis.ISA and cell.value("isa"):
            smaller = hardware.runs([cell.isa]) - {cell.isa}
            near = [{"isa": isa} for isa in sorted(smaller, key=lambda isa: (-len(hardware.runs([isa])), isa))]
        elif axis is Axis.GPU and cell.value("target"):
            own = hardware.gpu(cell.target)
            older = [gpu for gpu in hardware.gpus.values() if gpu is not own and own.runs_code_of(gpu)]
            near = [{"target": gpu.name} for gpu in sorted(older, key=lambda gpu: gpu.capability, reverse=True)]
        else:
            near = []
        return next((found for other in near if (found := self.suffixes.get(_key(cell, other)))), "")

    def _new_route(self, cell: Cell, disk: int, memory: int, neighbours: Mapping[Stage, str]) -> Route:
        pools: dict[Stage, Pool] = {}
        skipped: dict[Stage, str] = {}
        for stage in stages():
            if stage.needs_gpu and cell.target == CPU:
                continue
            if not self._is_on(stage):
                if not stage.is_optional:
                    skipped[stage] = f"the spec switches {stage} off"
                continue
            fitting = self._fitting(stage, cell)
            if stage in self.spec.building:
                fitting = [pool for pool in fitting if pool.disk >= disk and pool.memory >= memory]
            if fitting:
                pools[stage] = self._least_scarce(fitting, cell)
            else:
                skipped[stage] = self._no_pool(stage, cell, disk, memory)
        beside = {stage: one for stage, one in neighbours.items() if one and stage in pools}
        return Route(pools=pools, skipped=skipped, neighbours=beside, suites={}, skipped_suites={})

    def _with_suites(self, route: Route, cell: Cell, suites: Sequence[Bench]) -> Route:
        """`route` with the pool of each machine that the suites of `cell` need, or the reason why there is none."""
        pools: dict[Bench, Pool] = {}
        skipped: dict[Bench, str] = {}
        for bench in suites:
            fitting = [pool for pool in self._fitting(bench.stage, cell) if _has(pool, bench)]
            if fitting:
                pools[bench] = self._least_scarce(fitting, cell)
            elif bench.target:
                skipped[bench] = f"no pool has {bench.gpus} GPU of {bench.target} that runs {cell.target}"
            else:
                skipped[bench] = route.skipped.get(bench.stage) or self._no_pool(bench.stage, cell, gpus=bench.gpus)
        return replace(route, suites=pools, skipped_suites=skipped) if suites else route

    def _fitting(self, stage: Stage, cell: Cell) -> list[Pool]:
        """The pools that run `stage` and have the hardware for `cell`. Where there is none, any publishes files."""
        pools = self._pools_for(stage, cell)
        fitting = [pool for pool in pools if self._fits(stage, cell, pool)]
        return pools if not fitting and stage is PUBLISH and self.spec.backend.uses_artifacts else fitting

    def _pools_for(self, stage: Stage, cell: Cell) -> list[Pool]:
        """The pools that run `stage`; of those, a listed variant takes its own alone, but others may publish it."""
        name, able = self._pool_of(cell), [pool for pool in self.spec.pools if stage in pool.stages]
        own = [pool for pool in able if pool.name == name]
        return own if own or (name and stage is not PUBLISH) else able

    def _least_scarce(self, pools: Sequence[Pool], cell: Cell) -> Pool:
        return min(pools, key=lambda pool: scarcity(self.spec.hardware, pool, cell.target))

    def _fits(self, stage: Stage, cell: Cell, pool: Pool) -> bool:
        if not self._builds(stage, cell, pool) or (stage.needs_isa and cell.isa not in self.runs[pool.name]):
            return False
        on_gpu = stage.runs_on_gpu(of_gpu=cell.target != CPU)
        return not on_gpu or runs_gpu(self.spec.hardware, pool, cell.target)

    def _builds(self, stage: Stage, cell: Cell, pool: Pool) -> bool:
        """Whether `pool` is of the cell's system, or also builds for it, or runs it."""
        others = pool.runs if stage.is_test else (*pool.runs, *pool.builds)
        return cell.system in {pool.system, *others}

    def _no_pool(self, stage: Stage, cell: Cell, disk: int = 0, memory: int = 0, *, gpus: int = 1) -> str:
        """The reason why no pool runs `stage`; also an error if the stage or the policy requires a pool."""
        name, pools = self._pool_of(cell), self._pools_for(stage, cell)
        alone = bool(name) and {pool.name for pool in pools} <= {name}
        who = f"{name}, the `pool` of {cell.variants[0].name}," if alone else f"no pool for {stage}"
        if alone and not pools:
            reason = f"{who} does not run {stage}"
        elif not any(pool.system == cell.system for pool in pools):
            reason = f"{who} is not for {cell.system}" if alone else f"{who} has {cell.system}{self._but(stage, cell)}"
        else:
            has = "a GPU that runs" if gpus == 1 else f"{gpus} GPUs that run"
            parts = [f"{has} {cell.target}"] if stage.runs_on_gpu(of_gpu=cell.target != CPU) else []
            parts += [f"a CPU that runs {cell.isa}"] if stage.needs_isa else []
            wanted = " beside ".join(parts) or f"{disk} GB of disk and {memory} GB of memory"
            if not parts:
                wanted += "".join(
                    f"; {pool.name}{pool.hosted and f' ({pool.hosted})'} has {_less(pool, disk, memory)}"
                    for pool in [pool for pool in pools if self._fits(stage, cell, pool) and _less(pool, disk, memory)][
                        :_FEW
                    ]
                )
            reason = f"{who} lacks what {stage} needs: {wanted}" if alone else f"{who} on {cell.system} has {wanted}"
        at = ("packages", cell.variants[0].package, "variants", cell.listed, "pool") if alone else ("runners",)
        return self._report(stage, cell, reason, at)

    def _but(self, stage: Stage, cell: Cell) -> str:
        """The clause about the pools that have what `cell` needs, and do not count since they do not run `stage`."""
        others = [pool for pool in self.spec.pools if stage not in pool.stages and self._fits(stage, cell, pool)]
        runs = (f"{pool.name} runs only {' and '.join(map(str, pool.stages))} there" for pool in others[:_FEW])
        return f": {'; '.join(runs)}; add {stage} to its `stages`, or a pool for it" if others else ""

    def _report(self, stage: Stage, cell: Cell, reason: str, at: tuple[str, ...]) -> str:
        if self.spec.tests.get(stage) in {None, TestPolicy.REQUIRED}:
            whose = f"{cell.variants[0].name} on {cell.branch}"
            finding = self.spec.finding(at, Code.NO_POOL, f"{reason} ({whose})", key=True)
            self.lacks.setdefault((stage, cell.system), {}).setdefault(reason, finding)
        return reason


def _at_most_few(found: Mapping[str, Finding]) -> Iterator[Finding]:
    """The first of the findings about one stage and system, of which the last says how many follow it."""
    first, rest = [*found.values()][:_FEW], len(found) - _FEW
    yield from first[:-1]
    yield replace(first[-1], message=f"{first[-1].message}, and {rest} more") if rest > 0 else first[-1]


def _key(cell: Cell, other: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """The values of the cell that has those of `other`, and else those of `cell`."""
    return frozenset({**cell.axes, **other}.items())


def _less(pool: Pool, disk: int, memory: int) -> str:
    """What `pool` has less of than these."""
    parts = [f"{pool.disk} GB of disk"] if pool.disk < disk else []
    parts += [f"{pool.memory} GB of memory"] if pool.memory < memory else []
    return " and ".join(parts)


def runs_gpu(hardware: Hardware, pool: Pool, gpu: str) -> bool:
    """Whether `pool` has a GPU that runs code built for the architecture `gpu`."""
    return bool(pool.gpu) and hardware.gpu(pool.gpu).runs_code_of(hardware.gpu(gpu))


def scarcity(hardware: Hardware, pool: Pool, gpu: str = CPU) -> tuple[bool, bool, int, int, int]:
    """The sort key of pools: has a GPU, not `gpu` itself, more GPUs, fewer machines, more instruction sets."""
    isas = len(hardware.runs(pool.cpu, pool.system))
    return (bool(pool.gpu), gpu not in {CPU, pool.gpu}, pool.gpus, -pool.count, isas)


def _stealing_pools(spec: Spec) -> Iterator[Finding]:
    """An error for each pool whose jobs GitHub may also assign to machines of another pool."""
    for pool, other in permutations(spec.pools, 2):
        if _serves(spec.hardware, other, pool.runs_on):
            message = (
                f"jobs for {pool.name} would run on {other.name} as well, whose machines bear all of its labels; "
                f"give {pool.name} a label that {other.name} lacks"
            )
            yield spec.finding(("runners", pool.name, "runs-on"), Code.POOL_STEALS, message)


def _misspelled(spec: Spec) -> Iterator[Finding]:
    """A warning for each label that is a letter away from one of GitHub's own, which no runner then has."""
    systems = spec.hardware.systems.values()
    known = {label.lower(): label for system in systems for label in ("self-hosted", system.os, system.label)}
    for pool in spec.pools:
        for label in () if pool.hosted else pool.runs_on.labels:
            near = next((name for name in known if _one_slip(label.lower(), name)), "")
            if near and label.lower() not in known:
                message = f"{label!r} of {pool.name} is no label of GitHub's; did you mean {known[near]}?"
                yield spec.finding(("runners", pool.name, "runs-on"), Code.MISSPELLED_LABEL, message)


def _one_slip(word: str, other: str) -> bool:
    """Whether two words with the same digits differ by one letter, or by two that changed places."""
    less, more = ({one, *(one[:at] + one[at + 1 :] for at in range(len(one)))} for one in (word, other))
    return bool(less & more) and [*filter(str.isdigit, word)] == [*filter(str.isdigit, other)]


def labels_of(hardware: Hardware, pool: Pool) -> tuple[str, ...]:
    """The labels of a runner of `pool`: the pool's, and GitHub's default ones, which JIT runners do not get."""
    if pool.hosted:
        return (pool.hosted,)
    system = hardware.systems[pool.system]
    own = ("self-hosted", system.os, system.label)
    taken = {label.lower() for label in pool.runs_on.labels}
    return (*(label for label in own if label.lower() not in taken), *pool.runs_on.labels)


def _serves(hardware: Hardware, pool: Pool, job: RunsOn) -> bool:
    """Whether the machines of `pool` take a job whose `runs-on` is `job`. Labels ignore case."""
    machines = pool.runs_on
    if machines.scale_set or job.scale_set:
        return machines.scale_set == job.scale_set
    in_group = not job.group or job.group.lower() == machines.group.lower()
    borne = {label.lower() for label in labels_of(hardware, pool)}
    return in_group and {label.lower() for label in job.labels} <= borne


def _shared_publishers(spec: Spec, routes: Iterable[Route]) -> Iterator[Finding]:
    """An error for each pool that publishes and also builds or tests, unless the spec allows it."""
    if spec.publish.on_shared_machines:
        return
    publishers = {pool.name: pool for route in routes if (pool := route.pools.get(PUBLISH))}
    for pool in publishers.values():
        others = " and ".join(stage.name for stage in pool.stages if stage is not PUBLISH)
        if others:
            message = (
                f"{pool.name} publishes, and runs {others} as well: code that runs there may take the publishing "
                f"secret; give publishing a pool of its own (`stages: [{PUBLISH}]`) and leave it out of this one, or "
                "accept this with `publish: {on-shared-machines: true}`"
            )
            yield spec.finding(("runners", pool.name), Code.PUBLISH_SHARES_POOL, message, key=True)


def _without_a_cache(spec: Spec, routes: tuple[Route, ...]) -> Iterator[Finding]:
    """Findings about stages that need a binary cache if the spec has none."""
    if spec.cache is not None or spec.backend.uses_artifacts:
        return
    if spec.backend.publishes_into_cache:
        message = f"backend {spec.backend} publishes into a binary cache: without a `cache` publishing fails"
        yield spec.finding(("backend",), Code.NO_CACHE, message)
        return
    for route in routes:
        build = route.pools.get(BUILD)
        users = (*route.pools.values(), *route.suites.values())
        other = next((pool for pool in users if build and pool.name != build.name), None)
        if build and other:
            message = (
                f"what {build.name} builds, {other.name} tests or publishes: without a `cache` to bring it there, "
                "this fails where they share no store"
            )
            yield spec.finding(("runners", other.name), Code.NO_CACHE, message, key=True)
            return


def _overfull_builders(spec: Spec, routed: Iterable[tuple[Cell, Route]]) -> Iterator[Finding]:
    """A warning for each package whose compilers take more memory than a pool has that builds it."""
    building = (
        (variant.package, route.pools[BUILD])
        for cell, route in routed
        if BUILD in route.pools
        for variant in cell.variants
        if spec.packages[variant.package].kind_of(variant.name) is not RecipeKind.OWN
    )
    for name, pool in {(name, pool.name): (name, pool) for name, pool in building}.values():
        package = spec.packages[name]
        compilers = min(package.jobs, pool.cores)
        needed = compilers * package.memory_per_job
        if needed > pool.memory:
            message = (
                f"{compilers} compilers of {name} take {needed} GB of memory ({package.memory_per_job} GB each), and "
                f"{pool.name} has {pool.memory}; give {name} `jobs: {max(1, pool.memory // package.memory_per_job)}`, "
                f"or {pool.name} machines with {needed} GB"
            )
            yield spec.finding(("packages", name, "jobs"), Code.JOBS_EXCEED_MEMORY, message)


def _unused_pools(spec: Spec, routes: tuple[Route, ...]) -> Iterator[Finding]:
    used = {pool.name for route in routes for pool in (*route.pools.values(), *route.suites.values())}
    for pool in spec.pools:
        if pool.name not in used:
            gpu = "accelerator" if pool.accelerator else "gpu"
            message = (
                f"no job goes to {pool.name}; remove it, or compare its `cpu`, `{gpu}` and `stages` with the variants "
                "(`ci-compile explain NAME` shows the pools of a variant)"
            )
            yield spec.finding(("runners", pool.name), Code.UNUSED_POOL, message, key=True)


def _has(pool: Pool, bench: Bench) -> bool:
    """Whether the machines of `pool` have the GPUs that `bench` asks for."""
    target = Accelerator.parse(pool.accelerator).target if pool.accelerator else pool.gpu
    return pool.gpus >= bench.gpus and bench.target in {"", target}


def container_findings(spec: Spec, building: Iterable[tuple[Cell, Pool]]) -> Iterator[Finding]:
    """An error for each package whose build script cannot run in its container on a pool that builds it.

    A machine that is a container itself has no engine. With the engine of its host, a job could become root there.
    """
    found: dict[tuple[str, str], str] = {}
    for cell, pool in building:
        for variant in cell.variants:
            command = spec.packages[variant.package].command
            if command and applying(command.container, cell) and (why := _why_not(spec, pool)):
                found.setdefault((variant.package, pool.name), why)
    for (package, name), why in found.items():
        message = f"the build script of {package} cannot run in a container on {name}, {why}"
        path = ("packages", package, "command", "container")
        yield spec.finding(path, Code.CONTAINER_UNUSABLE, message, key=True)


def _why_not(spec: Spec, pool: Pool) -> str:
    if not pool.system.endswith("-linux"):
        return f"whose machines are {pool.system}; give it a `when` for the platforms of Linux"
    if ("runners", pool.name, "image") in spec.document.values:
        return "whose runners are containers of `image`; put what the build needs into that image"
    return ""
