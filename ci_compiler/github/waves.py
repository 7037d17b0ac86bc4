"""Starts shards in waves, each after the runs of the one before have ended, and tells how far a request has come.

The state is on GitHub alone: the title of each run of a shard names the request that it belongs to, which is the number
of the first run of `waves.yml` for it. A process that was interrupted is started again, and starts no shard twice.

A wave alone keeps within GitHub's limit for queued jobs, two at once would not, whatever requests they are of. So a
wave also waits for the runs of other requests. And it waits while one of its jobs would be skipped by a pause, of which
a run of `waves.yml` knows only what held when it began: no token of a workflow may read variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from urllib.parse import quote

from ci_compiler.github.actions import OPEN, Json, file_of, open_runs, run_of, stamp, workflow_ids
from ci_compiler.github.batches import standing_of, tip_of
from ci_compiler.github.client import Client
from ci_compiler.github.dispatch import DONE, SUCCESS, ShardOrder, Started, Terms, dispatch, look, start
from ci_compiler.plan.pause import words_of_cells
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import DAY
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.spec.carried import default_branch
from ci_compiler.units import grouped
from ci_compiler.workflows.common import WAVES

PATH = f"{FOLDER}/{WAVES}"
POLL, _POLL_PER_RUN = 120.0, 8.0
"""Seconds between two polls of a wave, at least and per open run: two requests per run and poll, of the 1,000 per hour
that the token of GitHub Actions has."""

_PAUSED = 1800.0
"""Seconds until a run that found a pause hands over to one that looks again."""

_OPEN = ("requested", "pending", *OPEN)
"""The states of a run that has not ended."""

_SHOWN = 3
"""The most requests whose progress is shown."""

_OLDEST = 90 * DAY
"""How long ago a request of unknown age may have started shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WavesProgress:
    """How far a request has come: what it is for, its state, its shards that were started, ended and failed."""

    request: str
    about: str
    status: str
    started: int
    ended: int
    failed: int
    url: str

    def __str__(self) -> str:
        status = self.status.replace("_", " ")
        runs = f"{self.started} shards started, {self.ended} ended, {self.failed} of them without success"
        return f"waves [{self.request}] {self.about}: {status}; {runs}; {self.url}"


def run_waves(
    client: Client, plan: Plan, waves: Sequence[Sequence[ShardOrder]], terms: Terms, *, until: float, paused: str = ""
) -> bool:
    """Starts the next wave if it may start at once, and follows it; returns whether all waves have ended.

    If not, a new run must go on: the clock has passed `until`, or what this one knows of pauses is old. `paused` is
    the value of their variable. Shards that have a run of the request are not started again. Raises GitHubError and
    InputError.
    """
    since, fresh = _created(client, terms.request), True
    for wave in waves:
        known = {order.shard.name: _run_of(client, order, terms.request, since) for order in wave}
        due = _due(client, plan, [order for order in wave if known[order.shard.name] is None], terms)
        if due and (
            not fresh or _has_waited(client, plan, [order for order, _ in due], terms, until=until, paused=paused)
        ):
            return False
        going = [run for run in known.values() if run is not None]
        going += (run for order, own in due for run in start(client, [order], own))
        while going := [run for run in going if not look(client, run).done]:
            if client.clock.passed() >= until:
                return False
            client.clock.sleep(max(POLL, _POLL_PER_RUN * len(going)))
            fresh = False
    return True


def _due(client: Client, plan: Plan, wanted: Sequence[ShardOrder], terms: Terms) -> list[tuple[ShardOrder, Terms]]:
    """Those of `wanted` that start, each with its terms.

    Of a profile that builds what changed, these are the shards whose branch moved on since their last run of it.
    """
    if not plan.spec.profiles.started.get(terms.profile):
        return [(order, terms) for order in wanted]
    heads = {branch: tip_of(client, branch) for branch in {order.shard.branch: None for order in wanted}}
    standings = ((order, standing_of(client, order.shard, terms.profile)) for order in wanted)
    return [
        (order, replace(terms, since=stand.since_input))
        for order, stand in standings
        if stand.is_due(heads[order.shard.branch])
    ]


def _has_waited(
    client: Client, plan: Plan, wanted: Sequence[ShardOrder], terms: Terms, *, until: float, paused: str
) -> bool:
    """Waits if `wanted` must not start now; returns whether it did."""
    words = {word.lower() for order in wanted for word in _pausing(order, terms)}
    if found := [word for word in paused.split() if word.lower() in words]:
        client.say(f"the wave waits while {found[0]} is paused (`ci-compile resume`)")
        client.clock.sleep(_PAUSED)
        return True
    if not (others := _others(client, plan, terms.request)):
        return False
    client.say(f"the wave waits for the runs of other requests: {', '.join(others)}")
    while client.clock.passed() < until and _others(client, plan, terms.request):
        client.clock.sleep(POLL)
    return True


def _pausing(order: ShardOrder, terms: Terms) -> list[str]:
    """The words that pause a job of `order`."""
    cells = [part for part in order.shard.cells if any(variant.name in order.chosen for variant in part[0].variants)]
    return words_of_cells(cells, publish=terms.publish and order.publishes)


def _others(client: Client, plan: Plan, request: str) -> list[str]:
    """The URLs of the shards' runs that have not ended and belong to other requests."""
    paths = {shard.path for shard in plan.shards}
    runs = (run for status in _OPEN for run in open_runs(client, status))
    own = (run for run in runs if file_of(run) in paths)
    return [run["html_url"] for run in own if _request_of(run["display_title"]) not in {"", request}]


def _run_of(client: Client, order: ShardOrder, request: str, since: str) -> Started | None:
    """The run of the shard that belongs to `request`."""
    runs = (run for run in _runs(client, order.shard.path, since) if _request_of(run["display_title"]) == request)
    return next((Started(order=order, run=run["id"], url=run["html_url"]) for run in runs), None)


def _runs(client: Client, path: str, since: str) -> Iterator[Json]:
    """The runs of the workflow at `path` that were created at `since` or later, the newest first; none without it."""
    if path not in client.workflows:
        return iter(())
    listed = f"actions/workflows/{client.workflows[path].id}/runs"
    runs = client.pages(f"list the runs of {path}", listed, "workflow_runs", run_of)
    return takewhile(lambda run: str(run["created_at"]) >= since, runs)


def _created(client: Client, request: str) -> str:
    """When `request` was made, or a time before that if its first run is no longer on GitHub."""
    what, path = f"read the run {request}", f"actions/runs/{quote(request, safe='')}"
    oldest = stamp(int(client.clock.now()) - _OLDEST)
    return client.request(what, "GET", path, read=lambda run: str(run["created_at"]), absent=oldest)


def _request_of(title: str) -> str:
    """The request that the title of a run names in brackets; '' if it names none."""
    # Assumes `run-name-title`.
    return title.partition("[")[2].partition("]")[0]


def start_waves(client: Client, plan: Plan, inputs: Mapping[str, str]) -> str:
    """Starts `waves.yml` on the default branch with `inputs`; returns its URL. Raises GitHubError, InputError."""
    workflow = workflow_ids(client, [PATH])[PATH]
    run = dispatch(client, f"start {WAVES}", workflow, default_branch(plan.spec), inputs)
    return run.url if run else f"https://{client.access.web_host}/{client.access.repository}/actions"


def has_waves(client: Client, about: str) -> bool:
    """Whether waves `about` something have not ended. Raises GitHubError."""
    runs = (run for status in _OPEN for run in open_runs(client, status))
    return any(file_of(run) == PATH and run["display_title"].endswith(f" {about}") for run in runs)


def waves_progress(client: Client, plan: Plan) -> Iterator[WavesProgress]:
    """The newest requests, at most three: those that go on, and the last one that ended. Raises GitHubError."""
    newest: dict[str, Json] = {}
    for run in _runs(client, PATH, ""):
        newest.setdefault(_request_of(run["display_title"]), run)
        if len(newest) == _SHOWN:
            break
    going = [(request, run) for request, run in newest.items() if run["status"] != DONE] or [*newest.items()][:1]
    if not going:
        return
    since = min(_created(client, request) for request, _ in going)
    runs = [run for shard in plan.shards for run in _runs(client, shard.path, since)]
    by_request = grouped(reversed(runs), lambda run: _request_of(run["display_title"]))
    for request, run in going:
        own = {each["workflow_id"]: each for each in by_request.get(request, ())}
        ended = [each for each in own.values() if each["status"] == DONE]
        yield WavesProgress(
            request=request,
            about=run["display_title"].partition("] ")[2],
            status=run["conclusion"] or run["status"],
            started=len(own),
            ended=len(ended),
            failed=sum(each["conclusion"] != SUCCESS for each in ended),
            url=run["html_url"],
        )
