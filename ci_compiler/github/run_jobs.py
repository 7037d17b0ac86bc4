"""The jobs of one run, as GitHub lists them: what no job can say of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ci_compiler.github.client import Client
from ci_compiler.github.status import FAILURE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A job of a run: its name after its callers' names, its status, its conclusion ('' before the end).

    `steps` has the conclusion of each of its steps by the step's name.
    """

    name: str
    status: str
    conclusion: str
    steps: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of its steps that failed."""
        return tuple(name for name, conclusion in self.steps.items() if conclusion == FAILURE)


def run_jobs(client: Client, run: int) -> tuple[RunJob, ...]:
    """The jobs of the newest attempt of the run with the id `run`. Raises GitHubError."""
    path = f"/repos/{client.access.repository}/actions/runs/{run}/jobs"
    return tuple(
        RunJob(
            name=job["name"],
            status=job["status"],
            conclusion=job["conclusion"] or "",
            steps={step["name"]: step["conclusion"] or "" for step in job.get("steps") or ()},
        )
        for job in client.pages(f"list the jobs of the run {run}", path, "jobs", dict)
    )
