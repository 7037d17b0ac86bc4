"""Runs of workflows and their jobs, as GitHub's API lists them: mappings whose keys are those of its description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from ci_compiler.codes import Code
from ci_compiler.errors import about, raise_any
from ci_compiler.github.client import PER_PAGE, Client

Answer = TypeVar("Answer")
Json = Mapping[str, Any]

OPEN = ("queued", "in_progress", "waiting")
"""The statuses of a run that may have queued jobs. A `waiting` run has a job that waits for a reviewer."""


_NUMBERS = ("id", "workflow_id", "run_attempt")
_TEXTS = ("path", "display_title", "event", "status", "conclusion", "created_at", "head_branch", "head_sha", "html_url")
"""The keys of a run that are read."""


def workflow_ids(client: Client, paths: list[str]) -> dict[str, int]:
    """The ids of the workflows at `paths`. Raises InputError with each that GitHub does not have, and GitHubError."""
    missing = [path for path in dict.fromkeys(paths) if path not in client.workflows]
    message = f"{client.access.repository} has no such workflow; push the compiled files to its default branch"
    raise_any(about(path, Code.NO_WORKFLOW, message) for path in missing)
    return {path: client.workflows[path].id for path in paths}


def newest_runs(client: Client, what: str, workflow: int | str, **query: str) -> list[Json]:
    """The newest runs of a workflow (its id or file name), a page of them; none without one. Raises GitHubError."""
    path = f"actions/workflows/{workflow}/runs?{urlencode(query | {'per_page': PER_PAGE})}"
    return client.request(
        what, "GET", path, read=lambda answer: list(map(run_of, answer["workflow_runs"])), absent=list[Json]()
    )


def run_of(entry: Json) -> Json:
    """What is read of a run; a text that GitHub does not state is ''."""
    return {key: int(entry[key]) for key in _NUMBERS} | {key: str(entry[key] or "") for key in _TEXTS}


def open_runs(client: Client, status: str) -> Iterator[Json]:
    """The runs with `status`, the newest first. Raises GitHubError."""
    what = f"list the runs that are {status.replace('_', ' ')}"
    return client.pages(what, f"actions/runs?status={status}", "workflow_runs", run_of)


def jobs_of(client: Client, run: int, read: Callable[[Json], Answer]) -> Iterator[Answer]:
    """Applies `read` to the jobs of the newest attempt of the run with the id `run`. Raises GitHubError."""
    return client.pages(f"list the jobs of the run {run}", f"actions/runs/{run}/jobs", "jobs", read)


def file_of(run: Json) -> str:
    """The path of the workflow that a run is of."""
    return str(run["path"]).partition("@")[0]


def stamp(seconds: float) -> str:
    """A time in seconds since 1970 as GitHub writes it: `2026-11-21T12:00:00Z`."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def seconds_of(stamp: str) -> int:
    """A time of GitHub in seconds since 1970; 0 for ''."""
    return int(datetime.fromisoformat(stamp).timestamp()) if stamp else 0
