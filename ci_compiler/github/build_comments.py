"""`/build COMMIT` on a fork's pull request: what a comment asks for, and GitHub's answers on whether it may.

The comment must consist of the command alone, with the whole hash of a commit. A push that races with the comment
therefore never changes what is built: the hash is that of the code that the maintainer read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ci_compiler.github.client import Client
from ci_compiler.workflows.common import BUILD_COMMAND

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
