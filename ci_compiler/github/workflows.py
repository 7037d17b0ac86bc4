"""What GitHub says about the compiled workflows and the pages of a repository."""

from __future__ import annotations

from typing import NamedTuple

from ci_compiler.github.client import Client
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.workflows.common import (
    FLEET_WATCH,
    NIGHTLY_FILE,
    PAGES,
    PAGES_SCHEDULE,
    PULL_REQUEST,
    PUSH_BATCH,
    RELEASE_FILE,
    SCHEDULE,
    SYNC,
    UPDATE,
    WAVES,
)

_NAMED = (
    *(PULL_REQUEST, SCHEDULE, PUSH_BATCH, NIGHTLY_FILE, RELEASE_FILE, WAVES, FLEET_WATCH),
    *(PAGES, PAGES_SCHEDULE, SYNC, UPDATE),
)
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
    paths = [*(f"{FOLDER}/{name}" for name in _NAMED), *(shard.path for shard in plan.shards)]
    states = {path: client.workflows[path].state for path in paths if path in client.workflows}
    return tuple(DisabledWorkflow(path, _STATES[state]) for path, state in states.items() if state in _STATES)


def pages_on(client: Client) -> bool:
    """Whether GitHub Pages is on. Raises GitHubError."""
    what = "read the settings of GitHub Pages"
    return client.request(what, "GET", "pages", read=lambda answer: bool(answer["url"]), absent=False)
