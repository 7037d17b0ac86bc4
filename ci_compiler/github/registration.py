"""Just-in-time runners: registering each for one job, finding and removing the registrations.

The configuration in GitHub's response contains the runner's private key, so it is returned as a `Secret`. Plain
requests read it, since the `repr` of PyGithub's object would show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.inventory import Runner, groups_of, runner_of, runners_at
from ci_compiler.secret import Secret

DEFAULT_GROUP = 1
"""The id of the runner group of a repository's runners (GitHub Docs, REST API, "Self-hosted runners")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A registered runner that has yet to connect, with its configuration."""

    id: int
    name: str
    jit: Secret


class Removal(StrEnum):
    """The outcome of removing a registration."""

    REMOVED = "removed"
    ABSENT = "absent"
    BUSY = "busy"


class Registrar:
    """Registers runners in the repository, or in its organisation."""

    def __init__(self, client: Client, *, organisation: bool = False) -> None:
        self._client = client
        self._organisation = organisation
        self.scope = client.access.owner if organisation else client.access.repository
        kind = "orgs" if organisation else "repos"
        self._runners = f"/{kind}/{self.scope}/actions/runners"
        self._seen: dict[int, tuple[str, Runner]] = {}

    def group(self, name: str) -> int:
        """The id of the runner group `name` ('': the default group). Raises GitHubError, InputError."""
        if not self._organisation:
            return DEFAULT_GROUP
        groups = list(groups_of(self._client, self.scope))
        for group in groups:
            if group.name.lower() == name.lower() or (not name and group.default):
                return group.id
        message = f"{self.scope} has no runner group {name!r}{nearest(name, (group.name for group in groups))}"
        raise wrong(self.scope, Code.UNKNOWN_GROUP, message)

    def serves_public(self, group: int) -> bool:
        """Whether a public repository may use the runners of the group with the id `group`. Raises GitHubError."""
        if self._organisation:
            return any(other.public for other in groups_of(self._client, self.scope) if other.id == group)
        what = f"look whether {self.scope} is public"
        return not self._client.request(
            what, "GET", f"/repos/{self.scope}", read=lambda answer: bool(answer["private"])
        )

    def register(self, name: str, labels: tuple[str, ...], group: int) -> Registration:
        """Registers the runner `name` with exactly `labels`; GitHub adds none of its own. Raises GitHubError."""
        body = {"name": name, "runner_group_id": group, "labels": list(labels)}

        def read(answer: Any) -> Registration:
            return Registration(id=answer["runner"]["id"], name=name, jit=Secret(answer["encoded_jit_config"]))

        path = f"{self._runners}/generate-jitconfig"  # Assumes `jit-registration`, `jit-one-job`.
        return self._client.request(f"register {name}", "POST", path, body, read=read, again=False)

    def named(self, name: str) -> Runner | None:
        """The runner called `name`, if there is one. Raises GitHubError."""
        runners = runners_at(self._client, f"look for {name}", f"{self._runners}?name={quote(name)}")
        return next((runner for runner in runners if runner.name == name), None)

    def runner(self, number: int) -> Runner | None:
        """The runner with the id `number`, if there is one. Raises GitHubError.

        The request is conditional. If nothing changed, it does not count against the rate limit (GitHub Docs, "Best
        practices for using the REST API").
        """
        tag, known = self._seen.get(number, ("", None))
        path = f"{self._runners}/{number}"
        try:
            tag, found = self._client.conditional(f"read the runner {number}", path, tag, read=runner_of)
        except GitHubError as error:
            if error.trouble is Trouble.MISSING:
                self._seen.pop(number, None)
                return None
            raise
        if found is not None:
            self._seen[number] = (tag, found)
        return found or known

    def runners(self) -> Iterator[Runner]:
        """Every runner that is registered there. Raises GitHubError."""
        return runners_at(self._client, f"list the runners of {self.scope}", self._runners)

    def remove(self, runner: int) -> Removal:
        """Removes the registration `runner` unless it is busy. Raises GitHubError."""
        # Assumes `jit-removal`.

        def read(answer: Any) -> Removal:
            if answer is not None:
                raise ValueError("the response to a removal must be empty")
            return Removal.REMOVED

        self._seen.pop(runner, None)
        try:
            what, path = f"remove the runner {runner}", f"{self._runners}/{runner}"
            return self._client.request(what, "DELETE", path, read=read, absent=Removal.ABSENT)
        except GitHubError as error:
            if error.trouble is Trouble.REFUSED:
                return Removal.BUSY
            raise
