"""Brings every branch up to date with its recipes, the workflows, the documents and the spec, in one commit each.

The whole plan is made before anything is written. Commits are made with an index of their own; then all branches are
moved in one transaction, so that a run that is killed leaves each branch where it was, or is finished by the next one.
`sync.checkouts` brings the checkouts of these branches to their new commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ci_compiler.checkout import EntryKind
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about, nearest, raise_any
from ci_compiler.files.drift import FLOX, GITHUB, Territory, in_the_way, marked, obstacle_among
from ci_compiler.git import Git
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted

WRITTEN = "Written by `ci-compile sync`; the spec says why."
"""The line by which the commits of a sync are recognised."""


class BranchPlan(NamedTuple):
    """The change to a branch: paths with their new text (None: removed), on top of the commit `parent`.

    `files` are all that it is to have, and `taken` the changes to recipes that were the repository's own.
    """

    branch: str
    parent: str
    changes: Mapping[str, str | None]
    files: Mapping[str, str]
    taken: Mapping[str, str]
    added: int
    removed: int


def plan_branch(
    git: Git, branch: str, parent: str, files: Mapping[str, str], recipes: Sequence[Territory], *, adopt: bool
) -> BranchPlan:
    """What `branch` at `parent` lacks of `files`. Raises InputError if something that was not compiled is in the way.

    `recipes` are the folders of the branch's recipes. `adopt` takes over recipes that are in the way; any other such
    file remains an error, and so does a link, a folder or a submodule.
    """
    territories = (GITHUB, *recipes)
    folders = {territory.folder.split("/")[0] for territory in territories}
    entries = git.entries(parent, *sorted(folders | {path.split("/")[0] for path in files}))
    plain = {path: one.name for path, one in entries.items() if one.kind is EntryKind.FILE}
    watched = [path for path in plain if path in files or any(territory.may_hold(path) for territory in territories)]
    texts = dict(zip(watched, git.blobs([plain[path] for path in watched]), strict=True))
    changes: dict[str, str | None] = {}
    taken: dict[str, str] = {}
    findings = []
    for path, text in files.items():
        there = texts.get(path)
        if there == text.encode():
            continue
        if problem := obstacle_among(lambda one: entries[one].kind if one in entries else EntryKind.NOTHING, path):
            findings.append(in_the_way(f"{branch}:{path}", problem))
        elif there is not None and not marked(there) and marked(text.encode()):
            if adopt and path.startswith(f"{FLOX.folder}/"):
                taken[path] = text
            else:
                findings.append(_foreign(branch, path))
        changes[path] = text
    changes |= {path: None for path, data in texts.items() if path not in files and marked(data)}
    raise_any(findings)
    return BranchPlan(
        branch=branch,
        parent=parent,
        changes=changes,
        files=files,
        taken=taken,
        added=sum(path not in entries for path in changes),
        removed=sum(text is None for text in changes.values()),
    )


def recipes_plan(branch: str, parent: str, texts: Mapping[str, str]) -> BranchPlan:
    """The change to the repository's own recipes of `branch` at `parent`: files with their new texts."""
    return BranchPlan(branch=branch, parent=parent, changes=texts, files=texts, taken={}, added=0, removed=0)


def heads_of(git: Git, spec: Spec, remote: str = "") -> dict[str, str]:
    """The commit of each of the spec's branches; of one that only `remote` has, as it was last fetched from there.

    Raises InputError with every branch that is missing.
    """
    heads = {**(git.heads(f"remotes/{remote}") if remote else {}), **git.heads()}
    return found_heads(spec, spec.branches, heads)


def found_heads(spec: Spec, branches: Iterable[str], heads: Mapping[str, str]) -> dict[str, str]:
    """The commits of `branches`, of all `heads` by branch. Raises InputError with every branch that is missing."""
    raise_any(_missing(spec, branch, heads) for branch in branches if branch not in heads)
    return {branch: heads[branch] for branch in branches}


def check_push(git: Git, remote: str, plans: tuple[BranchPlan, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """The commits that an earlier run pushed for `plans` before it was killed, by branch.

    Such a commit has the same parent and the same changes. Raises InputError if a push would not be a fast-forward of
    what the remote has now, or would bring back what was removed there.
    """
    theirs = git.list_remote(remote, environment)
    gone = [one.branch for one in plans if one.branch not in theirs and _was_there(git, remote, one.branch)]
    there = [plan for plan in plans if plan.branch in theirs]
    behind = [plan for plan in there if not git.has_ancestor(theirs[plan.branch], plan.parent)]
    pushed = {plan.branch: theirs[plan.branch] for plan in behind if makes(git, theirs[plan.branch], plan)}
    ahead = [plan.branch for plan in behind if plan.branch not in pushed]
    back = [
        plan.branch
        for plan in there
        if plan not in behind
        and not {*git.was_at(remote, plan.branch)}.isdisjoint(git.lacking(theirs[plan.branch], plan.parent))
    ]
    again = "or `git push {1} {0}` if"
    found = {
        "has commits of {0} that are not in this repository; pull them first": ahead,
        f"no longer has {{0}}; delete it here, {again} it is to be there again": gone,
        f"no longer has commits of {{0}} that are here; reset it, {again} they are to be there again": back,
    }
    raise_any(
        about(branch, Code.NOT_A_FAST_FORWARD, f"{remote} {message.format(branch, remote)}")
        for message, branches in found.items()
        for branch in branches
    )
    return pushed


def _was_there(git: Git, remote: str, branch: str) -> bool:
    """Whether the repository knows that `remote` had the branch."""
    return bool(git.was_at(remote, branch)) or git.follows(remote, branch)


def behind_remote(git: Git, remote: str, plans: Iterable[BranchPlan]) -> Iterator[Finding]:
    """The findings about branches to be moved that lack commits of `remote`, as it was last fetched."""
    theirs = git.heads(f"remotes/{remote}")
    for plan in plans:
        if plan.changes and not git.has_ancestor(tip := theirs.get(plan.branch, plan.parent), plan.parent):
            number = counted(len(git.lacking(plan.parent, tip)), "commit")
            message = f"lacks {number} of {remote}/{plan.branch}; pull them first"
            yield about(plan.branch, Code.NOT_A_FAST_FORWARD, message)


def makes(git: Git, commit: str, plan: BranchPlan) -> bool:
    """Whether `commit` makes exactly the changes of `plan`."""
    if git.parents(commit) != [plan.parent]:
        return False
    entries = git.entries(commit)
    kinds = {path: entries[path].kind if path in entries else EntryKind.NOTHING for path in plan.changes}
    wanted = {path: EntryKind.NOTHING if text is None else EntryKind.FILE for path, text in plan.changes.items()}
    if git.changed(plan.parent, commit).keys() != plan.changes.keys() or kinds != wanted:
        return False
    texts = {path: text for path, text in plan.changes.items() if text is not None}
    return git.blobs([entries[path].name for path in texts]) == [text.encode() for text in texts.values()]


def commit_plans(
    git: Git, plans: Iterable[BranchPlan], messages: Mapping[str, str], made: Mapping[str, str]
) -> dict[str, str]:
    """Commits each plan that changes anything, and moves nothing; branch -> commit.

    `messages` is by branch. `made` has the commits that an earlier run made.
    """
    return {
        plan.branch: made.get(plan.branch)
        or git.commit_tree(git.write_tree(plan.parent, plan.changes), plan.parent, messages[plan.branch])
        for plan in plans
        if plan.changes
    }


def _missing(spec: Spec, branch: str, heads: Mapping[str, str]) -> Finding:
    message = f"the repository has no branch {branch!r}{nearest(branch, heads)}"
    return spec.finding(("branches", branch), Code.MISSING_BRANCH, message, key=True)


def _foreign(branch: str, path: str) -> Finding:
    """The finding about a file at `path` that does not have our mark."""
    remedy = "; `--adopt` takes it over" if path.startswith(f"{FLOX.folder}/") else ""
    return in_the_way(f"{branch}:{path}", f"was not written by ci-compile and is in the way{remedy}")


def summary(plans: tuple[BranchPlan, ...]) -> Iterator[tuple[str, int, int, int]]:
    """One row per branch: the numbers of files added, changed and removed."""
    for plan in plans:
        changed = len(plan.changes) - plan.added - plan.removed
        yield plan.branch, plan.added, changed, plan.removed
