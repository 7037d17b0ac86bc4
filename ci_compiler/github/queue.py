"""The jobs that wait for a runner, and the label sets whose jobs runners took: from the runs that have not ended.

The number of requests is limited: the newest runs are listed up to a depth, and the jobs of the oldest among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from ci_compiler.github.actions import OPEN, Json, jobs_of, open_runs, seconds_of
from ci_compiler.github.client import Client

LISTED = 300
"""The most runs listed per status: three requests."""

RUNS = 100
"""The most runs whose jobs are listed, one request per hundred jobs. A workflow's token has 1,000 requests an hour."""

QUEUED = "queued"
"""GitHub's status of a job that waits for a runner; other jobs wait for a reviewer, or for another run."""

Labels = frozenset[str]
"""The labels of a job in lower case: GitHub ignores case and order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that waits for a runner. `since`: when it was created, in seconds since 1970."""

    labels: Labels
    since: float
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The waiting jobs, the oldest first, and the label sets of jobs that a runner took.

    `left_out`: the number of runs, newer than the others, whose jobs were not listed.
    """

    jobs: tuple[QueuedJob, ...] = ()
    taken: frozenset[Labels] = frozenset()
    left_out: int = 0


def queue(client: Client) -> Queue:
    """The jobs of the repository's open runs. Raises GitHubError."""
    listed = (run for status in OPEN for run in islice(open_runs(client, status), LISTED))
    runs = {run["id"]: run["created_at"] for run in listed}
    oldest = sorted(runs, key=lambda run: (runs[run], run))
    entries = [entry for run in oldest[:RUNS] for entry in jobs_of(client, run, dict)]
    waiting = [
        QueuedJob(labels=_labels(entry), since=seconds_of(entry["created_at"]), url=entry["html_url"])
        for entry in entries
        if entry["status"] == QUEUED
    ]
    return Queue(
        jobs=tuple(sorted(waiting, key=lambda job: (job.since, job.url))),
        taken=frozenset(_labels(entry) for entry in entries if entry["runner_id"]),
        left_out=len(oldest[RUNS:]),
    )


def _labels(entry: Json) -> Labels:
    return frozenset(label.lower() for label in entry["labels"])
