"""The last results of variants beside the failures that the spec expects."""

from __future__ import annotations

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
    failed: dict[ExpectedStageFailure, list[str]] = {entry: [] for entry in spec.expected_failures}
    passed: dict[ExpectedStageFailure, list[str]] = {entry: [] for entry in spec.expected_failures}
    for last in lasts if spec.expected_failures else ():
        for stage, entry in expected_failures(spec, last.variant.name, last.cell.branch).items():
            shown = f"{last.variant.name} on {last.cell.branch}"
            ended = last.stages.get(stage.name, "")
            if ended == FAILURE and standing(entry, today) is not Standing.EXPIRED:
                failed[entry].append(shown)
            elif ended == SUCCESS:
                passed[entry].append(shown)
    for entry in spec.expected_failures:
        if failed[entry]:
            many = counted(len(failed[entry]), "variant")
            yield f"{entry.stage} of {many} failed as expected: {in_words(entry)}"
        if passed[entry]:
            yield passes_again(spec, entry, passed[entry])
