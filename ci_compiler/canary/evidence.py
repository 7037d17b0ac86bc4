"""The facts of a canary's run: those that its jobs wrote, and those that GitHub's list of the run's jobs shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ci_compiler.canary.assumptions import plain
from ci_compiler.github.actions import seconds_of
from ci_compiler.github.lost import failures, is_lost
from ci_compiler.outside import text_of
from ci_compiler.runner.controller.runner_names import read_name

LEGS = ("pending", "queued", "labels", "approved")
"""Jobs whose legs are counted; a leg is called by the job's name and, in a matrix, the leg's own."""

OUTER = "outer"
"""The job whose called workflow passes on, as its output, how its own job ended."""

_HOOK_STEP = "Set up runner"
"""The step that runs the job-started hook (actions/runner, src/Runner.Common/Constants.cs, Hooks)."""


def written(folder: Path) -> dict[str, str]:
    """The facts in the files below `folder`, lines `NAME=VALUE` each, by `FILE.NAME`."""
    found: dict[str, str] = {}
    for path in sorted(path for path in folder.rglob("*.facts") if path.is_file()):
        for line in text_of(path, errors="replace").splitlines():
            name, equals, value = line.partition("=")
            if equals:
                found[f"{path.stem}.{name}"] = plain(value.strip())
    return found


def of_needs(needs: Mapping[str, Any], joined: str) -> dict[str, str]:
    """The results in the `needs` context of the last job; `joined` is `needs.*.result` as text."""
    results = {name: str(job["result"]) for name, job in needs.items()}
    same = sorted(joined.split()) == sorted(filter(None, results.values()))
    found = {f"job.{name}": plain(result) for name, result in results.items()}
    called = (needs.get(OUTER) or {}).get("outputs") or {}
    found[f"{OUTER}.result"] = plain(called.get("result") or "empty")
    return {**found, "report.joined": "same" if same else "different"}


def of_jobs(jobs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the jobs of the run, as GitHub's REST API lists them, show. Without any, there are no facts."""
    found = {"report.listed": "yes"} if jobs else {}
    for name in LEGS:
        found.update(_legs(name, [job for job in jobs if job["name"].split()[0] == name]))
    named = {job["name"]: job for job in jobs}
    if machine := named.get("machine"):
        found.update(_runners(machine, named.get("again")))
    return found


def of_annotations(annotations: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Whether the annotations of a job that lost its runner are those by which the product tells that."""
    return {"lost.annotated": "known" if is_lost(failures(annotations)) else "other"}


def _legs(name: str, legs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if not legs:
        return
    results = Counter(str(leg["conclusion"]) for leg in legs)
    yield f"{name}.legs", str(len(legs))
    yield from ((f"{name}.{result}", str(results[result])) for result in ("success", "cancelled"))
    yield f"{name}.together", "yes" if _together(legs) else "no"
    yield f"{name}.taken", "yes" if any(leg.get("runner_id") for leg in legs) else "no"


def _together(legs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether two of the legs that succeeded ran at the same time."""
    ran = [leg for leg in legs if leg["conclusion"] == "success"]
    spans = sorted((seconds_of(leg["started_at"]), seconds_of(leg["completed_at"])) for leg in ran)
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def _runners(machine: Mapping[str, Any], again: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """What the two jobs on the chosen machine show of its runners: only whether, never which."""
    steps = {step["name"] for step in machine.get("steps") or ()}
    yield "hook.step", "yes" if _HOOK_STEP in steps else "no"
    yield "runner.form", "controller" if read_name(machine.get("runner_name") or "") else "other"
    if again:
        yield "runner.reused", "yes" if machine.get("runner_id") == again.get("runner_id") else "no"
