"""Runs of shards that failed because runners were lost, told from real failures by GitHub's annotations.

A run is run again once, and only if every failed job lost its runner: GitHub can run only all failed jobs again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from ci_compiler.github.actions import Json, file_of, jobs_of, run_of, stamp
from ci_compiler.github.client import PER_PAGE, Client
from ci_compiler.github.dispatch import SUCCESS
from ci_compiler.github.status import SKIPPED
from ci_compiler.plan.pipeline import Plan
from ci_compiler.workflows.shard import VERDICT_TITLE, job_in_shard, publication_name

LISTED = 100
"""The most failed runs that are listed."""

RUNS = 20
"""The most runs whose jobs are listed, the newest first."""

JOBS = 20
"""The most failed jobs of a run whose annotations are read; a run with more is left alone."""

AGE = 24 * 3600.0
"""Seconds after its start in which a run is run again."""

_LOST = re.compile(
    r"The (self-hosted|hosted) runner\b.{0,200}\blost communication with the server"
    r"|The runner has received a shutdown signal"
    r"|The job was not acquired by Runner of type self-hosted"
)
"""What GitHub and actions/runner say of a runner that was lost, or that never took its job."""

_FOLLOWS = re.compile(r"The operation was cancell?ed|Process completed with exit code (137|143)\.?$")
"""What a shutdown of the runner leads to: its processes end by SIGKILL or SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A run, all of whose failed jobs lost their runner."""

    id: int
    title: str
    url: str
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.title}: lost its runner in {', '.join(self.jobs)}; {self.url}"


def is_lost(annotations: Iterable[str]) -> bool:
    """Whether the messages of a job's failure annotations show that it lost its runner, and nothing else."""
    messages = [" ".join(text.split()) for text in annotations]
    rest = [text for text in messages if not _LOST.match(text)]
    return len(rest) < len(messages) and all(map(_FOLLOWS.match, rest))


def lost_runs(client: Client, plan: Plan) -> Iterator[LostRun]:
    """The runs of shards whose first attempt failed within a day for lost runners alone. Raises GitHubError."""
    shards = {shard.path for shard in plan.shards}
    path = f"actions/runs?status=failure&created=%3E%3D{stamp(client.clock.now() - AGE)}"
    aside = {publication_name(pool) for pool in plan.spec.pools}
    failed = islice(client.pages("list the failed runs", path, "workflow_runs", run_of), LISTED)
    first = [run for run in failed if file_of(run) in shards and run["run_attempt"] == 1]
    for run in first[:RUNS]:
        yield from _lost(client, run, aside)


def rerun(client: Client, run: LostRun) -> None:
    """Runs the failed jobs of `run`, and what needs them, again. Raises GitHubError."""
    # Assumes `token-rerun`.
    what, path = f"run the failed jobs of the run {run.id} again", f"actions/runs/{run.id}/rerun-failed-jobs"
    client.request(what, "POST", path, read=lambda _: None, again=False)


def _lost(client: Client, run: Json, aside: set[str]) -> Iterator[LostRun]:
    """`run`, if it may be run again. A job of publishing (`aside`) may not: part of it may have taken effect."""
    jobs = jobs_of(client, run["id"], dict)
    ended = [job for job in jobs if job["conclusion"] not in {SUCCESS, SKIPPED}]
    failed = [job for job in ended if job_in_shard(job["name"]) != VERDICT_TITLE]
    if not 0 < len(failed) <= JOBS or any(job_in_shard(job["name"]) in aside for job in failed):
        return
    if all(is_lost(_annotations(client, job["id"])) for job in failed):
        names = tuple(str(job["name"]) for job in failed)
        yield LostRun(id=int(run["id"]), title=run["display_title"], url=run["html_url"], jobs=names)


def _annotations(client: Client, job: int) -> list[str]:
    """The messages of a job's failure annotations; a job has the id of its check run."""
    path = f"check-runs/{job}/annotations?per_page={PER_PAGE}"
    # Assumes `lost-runner`.
    return client.request(f"read the annotations of the job {job}", "GET", path, read=failures)


def failures(annotations: Iterable[Json]) -> list[str]:
    """The messages of the annotations that are failures."""
    return [entry["message"] or "" for entry in annotations if entry["annotation_level"] == "failure"]
