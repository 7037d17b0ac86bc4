"""The jobs of a run with the conclusions of their steps, as GitHub states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ci_compiler.github.client import Client


class RunJob(NamedTuple):
    """A job of a run: its name, its conclusion ('' before its end), and those of its steps by their names."""

    name: str
    conclusion: str
    steps: Mapping[str, str]


def run_jobs(client: Client, run: int) -> list[RunJob]:
    """The jobs of the latest attempt of `run`. Raises GitHubError."""
    path = f"/repos/{client.access.repository}/actions/runs/{run}/jobs"
    return list(client.pages(f"list the jobs of the run {run}", path, "jobs", _job))


def _job(entry: Mapping[str, Any]) -> RunJob:
    steps = {str(step["name"]): str(step["conclusion"] or "") for step in entry.get("steps") or ()}
    return RunJob(name=str(entry["name"]), conclusion=str(entry["conclusion"] or ""), steps=steps)
