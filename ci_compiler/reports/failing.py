"""The variants whose newest result is a failure: since when they fail, and the text of the issue about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ci_compiler.clock import day_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import ENDED, PASSED, Record, Records
from ci_compiler.register import BY_HAND
from ci_compiler.units import counted, markdown_table

MARKER = "<!-- ci-compiler results -->"
"""The line in the body by which the issue is found."""

TITLE = "Variants fail"

MOST_ROWS = 50
"""The most variants that the issue lists: GitHub takes 65,536 characters."""

_FAILED = "failed"


class Failing(NamedTuple):
    """A variant that fails: its branch and name, its newest failure, the first since it passed, and that pass."""

    branch: str
    name: str
    last: Record
    first: Record
    passed: Record | None


def failing(plan: Plan, records: Records) -> list[Failing]:
    """The variants of `plan` that fail, those that fail for the longest time first.

    A run that goes on or was cancelled says nothing.
    """
    keys = [(cell.branch, variant.name) for cell in plan.judged.cells for variant in cell.variants]
    failures = (_failing(*key, records.variants[key].records) for key in keys if key in records.variants)
    return sorted(filter(None, failures), key=lambda failure: (failure.first.run.started, failure.name, failure.branch))


def _failing(branch: str, name: str, records: tuple[Record, ...]) -> Failing | None:
    ended = [record for record in records if record.result in {PASSED, _FAILED}]
    at = next((at for at, record in enumerate(ended) if record.result == PASSED), len(ended))
    if at == 0:
        return None
    return Failing(branch, name, ended[0], ended[at - 1], ended[at] if ended[at:] else None)


def issue_text(plan: Plan, records: Records, web_host: str) -> str:
    """The body of the issue about the variants that fail, in Markdown; '' if none does."""
    failures = failing(plan, records)
    if not failures:
        return ""
    rows = [_row(records, failure, web_host) for failure in failures[:MOST_ROWS]]
    more = [f"and {len(failures) - MOST_ROWS} more"] if failures[MOST_ROWS:] else []
    lead = f"The newest result of {counted(len(failures), 'variant')} is a failure."
    parts = [
        f"{lead} `ci-compile site --issue` keeps this issue up to date, and closes it when each passes.",
        markdown_table(["variant", "branch", "fails in", "since", "passed last", "newest run"], rows),
        *more,
        f"[Reproduce a failure]({BY_HAND}#from-a-failed-job) with the commands at the end of its run.",
        MARKER,
    ]
    return "\n\n".join(parts) + "\n"


def _row(records: Records, failure: Failing, web_host: str) -> Sequence[str]:
    stages = [stage for stage, end in failure.last.ends.items() if end in ENDED - {"success"}]
    passed = _when(failure.passed) if failure.passed else "never, as far as is known"
    newest = f"[{failure.last.run.number}]({records.address(web_host, failure.last.run)})"
    return f"`{failure.name}`", f"`{failure.branch}`", ", ".join(stages), _when(failure.first), passed, newest


def _when(record: Record) -> str:
    """The commit of a result, if it is known, and its day."""
    day = day_of(record.run.started)
    return f"`{record.run.commit}`, {day}" if record.run.commit else day
