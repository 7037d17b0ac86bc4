"""The jobs of one run, as GitHub lists them: what no job can say of itself."""

from __future__ import annotations

from dataclasses import dataclass

from ci_compiler.github.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A job of a run: its name after its callers' names, its status, its conclusion ('' before the end).

    `failed` are the names of its steps that failed.
    """

    name: str
    status: str
    conclusion: str
    failed: tuple[str, ...] = ()


def run_jobs(client: Client, run: int) -> tuple[RunJob, ...]:
    """The jobs of the newest attempt of the run with the id `run`. Raises GitHubError."""
    path = f"/repos/{client.access.repository}/actions/runs/{run}/jobs"
    return tuple(
        RunJob(
            name=job["name"],
            status=job["status"],
            conclusion=job["conclusion"] or "",
            failed=tuple(step["name"] for step in job.get("steps") or () if step["conclusion"] == "failure"),
        )
        for job in client.pages(f"list the jobs of the run {run}", path, "jobs", dict)
    )
