"""What the comment on a fork's pull request says: what is built and at what cost, how it ended, what was left out.

The results are those that GitHub states of the jobs and their steps. Every text of the fork is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ci_compiler.units import counted, duration, guess, machine_hours, markdown_table, markdown_text

if TYPE_CHECKING:
    from ci_compiler.github.run_jobs import RunJob  # PyGithub is slow to import

NOT_RUN, RUNNING = "–", "not ended"

_SHOWN = {"success": "passed", "failure": "**failed**", "cancelled": "cancelled", "skipped": NOT_RUN}
"""Words for GitHub's conclusions."""


def fork_comment(request: Mapping[str, Any], jobs: Sequence[RunJob] | None, steps: Mapping[str, str], url: str) -> str:
    """The comment on what `request` states (the output of `choose --fork`).

    `jobs` are those of the run, None before it ended; `steps` the titles of the columns by the names of the steps.
    `url` is that of the run.
    """
    return "\n\n".join(_blocks(request, jobs, steps, url)) + "\n"


def outcome(request: Mapping[str, Any], jobs: Sequence[RunJob] | None) -> tuple[str, str]:
    """The state of the commit, and the sentence beside it; the state is '' if the comment was refused."""
    cells = request.get("cells", [])
    if "refused" in request:
        return "", ""
    if not cells:
        left = sum(request["left"].values())
        of_all = f"nothing is built of {counted(left, 'variant')}"
        return ("failure", of_all) if left else ("success", "nothing to build")
    if jobs is None:
        return "pending", f"{counted(_variants(cells), 'variant')} in {counted(len(cells), 'job')}"
    ended = {job.name: job.conclusion for job in jobs}
    good = sum(ended.get(cell["title"]) == "success" for cell in cells)
    return ("success" if good == len(cells) else "failure"), f"{good} of {counted(len(cells), 'job')} passed"


def _blocks(
    request: Mapping[str, Any], jobs: Sequence[RunJob] | None, steps: Mapping[str, str], url: str
) -> Iterator[str]:
    commit, cells = str(request["commit"]), request.get("cells", [])
    if "refused" in request:
        yield f"### Not built{f': {commit}' if commit else ''}"
        yield "\n".join(f"- {markdown_text(str(line))}" for line in request["refused"])
        return
    yield f"### Build of {commit}"
    if not cells:
        yield "Nothing of it is built." if request.get("left") else "It rebuilds nothing."
    else:
        told = markdown_text(guess(request.get("guessed", ())))
        yield (
            f"{counted(_variants(cells), 'variant')} on {markdown_text(request['branch'])}, from the recipes and "
            f"sources of this commit. Forecast: {machine_hours(request['work'])} machine-hours, "
            f"{duration(request['end'])} where nothing else runs{told}. [The run]({url}) has the logs."
        )
        yield markdown_table(["job", "pool", "variants", *steps.values()], _rows(cells, jobs, steps))
        titles = {cell["title"] for cell in cells}
        if failed := [job.name for job in jobs or () if job.name not in titles and job.conclusion == "failure"]:
            yield f"Failed on a hosted machine: {', '.join(map(markdown_text, failed))}."
    if left := request.get("left"):
        lines = (f"- {counted(number, 'variant')}: {markdown_text(why)}" for why, number in left.items())
        yield "\n".join(["Left out:", "", *lines])
    if cells:
        yield "Nothing of this is published, and no later run relies on it: the machines ran code that was not merged."


def _rows(
    cells: Iterable[Mapping[str, Any]], jobs: Sequence[RunJob] | None, steps: Mapping[str, str]
) -> Iterator[list[str]]:
    ended = {job.name: job for job in jobs or ()}
    for cell in cells:
        job = ended.get(cell["title"])
        results = [RUNNING if jobs is None else _result(job, step) for step in steps]
        yield [markdown_text(cell["title"]), markdown_text(cell["pool"]), str(len(cell["variants"])), *results]


def _result(job: RunJob | None, step: str) -> str:
    return _SHOWN.get(job.steps.get(step, ""), NOT_RUN) if job else NOT_RUN


def _variants(cells: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(cell["variants"]) for cell in cells)
