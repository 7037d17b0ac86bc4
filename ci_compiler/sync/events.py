"""What the repository says about an event: the facts by which `plan.selection` decides what is built.

A change of a carried file on the default branch reaches the other branches by `sync`, so what it rebuilds there counts
as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.git import Git
from ci_compiler.plan.limits import beyond_filters
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import Facts, GitHubEvent, Question, Rebuilt, request_of
from ci_compiler.recipes.affected import affected
from ci_compiler.spec.carried import carried_paths, default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.sync.carried import changes, other_edits
from ci_compiler.sync.landing import landings, rebuilt_elsewhere, source_branch, tips


class EventAnswer(NamedTuple):
    """The facts about an event, and remarks for people: what the facts leave out."""

    facts: Facts
    remarks: Sequence[str] = ()


def request_base(git: Git, event: GitHubEvent) -> str:
    """The commit that a pull request or a merge group is merged into.

    It is the parent of the checked-out merge that is not the head: the event of a pull request names where the base
    branch was before, when the head was pushed. Raises InputError if the merge is not checked out.
    """
    request = request_of(event)
    if request.base:
        return request.base
    # Assumes `pull-request-merge`.
    parents = git.parents("HEAD")
    others = [parent for parent in parents if parent != request.commit]
    if len(parents) == 2 and len(others) == 1:
        return others[0]
    message = f"what is checked out is no merge of {request.commit or 'a head'} into {request.branch}"
    raise wrong("event", Code.UNKNOWN_REVISION, f"{message}{git.shallow_hint()}")


def facts_of_push(git: Git, decided: Plan, question: Question) -> EventAnswer:
    """What a push to a branch rebuilds there."""
    return _changed(git, decided, question) if question.base or question.since else EventAnswer(Facts())


def facts_of_request(git: Git, decided: Plan, question: Question, carried: Mapping[str, str]) -> EventAnswer:
    """What the checkout rebuilds on each branch when it is merged. `carried` has the texts of the carried files."""
    spec, branch = decided.spec, question.branch
    if not question.base:
        return EventAnswer(Facts())
    answer = _changed(git, decided, question)
    head = git.resolve("HEAD")
    changed = git.changed(git.merge_base(question.base, head), head)
    if branch != default_branch(spec) or not changed.keys() & carried.keys():
        return answer
    heads = {name: commit for name, commit in tips(git, spec).items() if name != branch}
    remarks = [
        f"{name} does not exist here, so that nothing is built for it; create it before `ci-compile sync`"
        for name in spec.branches
        if name not in {branch, *heads}
    ]
    files = {path: carried[path] for path in carried_paths(spec) if path in carried}
    remarks += [
        f"{edit.branch}:{edit.path} changes {changes(edit)}, which {branch} does not have; the builds of {edit.branch} "
        "are without it, and `ci-compile sync` will ask what becomes of it"
        for edit in other_edits(git, heads, dict.fromkeys(heads, head), files)
    ]
    rebuilt = {**answer.facts.rebuilt, **rebuilt_elsewhere(git, decided, carried, heads)}
    return EventAnswer(Facts(rebuilt), [*answer.remarks, *remarks])


def changed_since(git: Git, decided: Plan, question: Question, revision: str = "HEAD") -> tuple[Sequence[str], str]:
    """The variants of the branch that changed up to `revision`, as the question says, and a remark.

    They are all if a commit of the question is gone (a forced push).
    """
    head, branch = git.resolve(revision), question.branch
    found: dict[str, None] = {}
    for base in filter(None, (question.base, *question.since)):
        try:
            start = git.resolve(base)
            start = git.merge_base(start, head) if base == question.base else start
        except InputError:
            names = [name for shard in decided.shards if shard.branch == branch for name in shard.variants]
            return names, f"the commit {base} is not in the history; everything counts as changed"
        changed = affected(git, base=start, head=head, spec=decided.spec, branch=branch)
        found |= dict.fromkeys(one.name for one in changed)
    return list(found), ""


def dispatched_onto(git: Git, decided: Plan, event: GitHubEvent, branch: str, carried: Mapping[str, str]) -> str:
    """What the jobs of `branch` check out if the dispatched code is a change of another branch; else ''."""
    ref = str(event.payload.get("ref", "")).removeprefix("refs/heads/")
    if event.name != "workflow_dispatch" or ref in decided.spec.branches:
        return ""
    heads = tips(git, decided.spec)
    if branch not in heads or source_branch(git, decided.spec, heads, git.resolve("HEAD")) == branch:
        return ""
    return str(landings(git, decided, carried, {branch: heads[branch]})[branch])


def released_tag(git: Git, spec: Spec) -> str:
    """The tag of what is checked out that is a tag of releases. Raises InputError if it has none."""
    wanted = spec.profiles.release.tags if spec.profiles.release else ()
    tags = git.tags_at("HEAD")
    for tag in tags:
        if any(fnmatchcase(tag, pattern) for pattern in wanted):
            return tag
    has = f"has the tags {', '.join(tags)}" if tags else f"has no tag{git.shallow_hint()}"
    message = f"a release is built from a commit with a tag such as {' or '.join(wanted)}; this one {has}"
    raise wrong("event", Code.WRONG_REF, message)


def _changed(git: Git, decided: Plan, question: Question) -> EventAnswer:
    names, remark = changed_since(git, decided, question)
    remark = remark or (unseen_files(git, question.base) if question.base else "")
    return EventAnswer(Facts({question.branch: Rebuilt(names)}), [remark] if remark else [])


def unseen_files(git: Git, base: str) -> str:
    """What to say of a change since `base`, a commit, if a push of it starts some shards and not others; else ''."""
    head = git.resolve("HEAD")
    said = beyond_filters("the change", len(git.changed(git.merge_base(git.resolve(base), head), head)))
    return f"{said}: a push of it may not start every shard; `ci-compile dispatch` starts the others" if said else ""
