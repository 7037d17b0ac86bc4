"""The jobs of test suites: one job of a variant for each kind of machine, with a leg for each shard of a suite."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import serves
from ci_compiler.spec.axes import AXES, PARTS
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


def benches(packages: Iterable[Package], left_out: Collection[tuple[str, str]] = ()) -> tuple[Bench, ...]:
    """What the suites of `packages` need, each once, without those that are `left_out`."""
    return tuple(dict.fromkeys(bench_of(one) for package in packages for one in suites_of(package, left_out)))


def suites_of(package: Package, left_out: Collection[tuple[str, str]] = ()) -> Iterator[Suite]:
    """The suites of `package` but those that are `left_out`, by package and name."""
    return (suite for suite in package.suites.values() if (package.name, suite.name) not in left_out)


def wanted_axes(spec: Spec, suite: Suite) -> dict[str, str]:
    """The values of the row of `suite` on axes of variants: it runs for the variants that have or serve them."""
    known = {*AXES, *PARTS, *spec.axes} - {"accelerator"}
    return {axis: value for axis, value in suite.values.items() if axis in known}


def not_served(spec: Spec, cell: Cell) -> frozenset[tuple[str, str]]:
    """The suites of the packages in `cell` that do not run for it, by package and name."""
    suites = [(one.package, suite) for one in cell.variants for suite in spec.packages[one.package].suites.values()]
    wanted = [(package, suite.name, wanted_axes(spec, suite)) for package, suite in suites if suite.matrix]
    own = cell.conditions if any(axes for _, _, axes in wanted) else {}
    return frozenset(
        (package, name)
        for package, name, axes in wanted
        if not all(serves(spec, axis, own.get(axis, ""), value) for axis, value in axes.items())
    )


def suite_findings(spec: Spec, cells: Collection[Cell]) -> Iterator[Finding]:
    """An error for each row of a suite that no variant serves, or whose variants are not in files of their own."""
    for package in spec.packages.values():
        rows = [(suite, axes) for suite in package.suites.values() if (axes := wanted_axes(spec, suite))]
        own = [cell for cell in cells if any(one.package == package.name for one in cell.variants)] if rows else []
        for suite, axes in rows:
            path = ("packages", package.name, "suites")
            asked = " and ".join(f"{axis} {value}" for axis, value in axes.items())
            if not all(cell.called for cell in own):
                message = f"suite {suite.name} of {package.name} has a row for {asked}, which takes an open `matrix`"
                yield spec.finding(path, Code.WRONG_TEST, message, key=True)
            elif all((package.name, suite.name) in not_served(spec, cell) for cell in own):
                built = {axis: sorted({cell.conditions.get(axis, "") for cell in own} - {""}) for axis in axes}
                there = "; ".join(f"{axis} {', '.join(values)}" for axis, values in built.items())
                message = f"suite {suite.name} asks for {asked}, which no variant of {package.name} serves: {there}"
                yield spec.finding(path, Code.NEEDS_MISSING_VARIANT, message, key=True)


def legs(suites: Iterable[Suite], bench: Bench) -> list[dict[str, str]]:
    """Those of `suites` that run on `bench`, shard by shard: the matrix of the job."""
    return [
        {"suite": suite.name, "shard": f"{shard}/{suite.shards}"}
        for suite in suites
        if bench_of(suite) == bench
        for shard in range(1, suite.shards + 1)
    ]


def suite_jobs(spec: Spec) -> dict[str, int]:
    """The number of jobs that suites add to a listed variant, by package: a skipped one where there are no suites."""
    every = benches(filter(spec.lists, spec.packages.values()))
    return {
        name: sum(max(1, len(legs(package.suites.values(), one))) for one in every)
        for name, package in spec.packages.items()
    }


def longest_minutes(spec: Spec, bench: Bench) -> int:
    """Minutes after which GitHub ends a job of `bench`: those of its longest suite, and those of the stage before it.

    The job's own steps before the suite do what the stage does, and have the same time.
    """
    suites = [suite for package in spec.packages.values() for suite in package.suites.values()]
    return spec.timeouts[bench.stage] + max(one.minutes for one in suites if bench_of(one) == bench)
