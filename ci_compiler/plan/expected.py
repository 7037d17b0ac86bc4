"""Expected failures of test stages: what each entry of the spec is about, and what it means today.

Compiling never asks for the day: the same spec compiles to the same files tomorrow. The verdict of a run, `status` and
`update --check` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from enum import StrEnum

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import ExpectedStageFailure
from ci_compiler.stages import Stage, stages_that_test
from ci_compiler.units import counted

NOTICE = 14
"""Days before the end of an expected failure from which on it is announced."""


class Standing(StrEnum):
    """What an expected failure is worth on a day."""

    EXPECTED = "expected"
    ENDS_SOON = "ends soon"
    EXPIRED = "expired"


def standing(entry: ExpectedStageFailure, today: str) -> Standing:
    """What `entry` is worth on the day `today` (`2027-03-31`)."""
    left = _days_left(entry, today)
    if left < 0:
        return Standing.EXPIRED
    return Standing.ENDS_SOON if left < NOTICE else Standing.EXPECTED


def expected_failure(spec: Spec, name: str, branch: str, stage: Stage) -> ExpectedStageFailure | None:
    """The entry about `stage` of the variant `name` on `branch`: of several, the one that holds for longest."""
    concerning = [failure for failure in spec.expected_failures if failure.concerns(name, branch, stage)]
    return max(concerning, key=lambda failure: failure.until, default=None)


def expected_failures(spec: Spec, name: str, branch: str) -> dict[Stage, ExpectedStageFailure]:
    """The entries about the variant `name` on `branch`, by stage."""
    tests = stages_that_test() if spec.expected_failures else ()
    found = {stage: expected_failure(spec, name, branch, stage) for stage in tests}
    return {stage: entry for stage, entry in found.items() if entry}


def in_words(entry: ExpectedStageFailure) -> str:
    """The reason, the last day and the issue of `entry`."""
    return f"{entry.because} (until {entry.until}{f', {entry.issue}' if entry.issue else ''})"


def as_row(entry: ExpectedStageFailure) -> dict[str, str]:
    """`entry` as JSON."""
    return {"stage": entry.stage.name, "reason": entry.because, "until": entry.until, "issue": entry.issue}


def dated_findings(spec: Spec, today: str) -> Iterator[Finding]:
    """A warning about each entry that ends soon, and an error about each that has ended."""
    for failure in spec.expected_failures:
        what = f"the expected failure of {failure.stage} in {failure.pattern}"
        match standing(failure, today):
            case Standing.ENDS_SOON:
                left = counted(_days_left(failure, today), "day")
                message = f"{what} ends in {left}, after {failure.until}: {failure.because}"
                yield spec.finding(_path(failure, "until"), Code.EXPECTATION_ENDS, message)
            case Standing.EXPIRED:
                message = f"{what} ended after {failure.until}, and failures count again: {failure.because}"
                yield spec.finding(_path(failure, "until"), Code.EXPECTATION_EXPIRED, message)


def passes_again(spec: Spec, entry: ExpectedStageFailure, variants: Sequence[str]) -> Finding:
    """The finding about `variants` whose stage passed, although `entry` expects it to fail."""
    first, *others = variants
    more = f" and {len(others)} more" if others else ""
    message = f"{entry.stage} of {first}{more} passes again; remove the entry, or name fewer variants"
    return spec.finding(_path(entry, "variants"), Code.EXPECTATION_PASSES, message)


def unused_findings(spec: Spec, cells: Sequence[Cell], routes: Iterable[Route]) -> Iterator[Finding]:
    """An error for each entry that matches no variant, or a stage that runs for none of those that it matches."""
    parts = list(zip(cells, routes, strict=True))
    for failure in spec.expected_failures:
        matched = [
            (variant, route)
            for cell, route in parts
            for variant in cell.variants
            if failure.concerns(variant.name, cell.branch, failure.stage)
        ]
        if not matched:
            message = f"the expected failure in {failure.pattern!r} matches no variant"
            yield spec.finding(_path(failure, "variants"), Code.UNUSED_EXPECTATION, message)
        elif not any(failure.stage in route.pools for _, route in matched):
            variant, route = matched[0]
            why = route.skipped.get(failure.stage, "the variant is for the CPU alone")
            message = f"{failure.stage} runs for no variant that {failure.pattern!r} matches: {variant.name}: {why}"
            yield spec.finding(_path(failure, "stage"), Code.UNUSED_EXPECTATION, message)


def _days_left(entry: ExpectedStageFailure, today: str) -> int:
    return (date.fromisoformat(entry.until) - date.fromisoformat(today)).days


def _path(entry: ExpectedStageFailure, key: str) -> tuple[str | int, ...]:
    return ("expected-failures", entry.index, key)
