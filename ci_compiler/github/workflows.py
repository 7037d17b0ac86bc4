"""What GitHub says about the compiled workflows and the pages of a repository."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.workflows.common import FLEET_WATCH, IMAGES, PAGES, PULL_REQUEST, SCHEDULE, SYNC, UPDATE, WAVES

_NAMED = (PULL_REQUEST, SCHEDULE, WAVES, FLEET_WATCH, PAGES, SYNC, UPDATE, IMAGES)
"""The compiled workflows that events start, apart from the shards."""

_STATES = {
    "disabled_inactivity": "GitHub disabled it, because the repository had no activity for 60 days",
    "disabled_manually": "somebody disabled it",
    "disabled_fork": "GitHub disabled it, because the repository is a fork",
}
"""What the states of a workflow mean (GitHub's description of its API, `workflow`)."""


class DisabledWorkflow(NamedTuple):
    """A compiled workflow that does not run: its path, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        name = self.path.rpartition("/")[2]
        return f"{name} is disabled: {self.reason}; `gh workflow enable {name}` enables it"


def disabled(client: Client, plan: Plan) -> tuple[DisabledWorkflow, ...]:
    """The compiled workflows that GitHub does not run. Raises GitHubError."""
    named = (f"{FOLDER}/{name}" for name in _NAMED)
    return tuple(_disabled(client, (*named, *(shard.path for shard in plan.shards))))


def _disabled(client: Client, paths: Iterable[str]) -> Iterable[DisabledWorkflow]:
    for path in paths:
        found = client.workflows.get(path)
        if found is not None and found.state in _STATES:
            yield DisabledWorkflow(path=path, reason=_STATES[found.state])


def pages_on(client: Client) -> bool:
    """Whether GitHub Pages is on. Raises GitHubError."""
    path = f"/repos/{client.access.repository}/pages"
    try:
        return client.request("read the settings of GitHub Pages", "GET", path, read=lambda answer: bool(answer["url"]))
    except GitHubError as error:
        if error.trouble is Trouble.MISSING:
            return False
        raise
