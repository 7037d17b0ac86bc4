"""The runners registered on GitHub: those of the repository, and those of its organisation that may serve it.

The list of a repository does not include the runners of its organisation. Runners of a scale set show no labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble

ONLINE = "online"
"""GitHub's status of a connected runner."""

UNSEEN = frozenset({Trouble.FORBIDDEN, Trouble.MISSING})
"""Failures that mean that the token may not see the runners of an organisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A registered runner. `group`: the name of its runner group; '' for a runner of the repository."""

    id: int
    name: str
    labels: tuple[str, ...]
    online: bool
    busy: bool
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerGroup:
    """A runner group of an organisation. `default`: it takes every runner that names no group.

    `public`: public repositories may use it. `workflows`: the only ones whose jobs it takes, as
    `OWNER/NAME/PATH@REF`; None if it takes the jobs of every workflow.
    """

    id: int
    name: str
    default: bool
    public: bool
    workflows: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The runners that may serve the repository. `unseen`: why those of the organisation could not be listed."""

    runners: tuple[Runner, ...]
    unseen: GitHubError | None = None


def inventory(client: Client) -> Inventory:
    """Every runner that may serve the repository. Raises GitHubError if the repository's own cannot be listed."""
    in_organisation, own = client.repository.in_organisation, tuple(of_repository(client))
    if not in_organisation:
        return Inventory(runners=own)
    try:
        return Inventory(runners=(*own, *of_groups(client)))
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        return Inventory(runners=own, unseen=error)


def of_repository(client: Client) -> Iterator[Runner]:
    """The runners of the repository itself. Raises GitHubError."""
    return runners_at(client, f"list the runners of {client.access.repository}", "actions/runners")


def of_groups(client: Client) -> Iterator[Runner]:
    """The runners of every group of the organisation that may serve the repository. Raises GitHubError."""
    owner, _, name = client.access.repository.partition("/")
    for group in groups_of(client, owner, f"?visible_to_repository={quote(name)}"):
        path = f"/orgs/{owner}/actions/runner-groups/{group.id}/runners"
        yield from runners_at(client, f"list the runners of the group {group.name}", path, group.name)


def groups_of(client: Client, owner: str, query: str = "") -> Iterator[RunnerGroup]:
    """The runner groups of the organisation `owner`. Raises GitHubError."""

    def group_of(entry: Mapping[str, Any]) -> RunnerGroup:
        only = frozenset(map(str, entry["selected_workflows"])) if entry.get("restricted_to_workflows") else None
        return RunnerGroup(
            id=int(entry["id"]),
            name=entry["name"],
            default=entry["default"],
            public=entry["allows_public_repositories"],
            workflows=only,
        )

    path = f"/orgs/{owner}/actions/runner-groups{query}"
    return client.pages(f"list the runner groups of {owner}", path, "runner_groups", group_of)


def runners_at(client: Client, what: str, path: str, group: str = "") -> Iterator[Runner]:
    """The runners in GitHub's list at `path`. Raises GitHubError."""
    return client.pages(what, path, "runners", lambda entry: runner_of(entry, group))


def runner_of(entry: Mapping[str, Any], group: str = "") -> Runner:
    """The runner that GitHub describes by `entry`."""
    return Runner(
        id=entry["id"],
        name=entry["name"],
        labels=tuple(label["name"] for label in entry["labels"]),
        online=entry["status"] == ONLINE,
        busy=entry["busy"],
        group=group,
    )
