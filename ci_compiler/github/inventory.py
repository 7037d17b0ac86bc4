"""The runners that GitHub knows: the repository's own, and the organisation's in groups that serve the repository.

An organisation's runners do not appear in the repository's list. Those of a runner scale set show no labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble

ONLINE = "online"
"""The status of a runner that is connected (GitHub's word)."""

UNSEEN = frozenset({Trouble.FORBIDDEN, Trouble.MISSING})
"""Troubles of a token that may not see an organisation's runners: GitHub answers as if there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A registered runner. `group` is its runner group's name; '' for a runner of the repository's own."""

    id: int
    name: str
    labels: tuple[str, ...]
    online: bool
    busy: bool
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerGroup:
    """A runner group of an organisation; `default`: the one that every runner without another belongs to."""

    id: int
    name: str
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The runners that may serve the repository; `unseen` is why the organisation's could not be asked for."""

    runners: tuple[Runner, ...]
    unseen: GitHubError | None = None


def inventory(client: Client) -> Inventory:
    """Every runner that may serve the repository. Raises GitHubError where the repository's own cannot be read."""
    own = tuple(of_repository(client))
    repository = client.repository
    kind = client.call(f"read the owner of {client.access.repository}", lambda: repository.owner.type)
    if kind != "Organization":
        return Inventory(runners=own)
    try:
        return Inventory(runners=(*own, *of_groups(client)))
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        return Inventory(runners=own, unseen=error)


def of_repository(client: Client) -> Iterator[Runner]:
    """The repository's own runners. Raises GitHubError."""
    repository = client.repository
    what = f"list the runners of {client.access.repository}"
    yield from client.call(what, lambda: [runner_of(one.raw_data) for one in repository.get_self_hosted_runners()])


def of_groups(client: Client) -> Iterator[Runner]:
    """The runners of every group of the organisation that serves the repository. Raises GitHubError."""
    owner, _, name = client.access.repository.partition("/")
    what = f"list the runner groups of {owner}"
    address = f"/orgs/{owner}/actions/runner-groups"
    visible = f"{address}?visible_to_repository={quote(name)}"
    for group in client.pages(what, visible, "runner_groups", group_of):
        listed = f"{address}/{group.id}/runners"
        yield from client.pages(
            f"list the runners of the group {group.name}", listed, "runners", partial(runner_of, group=group.name)
        )


def group_of(entry: Mapping[str, Any]) -> RunnerGroup:
    """The runner group that an entry of GitHub's list describes."""
    return RunnerGroup(id=int(entry["id"]), name=entry["name"], default=entry["default"])


def runner_of(entry: Mapping[str, Any], group: str = "") -> Runner:
    """The runner that an entry of GitHub's lists describes."""
    return Runner(
        id=entry["id"],
        name=entry["name"],
        labels=tuple(label["name"] for label in entry["labels"]),
        online=entry["status"] == ONLINE,
        busy=entry["busy"],
        group=group,
    )
