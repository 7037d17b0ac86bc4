"""The last results of variants beside the failures that the spec expects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ci_compiler.errors import Finding
from ci_compiler.github.dispatch import SUCCESS
from ci_compiler.github.status import FAILURE, LastBuild
from ci_compiler.plan.expected import Standing, as_row, expected_failures, in_words, passes_again, standing
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import ExpectedStageFailure
from ci_compiler.units import counted


def expectation_rows(spec: Spec, last: LastBuild, today: str) -> list[dict[str, str]]:
    """The failures that are expected of a variant, and what they are worth today, as JSON."""
    found = expected_failures(spec, last.variant.name, last.cell.branch).values()
    return [as_row(entry) | {"standing": standing(entry, today).value} for entry in found]


def expectation_lines(spec: Spec, lasts: Iterable[LastBuild], today: str) -> Iterator[str | Finding]:
    """For each entry, a line about the variants that failed as expected, and a finding about those that passed."""
    ended: dict[tuple[ExpectedStageFailure, str], list[str]] = defaultdict(list)
    for last in lasts if spec.expected_failures else ():
        for stage, entry in expected_failures(spec, last.variant.name, last.cell.branch).items():
            ended[entry, last.stages.get(stage.name, "")].append(f"{last.variant.name} on {last.cell.branch}")
    for entry in spec.expected_failures:
        failed, passed = ended[entry, FAILURE], ended[entry, SUCCESS]
        if failed and standing(entry, today) is not Standing.EXPIRED:
            yield f"{entry.stage} of {counted(len(failed), 'variant')} failed as expected: {in_words(entry)}"
        if passed:
            yield passes_again(spec, entry, passed)
