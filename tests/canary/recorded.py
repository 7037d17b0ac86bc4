"""GitHub's list of the jobs of a run, in the form of its REST API, with what the canary's jobs leave if all holds."""

from __future__ import annotations

from typing import Any

from ci_compiler.canary.assumptions import assumptions

CONTROLLER = "ci-runner-rack-1a2b-{slot}-t5k2j9-x86-builder"
"""The form of the names that `ci-runner start` gives to its runners."""


def job(name: str, conclusion: str = "success", **more: Any) -> dict[str, Any]:
    """A job as `GET /repos/OWNER/REPO/actions/runs/ID/attempts/N/jobs` lists it, with the keys that are read."""
    times = {"started_at": "2026-11-21T10:00:00Z", "completed_at": "2026-11-21T10:00:30Z"}
    taken = {"runner_id": 7, "runner_name": "GitHub Actions 7"}
    return {"name": name, "status": "completed", "conclusion": conclusion, "steps": [], **times, **taken, **more}


def at(minute: int) -> dict[str, str]:
    """The times of a job that ran for half a minute."""
    return {"started_at": f"2026-11-21T10:{minute:02}:00Z", "completed_at": f"2026-11-21T10:{minute:02}:30Z"}


def jobs() -> list[dict[str, Any]]:
    """The jobs of a run on machines that the controller serves, in which every assumption holds."""
    hook = {"name": "Set up runner", "conclusion": "success"}
    return [
        job("start"),
        job("pending a", **at(1)),
        job("pending b", "cancelled", runner_id=0, runner_name=""),
        job("pending c", **at(2)),
        job("queued a", **at(1)),
        job("queued b", **at(2)),
        job("queued c", **at(3)),
        job("machine", runner_id=41, runner_name=CONTROLLER.format(slot=0), steps=[hook]),
        job("again", runner_id=42, runner_name=CONTROLLER.format(slot=1), steps=[hook]),
        job("approved a", **at(4)),
        job("approved b", **at(5)),
        job("labels", "cancelled", runner_id=0, runner_name=""),
        job("end of labels"),
        job("outer / inner / inner"),
    ]


def runs() -> list[dict[str, str]]:
    """The facts of as many runs as it takes for every assumption to hold: events and attempts exclude each other."""
    found: list[dict[str, str]] = []
    for one in assumptions().values():
        facts = {**one.tried, **one.expected}
        like = [run for run in found if all(run.get(name, value) == value for name, value in facts.items())]
        if not like:
            found.append(facts)
        for run in like[:1]:
            run.update(facts)
    for run in found:
        for one in assumptions().values():
            if one.tried.items() <= run.items():
                run.update(one.expected)
    return found
