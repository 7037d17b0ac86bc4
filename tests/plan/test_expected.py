"""Expected failures of test stages: what they are about, what they are worth on a day, and which are of no use."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import Finding
from ci_compiler.plan import expected
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.spec.model import Spec
from tests.specs import small, spec_of

CPU, GPU = "pytorch-python313-cpu-avx2", "pytorch-python313-cuda12_8-sm90-avx2"
ISSUE = "https://github.com/my-org/stack/issues/7"


def row(**changes: Any) -> dict[str, Any]:
    entry = {"variants": "pytorch-*", "stage": "cpu-test", "because": "no kernels", "until": "2027-03-31"}
    return entry | changes


def spec_with(*rows: dict[str, Any], **changes: Any) -> Spec:
    return spec_of(small(**{"expected-failures": list(rows)}, **changes))


@pytest.mark.parametrize(
    ("today", "worth"),
    [
        ("2027-03-17", "expected"),
        ("2027-03-18", "ends soon"),
        ("2027-03-31", "ends soon"),
        ("2027-04-01", "expired"),
    ],
)
def test_what_an_entry_is_worth_on_a_day(today: str, worth: str) -> None:
    (entry,) = spec_with(row()).expected_failures
    assert expected.standing(entry, today).value == worth


def test_the_entry_that_holds_for_longest_counts() -> None:
    spec = spec_with(row(), row(until="2028-01-01", issue=ISSUE), row(variants="*-sm90-*", stage="gpu-test"))
    found = {stage.name: entry for stage, entry in expected.expected_failures(spec, GPU, "main").items()}
    assert {name: entry.index for name, entry in found.items()} == {"cpu-test": 1, "gpu-test": 2}
    assert {stage.name for stage in expected.expected_failures(spec, CPU, "main")} == {"cpu-test"}
    assert expected.expected_failures(spec_of(small()), CPU, "main") == {}
    assert expected.in_words(found["cpu-test"]) == f"no kernels (until 2028-01-01, {ISSUE})"
    assert expected.in_words(found["gpu-test"]) == "no kernels (until 2027-03-31)"
    assert expected.as_row(found["cpu-test"]) == {
        "stage": "cpu-test",
        "reason": "no kernels",
        "until": "2028-01-01",
        "issue": ISSUE,
    }


def said(findings: Any) -> list[tuple[str, str]]:
    found: list[Finding] = list(findings)
    return [(finding.code, finding.message) for finding in found]


def test_what_ends_soon_is_a_warning_and_what_has_ended_an_error() -> None:
    spec = spec_with(row(), row(until="2026-01-01"), row(until="2030-01-01"))
    about = "the expected failure of cpu-test in pytorch-*"
    assert said(expected.dated_findings(spec, "2027-03-30")) == [
        (
            "expectation-ends",
            f"{about} ends in 1 day, after 2027-03-31: no kernels",
        ),
        (
            "expectation-expired",
            f"{about} ended after 2026-01-01, and failures count again: no kernels",
        ),
    ]


def test_what_passes_again_is_named() -> None:
    spec = spec_with(row())
    (entry,) = spec.expected_failures
    one, several = (expected.passes_again(spec, entry, names) for names in ([CPU], [CPU, GPU, "x"]))
    assert one.message == f"cpu-test of {CPU} passes again; remove the entry, or name fewer variants"
    assert several.message.startswith(f"cpu-test of {CPU} and 2 more passes again; ")


def test_an_entry_that_is_about_nothing_is_an_error() -> None:
    spec = spec_with(row(variants="*-sm61-*"), row(), row(stage="gpu-test", variants="*-cpu-*"), row(stage="gpu-test"))
    decided = plan(spec_of(small()))
    assert said(expected.unused_findings(spec, judge(spec).cells, decided.routes)) == [
        ("unused-expectation", "the expected failure in '*-sm61-*' matches no variant"),
        (
            "unused-expectation",
            f"gpu-test runs for no variant that '*-cpu-*' matches: {CPU}: the variant is for the CPU alone",
        ),
    ]
