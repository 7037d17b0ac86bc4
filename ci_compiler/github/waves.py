"""Starts shards in waves, each after the runs of the one before have ended, and tells how far a request has come.

The state is on GitHub alone: the title of each run of a shard names the request that it belongs to. A process that was
interrupted is started again, and starts no shard twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from github.Workflow import Workflow
from github.WorkflowRun import WorkflowRun

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.github.client import Client
from ci_compiler.github.dispatch import DONE, SUCCESS, ShardOrder, Started, Terms, dispatch, look, start
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.spec.carried import default_branch
from ci_compiler.workflows.common import WAVES

PATH = f"{FOLDER}/{WAVES}"
POLL, _POLL_PER_RUN = 120.0, 8.0
"""Seconds between two polls of a wave, at least and per open run: two requests per run and poll, of the 1,000 per hour
that the token of GitHub Actions has."""

_DEPTH = 50
"""The most runs of a shard in which a request is looked for."""


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


def run_waves(client: Client, waves: Sequence[Sequence[ShardOrder]], terms: Terms, *, until: float) -> bool:
    """Starts wave after wave, until all have ended (True) or the clock has passed `until` (False).

    Shards that have a run of the request are not started again. Raises GitHubError and InputError.
    """
    for wave in waves:
        known = {order.shard.name: _run_of(client, order, terms.request) for order in wave}
        missing = [order for order in wave if known[order.shard.name] is None]
        open_runs = [one for one in known.values() if one is not None]
        open_runs += start(client, missing, terms)
        while open_runs := [one for one in open_runs if not look(client, one).done]:
            if client.clock.passed() >= until:
                return False
            client.clock.sleep(max(POLL, _POLL_PER_RUN * len(open_runs)))
    return True


def _run_of(client: Client, order: ShardOrder, request: str) -> Started | None:
    """The run of the shard that belongs to `request`."""
    workflow = client.workflows.get(order.shard.path)
    if workflow is None:
        return None  # `start` reports it
    found = _requested(client, workflow, order.shard.name).get(request)
    return Started(order=order, run=found.id, url=found.html_url) if found else None


def _requested(client: Client, workflow: Workflow, name: str) -> Mapping[str, WorkflowRun]:
    """The newest run of a workflow for each request."""

    def ask() -> Mapping[str, WorkflowRun]:
        runs = list(islice(workflow.get_runs(event="workflow_dispatch"), _DEPTH))
        return {request: run for run in reversed(runs) if (request := _request_of(run.display_title))}

    return client.call(f"list the runs of {name}", ask)


def _request_of(title: str) -> str:
    """The request that the title of a run names in brackets; '' if it names none."""
    return title.partition("[")[2].partition("]")[0]


def start_waves(client: Client, plan: Plan, inputs: Mapping[str, str]) -> str:
    """Starts `waves.yml` on the default branch with `inputs`; returns its URL. Raises GitHubError, InputError."""
    workflow = client.workflows.get(PATH)
    if workflow is None:
        message = f"{client.access.repository} has no such workflow; push the compiled files to its default branch"
        raise wrong(PATH, Code.NO_WORKFLOW, message)
    run = dispatch(client, f"start {WAVES}", workflow, default_branch(plan.spec), inputs)
    return run.html_url if run else f"https://{client.access.web_host}/{client.access.repository}/actions"


def waves_progress(client: Client, plan: Plan, *, most: int = 3) -> Iterator[WavesProgress]:
    """The newest requests, at most `most`: those that go on, and the last one that ended. Raises GitHubError."""
    workflow = client.workflows.get(PATH)
    requests = list(_requested(client, workflow, WAVES).items())[-most:] if workflow else []
    going = [(request, run) for request, run in requests if run.status != DONE] or requests[-1:]
    if not going:
        return
    paths = {shard.path: shard.name for shard in plan.shards if shard.path in client.workflows}
    runs = [_requested(client, client.workflows[path], name) for path, name in paths.items()]
    for request, run in going:
        own = [one[request] for one in runs if request in one]
        ended = [one for one in own if one.status == DONE]
        yield WavesProgress(
            request=request,
            about=run.display_title.partition("] ")[2],
            status=run.conclusion or run.status,
            started=len(own),
            ended=len(ended),
            failed=sum(one.conclusion != SUCCESS for one in ended),
            url=run.html_url,
        )
