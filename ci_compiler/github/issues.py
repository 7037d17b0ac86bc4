"""One issue that a program opens, updates and closes by itself, found by a marker in its body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from ci_compiler.github.client import PER_PAGE, Client, url_in
from ci_compiler.github.errors import GitHubError, Trouble

PAGES = 30
"""The most pages of open issues that are searched. If there are more, no issue is opened: there might be one."""

_TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Authors whose issues are taken for the program's own. Anybody else could copy the marker."""


class Kept(StrEnum):
    """What was done with the issue."""

    NONE = "there is no issue, and none is needed"
    OPENED = "opened"
    UPDATED = "updated"
    SAME = "still open"
    CLOSED = "closed"


def keep_issue(client: Client, marker: str, title: str, text: Callable[[str], str]) -> tuple[Kept, str]:
    """Opens, updates or closes the issue with `marker` in its body; returns what was done, and the issue's URL.

    `text` makes the new body from the present one ('' without an issue); if it returns '', no issue is needed. If
    there are several, the oldest is kept, and the others are closed. Raises GitHubError.
    """
    own = sorted(_open(client, marker), key=lambda issue: int(issue["number"]))
    for extra in own[1:]:
        _change(client, extra, {"state": "closed", "state_reason": "not_planned"})
    if not own:
        given = {"title": title, "body": text("")}
        if not given["body"]:
            return Kept.NONE, ""
        return Kept.OPENED, client.request("open an issue", "POST", "issues", given, read=url_in, again=False)
    issue = own[0]
    present = (issue["body"] or "").replace("\r\n", "\n")  # GitHub stores the line ends that a browser sends
    body = text(present)
    if not body:
        _change(client, issue, {"state": "closed", "state_reason": "completed"})
        return Kept.CLOSED, url_in(issue)
    if body.strip() == present.strip():
        return Kept.SAME, url_in(issue)
    _change(client, issue, {"body": body})
    return Kept.UPDATED, url_in(issue)


def _open(client: Client, marker: str) -> Iterator[Mapping[str, Any]]:
    """The program's own open issues. Raises GitHubError."""
    path = "issues?state=open&sort=created&direction=asc"
    for number, entry in enumerate(client.pages("list the open issues", path, "", dict), 1):
        if _is_own(entry, marker):
            yield entry
        if number == PAGES * PER_PAGE:
            message = f"{client.access.repository} has more than {PAGES * PER_PAGE:,} open issues; close some of them"
            raise GitHubError(client.access.host, message, trouble=Trouble.REFUSED, said="", uncertain=False)


def _is_own(entry: Mapping[str, Any], marker: str) -> bool:
    """Whether an entry is an issue with `marker`, and by a bot or by somebody who may write.

    GitHub lists pull requests as well.
    """
    by = entry["user"] or {}
    trusted = by.get("type") == "Bot" or entry.get("author_association") in _TRUSTED
    return "pull_request" not in entry and trusted and marker in (entry.get("body") or "")


def _change(client: Client, issue: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    what, path = f"change the issue {issue['number']}", f"issues/{issue['number']}"
    client.request(what, "PATCH", path, given, read=lambda _: None)
