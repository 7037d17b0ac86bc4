"""Earlier runs: which are believed.

Whoever may push a branch can have a run with artifacts of any name. GitHub says which run an artifact is of, and what
the run was: no job can change that. A *protected* note is believed only of a run of a shard, on an event of the branch
itself, of the repository itself, at a commit that the branch was at. The latter tells the branch from a tag of the same
name. A *request*'s is believed only of a run of `pull-request.yml` for a change in the repository itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from urllib.parse import quote

from ci_compiler.github.actions import Json, file_of, run_of
from ci_compiler.github.client import PER_PAGE, Client
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.workflows.common import OWN_EVENTS, PULL_REQUEST

RUNS = 20
"""The most runs that are asked about one name, the newest first. Others may make any number of artifacts with it."""

_REQUESTS = frozenset({"pull_request", "merge_group"})


def believed(client: Client, plan: Plan, branch: str, trust: str, name: str) -> Iterator[Json]:
    """The runs with an artifact `name` that are of this `trust` for `branch`, the newest first. Raises GitHubError."""
    shards = frozenset(shard.path for shard in plan.shards if shard.branch == branch)

    @cache
    def tips() -> frozenset[str]:
        return _tips(client, branch)

    for number in islice(_runs(client, name), RUNS):
        what = f"read the run {number}"
        run: Json = client.request(what, "GET", f"actions/runs/{number}", read=dict, absent={})
        if run and _is_believed(run, trust, branch, shards, tips):
            yield run


def _is_believed(
    entry: Json, trust: str, branch: str, shards: frozenset[str], tips: Callable[[], frozenset[str]]
) -> bool:
    """Whether a run may have noted what another one reads that looks for notes of this `trust`."""
    run = run_of(entry)
    if (entry.get("head_repository") or {}).get("id") != entry["repository"]["id"]:
        return False  # the workflow file is that of a fork
    match trust:
        case "protected":
            own = run["event"] in OWN_EVENTS and run["head_branch"] == branch and file_of(run) in shards
            return own and run["head_sha"] in tips()
        case "request":
            return run["event"] in _REQUESTS and file_of(run) == f"{FOLDER}/{PULL_REQUEST}"
        case _:
            return False


def _runs(client: Client, name: str) -> Iterable[int]:
    """The runs with an artifact `name` that can still be downloaded, the newest first."""
    path = f"actions/artifacts?name={quote(name)}"
    listed = client.pages(f"list the artifacts {name}", path, "artifacts", dict)
    found = (one for one in listed if one["name"] == name and not one["expired"] and one["workflow_run"])
    return dict.fromkeys(int(one["workflow_run"]["id"]) for one in islice(found, PER_PAGE))


def _tips(client: Client, branch: str) -> frozenset[str]:
    """The commits that the branch was moved to by its newest changes."""
    ref = f"refs/heads/{branch}"
    path = f"activity?ref={quote(ref, safe='')}&per_page={PER_PAGE}"
    return client.request(
        f"list the pushes to {branch}",
        "GET",
        path,
        read=lambda answer: frozenset(str(one["after"]) for one in answer if one["ref"] == ref),
    )
