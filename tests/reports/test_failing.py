"""Variants that fail: since which result, in which order, and the body of the issue about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import DAY, Record, Records, Run, Trace
from ci_compiler.reports import failing
from tests.specs import small, spec_of

NOW = 1_790_856_000
"""2026-10-01, 12:00:00 UTC."""

CPU, GPU = "pytorch-python313-cpu-avx2", "pytorch-python313-cuda12_8-sm90-avx2"
ENDS = {
    "passed": {"build": "success", "cpu-test": "success"},
    "failed": {"build": "success", "cpu-test": "failure"},
    "cancelled": {"build": "cancelled"},
    "running": {"build": "running"},
}


@pytest.fixture(scope="module")
def decided() -> Plan:
    return plan(spec_of(small()))


def records(**results: list[str]) -> Records:
    """The results of variants, the newest first, one a day."""
    variants = {}
    for name, words in results.items():
        own = [
            Record(
                run=Run(number=age, shard="s", started=NOW - age * DAY, commit=f"{age:012}"),
                result=word,
                ends=ENDS[word],
            )
            for age, word in enumerate(words, 1)
        ]
        variants["main", name] = Trace(records=tuple(own))
    return Records(repository="my-org/stack", variants=variants)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (["passed", "failed"], None),
        ([], None),
        (["cancelled", "running"], None),
        (["failed"], (1, 1, None)),
        (["failed", "failed", "passed", "failed"], (1, 2, 3)),
        (["running", "failed", "cancelled", "failed", "passed"], (2, 4, 5)),
        (["cancelled", "passed", "failed"], None),
    ],
)
def test_a_variant_fails_since_the_first_failure_after_it_passed(
    decided: Plan, results: list[str], expected: tuple[int, int, int | None] | None
) -> None:
    found = [
        (one.last.run.number, one.first.run.number, one.passed and one.passed.run.number)
        for one in failing.failing(decided, records(**{CPU: results}))
    ]
    assert found == ([expected] if expected else [])


def test_the_longest_failure_comes_first_and_what_the_spec_no_longer_has_is_left_out(decided: Plan) -> None:
    known = records(**{CPU: ["failed", "passed"], GPU: ["failed", "failed"], "pytorch-of-old": ["failed"] * 9})
    assert [one.name for one in failing.failing(decided, known)] == [GPU, CPU]


def test_the_issue_lists_what_fails(decided: Plan) -> None:
    known = records(**{CPU: ["failed", "passed"], GPU: ["failed"]})
    text = failing.issue_text(decided, known, "github.com")
    assert text.startswith("The newest result of 2 variants is a failure. ")
    run = "[1](https://github.com/my-org/stack/actions/runs/1)"
    since = "`000000000001`, 2026-09-30"
    assert [line for line in text.splitlines() if line.startswith("| `")] == [
        f"| `{CPU}` | `main` | cpu-test | {since} | `000000000002`, 2026-09-29 | {run} |",
        f"| `{GPU}` | `main` | cpu-test | {since} | never, as far as is known | {run} |",
    ]
    assert text.endswith(f"\n\n{failing.MARKER}\n")


def test_a_result_without_a_commit_has_its_day(decided: Plan) -> None:
    known = records(**{CPU: ["failed"]})
    [old] = known.variants["main", CPU].records
    bare = replace(old, run=replace(old.run, commit=""))
    text = failing.issue_text(decided, replace(known, variants={("main", CPU): Trace(records=(bare,))}), "github.com")
    assert "| cpu-test | 2026-09-30 |" in text


def test_no_issue_is_needed_where_nothing_fails(decided: Plan) -> None:
    assert failing.issue_text(decided, records(**{CPU: ["passed", "failed"]}), "github.com") == ""


def test_a_long_list_ends_with_how_many_are_left(decided: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing, "MOST_ROWS", 1)
    text = failing.issue_text(decided, records(**{CPU: ["failed"], GPU: ["failed"]}), "github.com")
    assert text.count("| `pytorch") == 1
    assert "\n\nand 1 more\n\n" in text
