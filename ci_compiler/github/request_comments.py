"""The one comment that the workflow keeps on a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ci_compiler.github.client import PER_PAGE, Client, url_in

MARKER = "<!-- ci-compile: kept up to date -->"
"""The first line of the comment, which GitHub does not show."""

LONGEST = 65_536
"""The most characters of a comment or of a pull request's text; GitHub refuses more."""

_PAGES = 30
"""The most pages of comments that are searched for the one to update."""

_BOT = ("github-actions[bot]", "Bot")
"""The login and type of the account whose token a workflow has. No user can have a login with brackets."""


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


def _is_own(entry: Mapping[str, Any]) -> bool:
    """Whether the workflow's account wrote the comment, with the marker."""
    by = entry.get("user") or {}
    return (by.get("login"), by.get("type")) == _BOT and str(entry.get("body") or "").startswith(MARKER)
