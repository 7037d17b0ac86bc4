"""Starts builds on GitHub: dispatches the workflows of the shards that have the variants, and follows the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about, check_known, raise_any, wrong
from ci_compiler.github.actions import jobs_of, newest_runs, run_of, stamp, workflow_ids
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import names_of_profile
from ci_compiler.plan.sharding import ALL, UNPUBLISHED, Shard
from ci_compiler.spec.patterns import matcher_of_any
from ci_compiler.spec.triggers import PROFILE, SINCE
from ci_compiler.spec.versions import NIGHT
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
class ShardOrder:
    """What to build of a shard: a `choice` of its form, or of that the `names`.

    `chosen` are the variants that this means, before any is left out because it is published. `publishes`: whether the
    shard's branch publishes.
    """

    shard: Shard
    choice: str
    names: tuple[str, ...] = ()
    chosen: tuple[str, ...]
    publishes: bool = True

    @property
    def label(self) -> str:
        """The order in words, as messages show it."""
        if self.names:
            return f"{len(self.names)} variants of {self.shard.name}"
        return f"{self.choice} of {self.shard.name}" if self.choice in {ALL, UNPUBLISHED} else self.choice

    @property
    def title(self) -> str:
        """What the title of its run has in parentheses."""
        return "(a selection)" if self.names else f"({self.choice})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for all runs of an order: whether they publish, and the request that they belong to.

    `again`: they test what passed before, and publish what is already published. `night`: the date of a night.
    `profile`: the profile that they are of. `since`: the commit since which what they build changed.
    """

    publish: bool = False
    again: bool = False
    request: str = ""
    night: str = ""
    profile: str = ""
    since: str = ""

    def inputs(self, order: ShardOrder) -> dict[str, str]:
        """The inputs of the shard's form."""
        publish = "true" if self.publish and order.publishes else ""
        again = "true" if self.again else ""
        given = {"variant": order.choice, "only": " ".join(order.names), "request": self.request, NIGHT: self.night}
        given |= {PROFILE: self.profile, SINCE: self.since}
        return {name: text for name, text in (given | {"publish": publish, "again": again}).items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that was started for an order."""

    order: ShardOrder
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
        return f"{self.started.order.label} on {self.started.order.shard.branch}: {what}"


def orders(
    plan: Plan,
    patterns: Iterable[str] = (),
    *,
    branch: str | None = None,
    shard: str | None = None,
    unpublished: bool = False,
    profile: str = "",
) -> tuple[ShardOrder, ...]:
    """An order for each shard with variants that match `patterns` (none: all), on `branch` and in `shard`.

    `unpublished`: of these, what is not published yet when the run begins. With a `profile`, only shards of which it
    builds something count; each run leaves out by itself what its profile does not build. Raises InputError for a name
    that is not built, a pattern that matches nothing, or an unknown branch, shard or profile.
    """
    spec, names = plan.spec, {each.name for each in plan.shards}
    if branch is not None:
        check_known("--branch", Code.UNKNOWN_BRANCH, branch, spec.branches)
    if shard is not None:
        check_known("--shard", Code.UNKNOWN_SHARD, shard, names)
    shards = [each for each in plan.shards if branch in {None, each.branch} and shard in {None, each.name}]
    patterns = tuple(dict.fromkeys(patterns))
    raise_any(_unmatched(plan, shards, patterns, branch))
    matches = matcher_of_any(patterns or ["*"])
    shard_orders = [
        replace(_order(each, chosen, unpublished=unpublished), publishes=spec.branches[each.branch].publish)
        for each in shards
        if (chosen := tuple(filter(matches, each.variants)))
    ]
    own = {name: names_of_profile(plan, profile, name) for name in spec.branches} if profile else {}
    built = (
        (order, tuple(n for n in order.chosen if not own or n in own[order.shard.branch])) for order in shard_orders
    )
    return tuple(replace(one, chosen=names) for one, names in built if names)


def _unmatched(plan: Plan, shards: Sequence[Shard], patterns: Iterable[str], branch: str | None) -> Iterator[Finding]:
    """A finding for each of `patterns` that matches no variant of `shards`."""
    known = [name for shard in shards for name in shard.variants]
    for pattern in patterns:
        if any(map(matcher_of_any([pattern]), known)):
            continue
        message = f"{pattern!r} matches no variant{f' of {branch}' if branch else ''}"
        if not set("*?[{") & set(pattern):
            message = _why_not(plan, pattern, branch)
        yield about("NAME", Code.UNKNOWN_VARIANT, message)


def _order(shard: Shard, chosen: tuple[str, ...], *, unpublished: bool) -> ShardOrder:
    """The shortest order that says `chosen`: all of the shard, one name, or a list."""
    whole = len(chosen) == len(shard.variants)
    alone = len(chosen) == 1 and not unpublished
    choice = UNPUBLISHED if unpublished else chosen[0] if alone and not whole else ALL
    return ShardOrder(shard=shard, choice=choice, names=() if whole or alone else chosen, chosen=chosen)


def _why_not(plan: Plan, name: str, branch: str | None) -> str:
    explanation = explain(plan, name)
    if explanation.built:
        branches = " and ".join(variant.cell.branch for variant in explanation.built)
        return f"{name} is not built on {branch}, but on {branches}"
    reason = explanation.unknown or "; ".join(absent.reason for absent in explanation.absent)
    return reason if name in reason else f"{name}: {reason}"


def start(client: Client, wanted: Iterable[ShardOrder], terms: Terms) -> Iterator[Started]:
    """Dispatches the workflow of each of `wanted` on its branch, one by one. Raises GitHubError, InputError."""
    wanted = list(wanted)
    ids = workflow_ids(client, [order.shard.path for order in wanted])
    for order in wanted:
        yield _start(client, ids[order.shard.path], order, terms)


def _start(client: Client, workflow: int, order: ShardOrder, terms: Terms) -> Started:
    """Dispatches one workflow. If the response is lost, looks for the run before it tries again."""
    what = f"start {PurePosixPath(order.shard.path).name} on {order.shard.branch} for {order.label}"
    since = client.clock.now()
    for attempt in range(1, _ATTEMPTS + 1):
        lost: GitHubError | None = None
        try:
            if run := dispatch(client, what, workflow, order.shard.branch, terms.inputs(order)):
                return Started(order=order, run=run.id, url=run.url)
        except GitHubError as error:
            if not error.uncertain:
                raise
            lost = error
        if run := _appeared(client, workflow, order, since):
            return Started(order=order, run=run.id, url=run.url)
        if lost is None:
            break
        if attempt == _ATTEMPTS:
            raise lost
    message = f"{what}: GitHub accepted it but shows no run after {duration(_APPEARS)}; see its Actions page"
    raise wrong(client.access.host, Code.NO_RUN, message)


class DispatchedRun(NamedTuple):
    """A run that GitHub started."""

    id: int
    url: str


def dispatch(client: Client, what: str, workflow: int, ref: str, inputs: Mapping[str, str]) -> DispatchedRun | None:
    """The run that GitHub reports; None if GitHub started one without saying which. Raises GitHubError."""

    def read(answer: Any) -> DispatchedRun | None:
        return DispatchedRun(answer["workflow_run_id"], answer["html_url"]) if answer else None

    # Assumes `token-dispatch`, `dispatch-inputs`.
    path, body = f"actions/workflows/{workflow}/dispatches", {"ref": ref, "inputs": dict(inputs)}
    try:
        return client.request(what, "POST", path, body | {_DETAILS: True}, read=read, again=False)
    except GitHubError as error:
        if error.trouble is not Trouble.REFUSED or _DETAILS not in error.said:
            raise
    # GitHub Enterprise Server 3.19 does not support the key.
    return client.request(what, "POST", path, body, read=read, again=False)


def _appeared(client: Client, workflow: int, order: ShardOrder, since: float) -> DispatchedRun | None:
    """The newest run dispatched for `order` since then; None if none appears."""
    query = {"branch": order.shard.branch, "event": "workflow_dispatch", "created": f">={stamp(since - _APPEARS)}"}
    until = client.clock.passed() + _APPEARS
    while True:
        runs = newest_runs(client, f"look for the run of {order.label}", workflow, **query)
        if own := [run for run in runs if order.title in run["display_title"]]:
            newest = max(own, key=lambda run: int(run["id"]))
            return DispatchedRun(newest["id"], newest["html_url"])
        if client.clock.passed() >= until:
            return None
        client.clock.sleep(5.0)


def follow(client: Client, started: Sequence[Started]) -> Iterator[tuple[Progress, ...]]:
    """Yields the state of the runs until all have ended. Raises GitHubError."""
    standing = [Progress(started=run, status="queued", conclusion="", ended=0, jobs=0) for run in started]
    while True:
        standing = [run if run.done else look(client, run.started) for run in standing]
        yield tuple(standing)
        left = sum(not run.done for run in standing)
        if not left:
            return
        client.clock.sleep(max(POLL, _POLL_PER_RUN * left))


def look(client: Client, started: Started) -> Progress:
    """The state of a run. Raises GitHubError."""
    run = client.request(f"follow the run {started.run}", "GET", f"actions/runs/{started.run}", read=run_of)
    jobs = list(jobs_of(client, started.run, lambda job: job["status"]))
    status = run["status"] or "queued"
    ended = jobs.count(DONE)
    return Progress(started=started, status=status, conclusion=run["conclusion"], ended=ended, jobs=len(jobs))
