"""The merge of a pull request as GitHub makes it, and the event of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.github.state import REPOSITORY

IDENTITY = [word for key in ("name", "email") for word in ("-c", f"user.{key}=a@example.org")]


def merge_request(
    git: Callable[..., str], commit: str, onto: str = "main", *, ref: str = "topic", owner: str = REPOSITORY
) -> dict[str, Any]:
    """Checks out the merge of `commit` into the branch `onto`, detached, and returns the event's payload.

    As on GitHub, the event names a base that the branch has left long ago: its first commit. The request comes from the
    branch `ref` of the repository `owner`.
    """
    first = git("rev-list", "--max-parents=0", onto).split()[0]
    git("checkout", "-q", "--detach", onto)
    git(*IDENTITY, "merge", "-q", "--no-ff", "-m", "Merge", commit)
    base = {"ref": onto.removeprefix("origin/"), "sha": first, "repo": {"full_name": REPOSITORY}}
    return {"pull_request": {"base": base, "head": {"ref": ref, "sha": commit, "repo": {"full_name": owner}}}}
