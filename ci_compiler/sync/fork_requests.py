"""What a comment on a fork's pull request has built: the outputs of the `select` job of `fork.yml`.

The commit of the fork is fetched and read as data. Nothing of it runs here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ci_compiler.backends.checkout import REMOTE
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.git import Git
from ci_compiler.outside import reading
from ci_compiler.plan.fork_selection import ForkSelection, of_fork
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import GitHubEvent
from ci_compiler.recipes.affected import affected
from ci_compiler.sync.fork_code import fork_tree
from ci_compiler.sync.landing import Landing, tips
from ci_compiler.workflows import fork

_SHOWN = 20
"""The most refused changes that the comment names."""

_LONGEST = 300
"""The most characters of a path there: a program takes no option of more than 128 KiB."""


def outputs_of_fork(
    git: Git, decided: Plan, event: GitHubEvent, environment: Mapping[str, str], say: Callable[[str], None]
) -> tuple[dict[str, str], str]:
    """The outputs for the event of a comment, and a remark ('' for none) that says why nothing is built.

    `request` is '' if nobody needs an answer, such as a stranger. `say` is given what happens meanwhile. Raises
    GitHubError.
    """
    from ci_compiler.github.access import access  # PyGithub is slow to import
    from ci_compiler.github.client import Client
    from ci_compiler.github.request_comments import RefusedError, build_comment, may_build, open_request

    with reading("event", Code.UNKNOWN_EVENT):
        comment = build_comment(event.name, event.payload)
    if comment is None:
        return _outputs("the comment asks for no build", {}, ())
    client = Client(access(environment, git.root), say=say)
    if not may_build(client, comment):
        return _outputs(f"{comment.author} may not write to the repository; nothing is built", {}, ())
    asked = {"number": comment.number, "commit": comment.commit}
    try:
        request = open_request(client, comment, decided.spec.branches)
        _fetch(git, request.head, say)
        paused = environment.get(PAUSE_VARIABLE, "")
        chosen, landing = _chosen(git, decided, request.branch, request.head, paused)
    except RefusedError as error:
        return _outputs(str(error), asked | {"refused": [str(error)]}, ())
    except InputError as error:
        return _outputs("the commit is refused", asked | {"refused": list(_lines(error.findings))}, ())
    legs = fork.legs(chosen.legs, request.branch, str(landing), request.head)
    return _outputs("", asked | _told(chosen, request.branch), legs)


def _fetch(git: Git, commit: str, say: Callable[[str], None]) -> None:
    """Fetches `commit`. Raises RefusedError if it cannot be fetched, which in a private repository needs a login."""
    from ci_compiler.github.request_comments import RefusedError

    try:
        git.fetch_commit(REMOTE, commit)
    except InputError as error:
        say(str(error))
        message = "the commit cannot be fetched without a credential, as from a private repository"
        raise RefusedError(message) from None


def _chosen(git: Git, decided: Plan, branch: str, commit: str, paused: str) -> tuple[ForkSelection, Landing]:
    """What is built of the fork's `commit`, and the tree that it is built from. Raises InputError for what is refused.

    The spec is that of this checkout; the recipes of the branch are compared with those of the fork.
    """
    landing = fork_tree(git, decided.spec, branch, tips(git, decided.spec)[branch], git.resolve(commit))
    base, head = landing.parent, landing.tree
    found = affected(git, base=base, head=head, spec=decided.spec, branch=branch)
    return of_fork(decided, branch, [one.name for one in found], paused), landing


def _told(chosen: ForkSelection, branch: str) -> dict[str, Any]:
    """What the comment says."""
    cells = [
        {
            "title": leg.title,
            "pool": leg.pool.name,
            "variants": leg.chosen,
            "tests": [stage.name for stage in leg.tests],
        }
        for leg in chosen.legs
    ]
    figures = {"work": chosen.work, "end": chosen.end, "guessed": chosen.guessed}
    return {"branch": branch, "cells": cells, "left": dict(chosen.left), **figures}


def _lines(findings: Iterable[Finding]) -> Iterable[str]:
    shown = list(findings)
    yield from (f"{finding.place.file[:_LONGEST]}: {finding.message}" for finding in shown[:_SHOWN])
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN} more"


def _outputs(remark: str, request: dict[str, Any], legs: Iterable[dict[str, Any]]) -> tuple[dict[str, str], str]:
    return {fork.REQUEST: json.dumps(request) if request else "", fork.MATRIX: json.dumps(list(legs))}, remark
