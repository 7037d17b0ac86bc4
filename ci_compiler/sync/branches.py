"""Brings every branch up to date with its recipes, the workflows, the documents and the spec, in one commit each.

The whole plan is made before anything is written. Commits are made with an index of their own; then all branches are
moved in one transaction, so that a run that is killed leaves each branch where it was. Checkouts, their indexes and
uncommitted work are never touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, nearest
from ci_compiler.files.drift import FLOX, GITHUB, Territory, marked
from ci_compiler.git import Git
from ci_compiler.spec.model import Spec


class BranchPlan(NamedTuple):
    """The change to a branch: paths with their new text (None: removed), on top of the commit `parent`.

    `taken` are the changes to recipes that were the repository's own.
    """

    branch: str
    parent: str
    changes: Mapping[str, str | None]
    taken: Mapping[str, str]
    added: int
    removed: int


def plan_branch(
    git: Git, branch: str, parent: str, files: Mapping[str, str], recipes: Territory, *, adopt: bool
) -> BranchPlan:
    """What `branch` at `parent` lacks of `files`. Raises InputError if a file that was not compiled is in the way.

    `recipes` is the folder of the branch's recipes. `adopt` takes over recipes that are in the way; any other such file
    remains an error.
    """
    territories = (GITHUB, recipes)
    folders = {territory.folder.split("/")[0] for territory in territories}
    elsewhere = {path for path in files if path.split("/")[0] not in folders}
    tree = git.tree(parent, *sorted(folders | elsewhere))
    watched = [path for path in tree if path in files or any(one.may_hold(path) for one in territories)]
    texts = dict(zip(watched, git.blobs([tree[path] for path in watched]), strict=True))
    changes: dict[str, str | None] = {}
    taken: dict[str, str] = {}
    findings = []
    for path, text in files.items():
        there = texts.get(path)
        if there == text.encode():
            continue
        mine = there is None or marked(there) or not marked(text.encode())
        if not mine and adopt and path.startswith(f"{FLOX.folder}/"):
            taken[path] = text
        elif not mine:
            findings.append(_in_the_way(branch, path))
        changes[path] = text
    changes |= {path: None for path, data in texts.items() if path not in files and marked(data)}
    if findings:
        raise InputError(findings)
    return BranchPlan(
        branch=branch,
        parent=parent,
        changes=changes,
        taken=taken,
        added=sum(text is not None and path not in tree for path, text in changes.items()),
        removed=sum(text is None for text in changes.values()),
    )


def heads_of(git: Git, spec: Spec) -> dict[str, str]:
    """The commit of each of the spec's branches. Raises InputError with every branch that is missing."""
    heads = git.heads()
    missing = [branch for branch in spec.branches if branch not in heads]
    if missing:
        raise InputError(_missing(spec, branch, heads) for branch in missing)
    return {branch: heads[branch] for branch in spec.branches}


def check_push(git: Git, remote: str, plans: tuple[BranchPlan, ...]) -> None:
    """Raises InputError if a push would not be a fast-forward of what the remote has now."""
    theirs = git.list_remote(remote)
    findings = [
        Finding(
            place=Place(file=plan.branch),
            code=Code.NOT_A_FAST_FORWARD,
            message=f"{remote} has commits of {plan.branch} that are not in this repository; pull them first",
        )
        for plan in plans
        if plan.branch in theirs and not git.has_ancestor(theirs[plan.branch], plan.parent)
    ]
    if findings:
        raise InputError(findings)


def write(git: Git, plans: tuple[BranchPlan, ...], messages: Mapping[str, str], *, remote: str = "") -> dict[str, str]:
    """Commits each plan that changes anything, pushes to `remote` if given, moves the branches; branch -> commit.

    `messages` are those of the commits, by branch.
    """
    due = [plan for plan in plans if plan.changes]
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as scratch:
        commits = {
            plan.branch: git.commit_tree(
                plan.parent, plan.changes, messages[plan.branch], Path(scratch) / f"index-{number}"
            )
            for number, plan in enumerate(due)
        }
    if remote:
        pushed = {plan.branch: commits.get(plan.branch, plan.parent) for plan in plans}
        git.push(remote, pushed)
    if commits:
        git.move_refs({plan.branch: (commits[plan.branch], plan.parent) for plan in due})
    return commits


def _missing(spec: Spec, branch: str, heads: Mapping[str, str]) -> Finding:
    message = f"the repository has no branch {branch!r}{nearest(branch, heads)}"
    return spec.finding(("branches", branch), Code.MISSING_BRANCH, message, key=True)


def _in_the_way(branch: str, path: str) -> Finding:
    recipe = "; `--adopt` takes it over" if path.startswith(f"{FLOX.folder}/") else ""
    message = f"was not written by ci-compile and is in the way{recipe}"
    return Finding(place=Place(file=f"{branch}:{path}"), code=Code.IN_THE_WAY, message=message)


def summary(plans: tuple[BranchPlan, ...]) -> Iterator[tuple[str, int, int, int]]:
    """One row per branch: the numbers of files added, changed and removed."""
    for plan in plans:
        changed = len(plan.changes) - plan.added - plan.removed
        yield plan.branch, plan.added, changed, plan.removed
