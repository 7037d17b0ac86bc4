"""The one comment that the workflow keeps on a pull request, and the status that it sets on a commit.

`/build COMMIT` on a fork's pull request must be the whole comment, with the whole hash of a commit. A push that races
with the comment therefore never changes what is built: the hash is that of the code that the maintainer read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any
from urllib.parse import quote

from ci_compiler.github.client import PER_PAGE, Client, url_in
from ci_compiler.workflows.common import BUILD_COMMAND

MARKER = "<!-- ci-compile: kept up to date -->"
"""The first line of the comment, which GitHub does not show."""

LONGEST = 65_536
"""The most characters of a comment or of a pull request's text; GitHub refuses more."""

_PAGES = 30
"""The most pages of comments that are searched for the one to update."""

_BOT = ("github-actions[bot]", "Bot")
"""The login and type of the account whose token a workflow has. No user can have a login with brackets."""

LONGEST_STATUS = 140
"""The most characters of a status's description; GitHub refuses more."""


class State(StrEnum):
    """The state of a commit, as GitHub calls it."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


def keep_comment(client: Client, number: int, text: str) -> str:
    """Writes the comment with `text` on the pull request, or updates it; returns its URL. Raises GitHubError.

    Only a comment by the workflow's own account is updated: anybody else could copy the marker.
    """
    body = cut(f"{MARKER}\n{text}", "The summary of the run has the rest.")
    # Assumes `comment-writes`.
    path = f"issues/{number}/comments"
    comments = islice(client.pages("list the comments", path, "", dict), _PAGES * PER_PAGE)
    if (own := next(filter(_is_own, comments), None)) is None:
        what = f"comment on the pull request {number}"
        return client.request(what, "POST", path, {"body": body}, read=url_in, again=False)
    path, what = f"issues/comments/{own['id']}", f"update the comment on the pull request {number}"
    return client.request(what, "PATCH", path, {"body": body}, read=url_in)


def cut(text: str, remark: str) -> str:
    """`text`, or its beginning and a remark on the rest where it is longer than GitHub takes."""
    end = f"\n\n… {remark}\n"
    return text if len(text) <= LONGEST else text[: LONGEST - len(end)] + end


def set_status(client: Client, commit: str, state: State, context: str, description: str, url: str) -> None:
    """Sets the status called `context` of a commit, with a link to `url`. Raises GitHubError."""
    shown = description if len(description) <= LONGEST_STATUS else f"{description[: LONGEST_STATUS - 1]}…"
    given = {"state": state.value, "context": context, "description": shown, "target_url": url}
    client.request(f"set the status of {commit}", "POST", f"statuses/{commit}", given, read=lambda _: None)


def _is_own(entry: Mapping[str, Any]) -> bool:
    """Whether the workflow's account wrote the comment, with the marker."""
    by = entry.get("user") or {}
    return (by.get("login"), by.get("type")) == _BOT and str(entry.get("body") or "").startswith(MARKER)


_ASKED = re.compile(rf"{BUILD_COMMAND} ([0-9a-f]{{40}})\s*")
_MAY_WRITE = frozenset({"admin", "write"})
"""The permissions that allow pushing; GitHub reports the role "maintain" as "write" (REST API, "Get repository
permissions for a user")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildComment:
    """A comment that begins with the command: its pull request, its author, and the commit ('': it names none)."""

    number: int
    author: str
    author_id: int
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A pull request of a fork that is open: its number, the commit of its head, and the branch that it is for."""

    number: int
    head: str
    branch: str


class RefusedError(Exception):
    """The comment asks for something that is not built. Its text says why, in one sentence."""


def build_comment(event: str, payload: Mapping[str, Any]) -> BuildComment | None:
    """The comment of an event; None if it is none on a pull request, was edited, or does not begin with the command."""
    if event != "issue_comment" or payload.get("action") != "created":
        return None
    comment, issue = payload["comment"], payload["issue"]
    by, body = comment.get("user") or {}, str(comment.get("body") or "")
    if not issue.get("pull_request") or by.get("type") != "User" or body.split(maxsplit=1)[:1] != [BUILD_COMMAND]:
        return None
    asked = _ASKED.fullmatch(body)
    return BuildComment(
        number=int(issue["number"]),
        author=str(by["login"]),
        author_id=int(by["id"]),
        commit=asked[1] if asked else "",
    )


def may_build(client: Client, comment: BuildComment) -> bool:
    """Whether the author may write to the repository, as GitHub says now. Raises GitHubError."""
    path = f"collaborators/{quote(comment.author, safe='')}/permission"

    def read(answer: Any) -> bool:
        whose = (answer.get("user") or {}).get("id")
        return whose == comment.author_id and answer.get("permission") in _MAY_WRITE

    return client.request(f"ask what {comment.author} may do", "GET", path, read=read)


def open_request(client: Client, comment: BuildComment, branches: Collection[str]) -> OpenRequest:
    """The pull request of a comment. Raises RefusedError unless the comment names its present head, and GitHubError."""
    if not comment.commit:
        message = f"the comment must be `{BUILD_COMMAND}`, one space, and the whole hash of the commit (40 digits)"
        raise RefusedError(message)
    found = client.request(f"read the pull request {comment.number}", "GET", f"pulls/{comment.number}", read=dict)
    head, base = found["head"], found["base"]
    own = str(base["repo"]["full_name"]).lower()
    if found["state"] != "open":
        raise RefusedError("the pull request is closed")
    if own != client.access.repository.lower():
        raise RefusedError("the pull request is for another repository")
    if head["repo"] is not None and str(head["repo"]["full_name"]).lower() == own:
        raise RefusedError("the pull request is from this repository, and is built without a comment")
    if str(base["ref"]) not in branches:
        raise RefusedError("the pull request is for a branch that the spec does not have")
    if head["sha"] != comment.commit:
        message = f"the pull request is at {head['sha']} now, not at {comment.commit}; read what changed first"
        raise RefusedError(message)
    return OpenRequest(number=comment.number, head=comment.commit, branch=str(base["ref"]))
