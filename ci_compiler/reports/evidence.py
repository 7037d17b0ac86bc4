"""What is known about the tests of a variant: their results where a history is given, and what the plan runs where not.

Every answer takes it from here: the page, `select`, `diff`, the overlay and BUILD_MATRIX.md. The last has
no history, since the same spec compiles to the same files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_compiler.hardware import CPU
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.proof import job_title
from ci_compiler.plan.routing import Route
from ci_compiler.plan.suites import bench_of, suites_of
from ci_compiler.reports.reasons import fill, say
from ci_compiler.spec.model import Spec
from ci_compiler.spec.pools import Pool
from ci_compiler.stages import Stage

if TYPE_CHECKING:
    from ci_compiler.plan.records import Record, Records

TESTED, IN_PART, NEVER, FAILING = "tested", "tested in part", "never tested", "failing"
"""The words for all tests of a variant together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEvidence:
    """Sentences on the tests of a variant: those that passed or, without a history, that a pool runs; and the others.

    `verdict`: both in a word, one of those above. `stages`: the names of the tests behind `tested`.
    """

    tested: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    verdict: str = NEVER
    stages: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.verdict, *self.tested, *self.untested))


Proofs = Mapping[tuple[str, str], TestEvidence]
"""The evidence of variants, by branch and name."""

UNKNOWN: Proofs = MappingProxyType({})
"""For callers to whom tests do not matter."""


def proofs(
    spec: Spec, cells: Iterable[Cell], routes: Iterable[Route], records: Records | None = None, package: str = ""
) -> dict[tuple[str, str], TestEvidence]:
    """The evidence of all variants of `cells`, or of those of `package`. `routes` are those of `cells`.

    `records`: the history, if one is given. A stage that only measures is no test.
    """
    return {
        (cell.branch, variant.name): _of_variant(spec, cell, variant, route, records)
        for cell, route in zip(cells, routes, strict=True)
        for variant in cell.variants
        if package in {"", variant.package}
    }


def together(first: TestEvidence, others: Mapping[str, TestEvidence]) -> TestEvidence:
    """The evidence of a package and the `others` that are installed with it, by package, where theirs differs."""

    def every(of_first: Iterable[str], key: str) -> tuple[str, ...]:
        known = {*of_first}
        more = [f"{name}: {text}" for name, one in others.items() for text in getattr(one, key) if text not in known]
        return (*of_first, *more)

    verdicts = {first.verdict, *(one.verdict for one in others.values())}
    verdict = FAILING if FAILING in verdicts else first.verdict if len(verdicts) == 1 else IN_PART
    tested, untested = every(first.tested, "tested"), every(first.untested, "untested")
    return replace(first, tested=tested, untested=untested, verdict=verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """A stage, or the suites of one, with the pool that runs it for a variant, or `because` it is not run.

    `title`: what sentences call it.
    """

    name: str
    title: str
    stage: Stage
    is_suite: bool = False
    pool: Pool | None
    because: str


def _tests(spec: Spec, cell: Cell, variant: Variant, route: Route) -> Iterator[_Test]:
    for stage in (one for one in spec.stages if one.is_test and one.proves):
        pool, because = route.pools.get(stage), route.skipped.get(stage, "")
        title = job_title(spec, spec.packages[variant.package], stage) if pool else stage.name
        yield _Test(name=stage.name, title=title, stage=stage, pool=pool, because=because)
    for bench in dict.fromkeys(map(bench_of, suites_of(spec, cell, variant))):
        pool, because = route.suites.get(bench), route.skipped_suites.get(bench, "")
        title = f"the job {bench.title}"
        yield _Test(name=bench.title, title=title, stage=bench.stage, is_suite=True, pool=pool, because=because)


def _of_variant(spec: Spec, cell: Cell, variant: Variant, route: Route, records: Records | None) -> TestEvidence:
    trace = records.variants.get((cell.branch, variant.name)) if records else None
    tested: dict[str, str] = {}
    untested, failing = [], False
    for test in _tests(spec, cell, variant, route):
        ran = [(one, end) for one in (trace.records if trace else ()) if (end := _end(one, test))]
        if ran:
            last, end = ran[0]
            if end == "success":
                tested[test.name] = _sentence(spec, cell, test, last, f"passed on {_day(last.run.started)}")
            else:
                before = next((_day(one.run.started) for one, end in ran if end == "success"), "")
                said = _sentence(spec, cell, test, last, f"failed on {_day(last.run.started)}")
                untested.append(f"{said}, and {f'passed on {before}' if before else 'no pass is known'}")
            failing |= end != "success"
        if test.pool and records and not ran:
            untested.append(_sentence(spec, cell, test, None, f"has no result since {_day(records.since)}"))
        elif test.pool and not ran:
            tested[test.name] = _sentence(spec, cell, test, None, "")
        elif not test.pool and test.because and (cell.target != CPU or not test.stage.needs_gpu):
            how = say("no-longer" if ran else "untested")
            untested.append(fill(how, {"stage": test.title, "because": test.because}))
    if not tested and (because := spec.packages[variant.package].why_untested(variant.name)):
        untested.append(say("accepted", because=because))
    verdict = FAILING if failing else NEVER if not tested else IN_PART if untested else TESTED
    return TestEvidence(tested=tuple(tested.values()), untested=tuple(untested), verdict=verdict, stages=tuple(tested))


def _end(one: Record, test: _Test) -> str:
    """How `test` ended in a record; '' if it did not run to its end. A file keeps one end for all suites."""
    from ci_compiler.plan.records import ENDED, SUITES  # most answers have no history

    ends = [one.ends.get(test.name, "")]
    if test.is_suite:
        ends = [
            end for name, end in one.ends.items() if (name == SUITES and test.pool) or name.startswith(f"{test.name} (")
        ]
    ends = [end for end in ends if end in ENDED]
    return next((end for end in ends if end != "success"), ends[0] if ends else "")


def _sentence(spec: Spec, cell: Cell, test: _Test, one: Record | None, said: str) -> str:
    """`test` with what is `said` of it, and the machine: that of the record `one`, else that of the plan."""
    labels = one.machines.get(test.name, "") if one else ""
    pool = test.pool
    if labels and not (pool and labels_of(pool) == labels):
        pool = next((other for other in spec.pools if labels_of(other) == labels), None)
    runs = f"{said}, on" if labels else f"{said}, and runs on" if said else "runs on"
    words = {"stage": test.title, "runs": runs, "built": cell.target, "gpu": pool.gpu if pool else ""}
    words |= {"pool": pool.name if pool else "a machine of no pool", "labels": str(pool.runs_on) if pool else labels}
    if not (labels or pool):
        return f"{test.title} {said}"
    on_gpu = pool and pool.gpu and cell.target != CPU and (test.stage.needs_gpu or test.stage.takes_gpu)
    kind = ("tested-gpu" if words["gpu"] == cell.target else "tested-other-gpu") if on_gpu else "tested"
    return fill(say(kind), words)


def labels_of(pool: Pool) -> str:
    """The labels that GitHub lists of a job on `pool`, as a history keeps them."""
    from ci_compiler.plan.records import machine_of  # most answers have no history

    return machine_of([pool.runs_on.scale_set] if pool.runs_on.scale_set else set(pool.runs_on.labels))


def _day(seconds: int) -> str:
    """The day of a time in seconds since 1970, UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
