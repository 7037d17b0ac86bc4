"""What the comment on a pull request of the repository says: meaning, cost, results, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ci_compiler.plan.job_graph import guessed_of, jobs_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import Selection
from ci_compiler.reports.diff import PlanDifference
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.reports.forecast import end_of, machine_counts
from ci_compiler.reports.summary import left_to_dispatch, rebuilt_by_branch
from ci_compiler.units import counted, duration, guess, machine_hours, markdown_text

_VERDICTS = {"success": "passed", "failure": "**failed**", "cancelled": "cancelled", "skipped": "not reached"}
"""Words for the result of the job that gives the verdict."""


def request_comment(
    plan: Plan, request: Selection, found: PlanDifference, tables: Mapping[str, str], *, verdict: str, url: str
) -> str:
    """The comment. `found` is what the spec's change means, and `tables` has the results of each branch.

    `verdict` is the result of the job that gives it; `url` is that of the run.
    """
    parts = _parts(plan, request, found, tables, f"{_VERDICTS.get(verdict, 'unknown')}; [the run]({url})")
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def _parts(
    plan: Plan, request: Selection, found: PlanDifference, tables: Mapping[str, str], verdict: str
) -> Iterator[str]:
    yield f"### Verdict: {verdict}"
    if found:
        yield f"#### What the change of the spec means\n\n{markdown(found)}"
    yield f"#### What is rebuilt\n\n{rebuilt_by_branch(request)}"
    if any(selection.variants for selection in request.branches):
        yield _cost(plan, request)
        yield "#### Results"
        for branch, table in tables.items():
            yield f"On {markdown_text(branch)}:\n\n{table}" if len(tables) > 1 else table
    if any(selection.left for selection in request.branches):
        yield f"#### What was left out\n\n{left_to_dispatch(plan, request)}"


def _cost(plan: Plan, request: Selection) -> str:
    """The forecast of what the run builds and tests."""
    chosen = {(selection.branch, name) for selection in request.branches for name in selection.variants}
    jobs = jobs_of(plan.spec, plan.shards, chosen=chosen, publish=False)
    told = guess(guessed_of(plan.spec, jobs))
    hours, end = machine_hours(sum(job.seconds for job in jobs)), duration(end_of(jobs, machine_counts(plan.spec)))
    return (
        f"Forecast for {counted(len(chosen), 'variant')}: {hours} machine-hours, {end} where nothing else runs{told}."
    )
