"""What machines that GitHub hosts cannot do: run a job for more than six hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import usual_seconds
from ci_compiler.plan.limits import limit
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD
from ci_compiler.units import duration

_MOST = limit("hosted-minutes").limit


def hosted_findings(spec: Spec, routed: Iterable[tuple[Cell, Route]]) -> Iterator[Finding]:
    """A warning for each declared time limit, and each declared duration of a build, that is beyond GitHub's limit."""
    found: dict[Path_, str] = {}
    for cell, route in routed:
        for path, message in (*_limits(spec, route), *_durations(spec, cell, route)):
            found.setdefault(path, message)
    yield from (spec.finding(path, Code.HOSTED_HOURS, message) for path, message in found.items())


def _limits(spec: Spec, route: Route) -> Iterator[tuple[Path_, str]]:
    for stage, pool in route.pools.items():
        given = spec.document.value.get("timeouts", {}).get(stage.name, 0)
        if pool.hosted and given > _MOST:
            message = (
                f"GitHub ends a job on {pool.name} ({pool.hosted}) after {duration(_MOST * 60)}, before the "
                f"{duration(given * 60)} that `timeouts` gives to {stage}; run it on machines of your own, or lower it "
                f"to {_MOST}"
            )
            yield ("timeouts", stage.name), message


def _durations(spec: Spec, cell: Cell, route: Route) -> Iterator[tuple[Path_, str]]:
    pool = route.pools.get(BUILD)
    if pool is None or not pool.hosted:
        return
    for package in dict.fromkeys(variant.package for variant in cell.variants):
        path = ("packages", package, "minutes", "cpu" if cell.target == CPU else "gpu")
        takes = usual_seconds(spec.packages[package], cell, pool)
        if takes > _MOST * 60 and path in spec.document.values:
            message = (
                f"a build of {package} takes about {duration(takes)} on {pool.name} ({pool.hosted}, {pool.cores} "
                f"cores), and GitHub ends its job after {duration(_MOST * 60)}; build on machines of your own, or on "
                "more cores"
            )
            yield path, message
