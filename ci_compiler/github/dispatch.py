"""Starts builds on GitHub: finds the workflow of a variant, dispatches it, and follows the run to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath

from github.Workflow import Workflow
from github.WorkflowRun import WorkflowRun

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, nearest, wrong
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.plan.lookup import BuiltVariant, explain
from ci_compiler.plan.pipeline import Plan
from ci_compiler.units import duration

DONE = "completed"
"""GitHub's status of a run or job that has ended."""

SUCCESS = "success"
"""GitHub's conclusion of a run or job that succeeded."""

POLL = 15.0
"""The least seconds between two polls of the runs."""

_POLL_PER_RUN = 4.0
"""Seconds between two polls, per open run: two requests per poll use half of a token's 5,000 per hour."""

_APPEARS = 60.0
"""Seconds within which a dispatched run appears in the lists."""

_ATTEMPTS = 3
_DETAILS = "return_run_details"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that was started for a variant."""

    target: BuiltVariant
    run: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run: `queued`, `in_progress`, `completed`, …; its conclusion ('' before), jobs ended and known."""

    started: Started
    status: str
    conclusion: str
    ended: int
    jobs: int

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status == DONE

    def __str__(self) -> str:
        what = self.conclusion if self.done else f"{self.status.replace('_', ' ')}, {self.ended} of {self.jobs} jobs"
        return f"{self.started.target.variant.name} on {self.started.target.cell.branch}: {what}"


def targets(plan: Plan, names: Iterable[str], branch: str | None = None) -> tuple[BuiltVariant, ...]:
    """The variants called `names`, on `branch` or on every branch that has them. Raises InputError for other names."""
    found: list[BuiltVariant] = []
    findings: list[Finding] = []
    for name in dict.fromkeys(names):
        known = explain(plan, name)
        here = [one for one in known.built if branch in {None, one.cell.branch}]
        found += here
        if not here:
            said = _why_not(known.unknown or "; ".join(one.reason for one in known.absent), known.built, name, branch)
            findings.append(Finding(place=Place(file="NAME"), code=Code.UNKNOWN_VARIANT, message=said))
    if branch is not None and branch not in plan.spec.branches:
        message = f"unknown branch {branch!r}{nearest(branch, plan.spec.branches)}"
        findings = [Finding(place=Place(file="--branch"), code=Code.UNKNOWN_BRANCH, message=message)]
    if findings:
        raise InputError(findings)
    return tuple(found)


def _why_not(reason: str, elsewhere: Sequence[BuiltVariant], name: str, branch: str | None) -> str:
    if elsewhere:
        return f"{name} is not built on {branch}, but on {' and '.join(one.cell.branch for one in elsewhere)}"
    return reason if name in reason else f"{name}: {reason}"


def start(client: Client, wanted: Iterable[BuiltVariant], *, publish: bool, again: bool = False) -> Iterator[Started]:
    """Dispatches the workflow of each of `wanted` on its branch, one by one. Raises GitHubError, InputError.

    `publish`: publish what passes its tests; `again`: even if it is already published.
    """
    chosen = {"publish": str(publish).lower(), **({"again": "true"} if again else {})}
    wanted = list(wanted)
    missing = dict.fromkeys(target.shard.path for target in wanted if target.shard.path not in client.workflows)
    if missing:
        message = f"{client.access.repository} has no such workflow; push the compiled files to its default branch"
        raise InputError(Finding(place=Place(file=path), code=Code.NO_WORKFLOW, message=message) for path in missing)
    for target in wanted:
        yield _start(client, client.workflows[target.shard.path], target, chosen)


def _start(client: Client, workflow: Workflow, target: BuiltVariant, chosen: Mapping[str, str]) -> Started:
    """Dispatches one workflow. If the response is lost, looks for the run before it tries again."""
    what = f"start {PurePosixPath(target.shard.path).name} on {target.cell.branch} for {target.variant.name}"
    since = client.clock.now()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            if (run := _dispatch(client, what, workflow, target, chosen)) is not None:
                return Started(target=target, run=run.id, url=run.html_url)
        except GitHubError as error:
            if not error.uncertain:
                raise
            if (found := _appeared(client, workflow, target, since)) is not None:
                return found
            if attempt == _ATTEMPTS:
                raise
        else:
            break
    if (found := _appeared(client, workflow, target, since)) is not None:
        return found
    message = f"{what}: GitHub accepted it but shows no run after {duration(_APPEARS)}; see its Actions page"
    raise wrong(client.access.host, Code.NO_RUN, message)


def _dispatch(
    client: Client, what: str, workflow: Workflow, target: BuiltVariant, chosen: Mapping[str, str]
) -> WorkflowRun | None:
    """The run that GitHub reports; None if GitHub started one without saying which."""
    inputs = {"variant": target.variant.name, **chosen}
    ask = partial(workflow.create_dispatch, target.cell.branch, inputs, throw=True)
    try:
        run = client.call(what, partial(ask, return_run_details=True), write=True, again=False)
    except GitHubError as error:
        if error.trouble is not Trouble.REFUSED or _DETAILS not in error.said:
            raise
    else:
        # PyGithub returns True if GitHub accepts it with an empty response.
        return run if isinstance(run, WorkflowRun) else None
    # GitHub Enterprise Server 3.19 does not support the key.
    client.call(what, partial(ask, return_run_details=False), write=True, again=False)
    return None


def _appeared(client: Client, workflow: Workflow, target: BuiltVariant, since: float) -> Started | None:
    """The newest run dispatched for `target` since then; None if none appears."""
    created = f">={datetime.fromtimestamp(since - _APPEARS, UTC):%Y-%m-%dT%H:%M:%SZ}"
    what = f"look for the run of {target.variant.name}"

    def runs() -> list[WorkflowRun]:
        found = workflow.get_runs(branch=target.cell.branch, event="workflow_dispatch", created=created)
        return [run for run in found if f"({target.variant.name})" in run.display_title]

    until = client.clock.passed() + _APPEARS
    while not (found := client.call(what, runs)):
        if client.clock.passed() >= until:
            return None
        client.clock.sleep(5.0)
    newest = max(found, key=lambda run: run.id)
    return Started(target=target, run=newest.id, url=newest.html_url)


def follow(client: Client, started: Sequence[Started]) -> Iterator[tuple[Progress, ...]]:
    """Yields the state of the runs until all have ended. Raises GitHubError."""
    standing = [Progress(started=one, status="queued", conclusion="", ended=0, jobs=0) for one in started]
    while True:
        standing = [one if one.done else _look(client, one.started) for one in standing]
        yield tuple(standing)
        left = sum(not one.done for one in standing)
        if not left:
            return
        client.clock.sleep(max(POLL, _POLL_PER_RUN * left))


def _look(client: Client, one: Started) -> Progress:
    repository = client.repository
    what = f"follow the run {one.run}"

    def ask() -> Progress:
        run = repository.get_workflow_run(one.run)
        jobs = [job.status for job in run.jobs()]
        return Progress(
            started=one,
            status=run.status or "queued",
            conclusion=run.conclusion or "",
            ended=jobs.count(DONE),
            jobs=len(jobs),
        )

    return client.call(what, ask)
