"""The jobs of test suites: one job of a variant for each kind of machine, with a leg for each shard of a suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Package, Spec
from ci_compiler.spec.suites import Suite
from ci_compiler.stages import Stage


class Bench(NamedTuple):
    """The machines that some suites need: those of a test stage, with `gpus` GPUs or more, of `target` if given."""

    stage: Stage
    gpus: int
    target: str = ""

    @property
    def job(self) -> str:
        """The id of the job in `variant.yml`, and of the input with its legs: `gpu-test-suites`."""
        return "-".join([self.stage.name, "suites", *self._wide])

    def job_of(self, package: str) -> str:
        """The id of the job in `cell.yml`."""
        return f"{package}_{self.job}"

    @property
    def machine(self) -> str:
        """What the input with its machine is named after. One GPU is what every machine of the stage has."""
        return "-".join([self.stage.name, *self._wide])

    @property
    def title(self) -> str:
        """The name of the job, to which GitHub adds the suite and the shard."""
        several = f"{self.gpus} GPUs" if self.gpus > 1 else ""
        where = " of ".join(filter(None, (several, self.target)))
        return f"{self.stage} suites{f' on {where}' if where else ''}"

    @property
    def is_own(self) -> bool:
        """Whether its machines need not be those of the stage."""
        return bool(self._wide)

    @property
    def _wide(self) -> tuple[str, ...]:
        word = re.sub(r"[^A-Za-z0-9]+", "_", self.target)
        return (*([str(self.gpus)] if self.gpus > 1 else []), *filter(None, [word]))


def bench_of(suite: Suite) -> Bench:
    """What `suite` needs."""
    return Bench(suite.stage, suite.gpus, suite.target)


def has_rows(packages: Iterable[Package]) -> bool:
    """Whether a suite of `packages` runs for some of the variants only."""
    return any(suite.installs is not None for package in packages for suite in package.suites.values())


def suites_of(spec: Spec, cell: Cell, variant: Variant) -> list[Suite]:
    """The suites that run for `variant` of `cell`."""
    suites = spec.packages[variant.package].suites.values()
    return [suite for suite in suites if suite.runs_for(cell.branch, variant.name)]


def benches_of(spec: Spec, cell: Cell) -> tuple[Bench, ...]:
    """What the suites of the variants of `cell` need, each once."""
    return tuple(
        dict.fromkeys(bench_of(suite) for variant in cell.variants for suite in suites_of(spec, cell, variant))
    )


def benches(packages: Iterable[Package]) -> tuple[Bench, ...]:
    """What the suites of `packages` need, each once."""
    return tuple(dict.fromkeys(bench_of(suite) for package in packages for suite in package.suites.values()))


def joined_packages(spec: Spec) -> tuple[Package, ...]:
    """The packages whose variants a build may make together with others."""
    leaders = {row.package for package in spec.packages.values() for row in package.joins}
    return tuple(package for name, package in spec.packages.items() if package.joins or name in leaders)


def legs(suites: Iterable[Suite], bench: Bench) -> list[dict[str, str]]:
    """Those of `suites` that run on `bench`, shard by shard: the matrix of the job."""
    return [
        {"suite": suite.name, "shard": f"{shard}/{suite.shards}"}
        for suite in suites
        if bench_of(suite) == bench
        for shard in range(1, suite.shards + 1)
    ]


def joined_legs(spec: Spec, cells: Iterable[Cell], bench: Bench) -> list[dict[str, str]]:
    """The suites that run on `bench` for the variants of `cells`, which one build makes, as `legs` with their names."""
    return [
        {"name": variant.name, **leg}
        for cell in cells
        for variant in cell.variants
        for leg in legs(suites_of(spec, cell, variant), bench)
    ]


def suite_jobs(spec: Spec) -> Callable[[Cell], int]:
    """Counts the jobs that suites add to a cell of one variant: a skipped one where there are no suites."""
    every = benches(filter(spec.lists, spec.packages.values()))

    def count(cell: Cell) -> int:
        suites = suites_of(spec, cell, cell.variants[0]) if every else []
        return sum(max(1, len(legs(suites, bench))) for bench in every)

    return count


def longest_minutes(spec: Spec, bench: Bench) -> int:
    """Minutes after which GitHub ends a job of `bench`: those of its longest suite, and those of the stage before it.

    The job's own steps before the suite do what the stage does, and have the same time.
    """
    suites = [suite for package in spec.packages.values() for suite in package.suites.values()]
    return spec.timeouts[bench.stage] + max(suite.minutes for suite in suites if bench_of(suite) == bench)
