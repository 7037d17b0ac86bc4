"""`ci-compile choose`: what the current event builds, as outputs of the `select` job of a compiled workflow."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ci_compiler.cli.changes import changed_since
from ci_compiler.cli.console import append_to, note
from ci_compiler.cli.where import SPEC, carried_of, filter_of, plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, StageError, wrong
from ci_compiler.git import Git
from ci_compiler.plan.pause import words_of_cells
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import (
    GitHubEvent,
    Rebuilt,
    RequestSelection,
    may_publish,
    of_pull_request,
    of_shard,
)
from ci_compiler.reports.summary import left_to_dispatch, not_built, rebuilt_by_branch
from ci_compiler.spec.carried import carried_paths, default_branch
from ci_compiler.sync.carried import changes, other_edits
from ci_compiler.sync.landing import landings, rebuilt_elsewhere, source_branch, tips
from ci_compiler.units import markdown_text
from ci_compiler.workflows.pull_request import legs


def run(arguments: argparse.Namespace) -> int:
    """Prints the outputs of the job, also to $GITHUB_OUTPUT; what a pull request rebuilds goes to the summary."""
    decided, git, event = plan_of(arguments), Git(root_of(arguments)), event_of_run()
    if arguments.fork:
        from ci_compiler.cli.forks import outputs_of_fork  # no other selection needs it

        outputs = outputs_of_fork(git, decided, event)
    elif arguments.pull_request:
        outputs = _of_request(git, decided, event)
    else:
        outputs = _of_shard(arguments, git, decided, event)
    lines = "".join(f"{key}={value}\n" for key, value in {"commit": git.resolve("HEAD"), **outputs}.items())
    append_to("GITHUB_OUTPUT", lines)
    print(lines, end="")
    return 0


def _of_shard(arguments: argparse.Namespace, git: Git, decided: Plan, event: GitHubEvent) -> dict[str, str]:
    shards = {shard.name: shard for shard in decided.shards}
    filter_of(arguments, "shard", shards)
    shard = shards[arguments.shard]
    choice = of_shard(
        shard,
        event,
        lambda base, branch: changed_since(git, decided, base, branch),
        lambda name: _published(decided, git.root, shard.branch, name),
    )
    return {
        "chosen": json.dumps(choice.variants),
        "cells": json.dumps(choice.suffixes),
        "onto": _onto(git, decided, event, shard.branch),
        "pausable": " ".join(words_of_cells(choice.cells, publish=may_publish(decided.spec, shard, event))),
    }


def _onto(git: Git, decided: Plan, event: GitHubEvent, branch: str) -> str:
    """What the jobs of `branch` check out if the dispatched code is a change of another branch; else ''."""
    ref = str(event.payload.get("ref", "")).removeprefix("refs/heads/")
    if event.name != "workflow_dispatch" or ref in decided.spec.branches:
        return ""
    heads = tips(git, decided.spec)
    if branch not in heads or source_branch(git, decided.spec, heads, git.resolve("HEAD")) == branch:
        return ""
    carried = carried_of(git.root, decided.spec)
    return str(landings(git, decided, carried, {branch: heads[branch]})[branch])


def _of_request(git: Git, decided: Plan, event: GitHubEvent) -> dict[str, str]:
    request = request_of(git, decided, event)
    append_to("GITHUB_STEP_SUMMARY", rebuilt_by_branch(request))
    if event.name == "pull_request":
        refused = _refused(git, decided, event) if request.branches and not request.ref else ()
        append_to("GITHUB_STEP_SUMMARY", not_built(decided.spec, request, event.payload, refused))
    if event.name == "pull_request" and request.ref and any(one.left for one in request.branches):
        append_to("GITHUB_STEP_SUMMARY", left_to_dispatch(decided, request))
    chosen = request.branches if request.ref else ()  # a fork's request builds nothing
    return {
        "chosen": json.dumps({one.branch: one.variants for one in request.branches}),
        "matrix": json.dumps(legs(decided.spec, request.branches)),
        "listed": json.dumps(legs(decided.spec, request.branches, listed=True)),
        "pausable": " ".join(words_of_cells((part for one in chosen for part in one.cells), publish=False)),
    }


def _refused(git: Git, decided: Plan, event: GitHubEvent) -> Sequence[Finding]:
    """What of a fork's pull request a maintainer's comment could not have built."""
    from ci_compiler.sync.fork_code import refused_changes  # no other selection needs it

    base = event.payload["pull_request"]["base"]
    return refused_changes(git, decided.spec, str(base["ref"]), str(base["sha"]), git.resolve("HEAD"))


def request_of(git: Git, decided: Plan, event: GitHubEvent) -> RequestSelection:
    """What a pull request or a merge group builds. Raises InputError for another event."""
    return of_pull_request(decided, event, lambda base, branch: _rebuilt(git, decided, base, branch))


def _rebuilt(git: Git, decided: Plan, base: str, branch: str) -> dict[str, Rebuilt]:
    """What the checkout rebuilds on each branch when it is merged into `branch`, which is at `base`.

    A change of a carried file on the default branch reaches the others by `sync`.
    """
    spec, found = decided.spec, {branch: Rebuilt(changed_since(git, decided, base, branch))}
    carried = carried_of(git.root, spec)
    head = git.resolve("HEAD")
    if branch != default_branch(spec) or not git.changed(git.merge_base(base, head), head).keys() & carried.keys():
        return found
    heads = {name: commit for name, commit in tips(git, spec).items() if name != branch}
    for name in spec.branches:
        if name not in {branch, *heads}:
            _remark(f"{name} does not exist here, so that nothing is built for it; create it before `ci-compile sync`")
    files = {path: carried[path] for path in carried_paths(spec, SPEC.as_posix()) if path in carried}
    for edit in other_edits(git, heads, dict.fromkeys(heads, head), files):
        what = f"{edit.branch}:{edit.path} changes {changes(edit)}, which {branch} does not have"
        _remark(
            f"{what}; the builds of {edit.branch} are without it, and `ci-compile sync` will ask what becomes of it"
        )
    return found | rebuilt_elsewhere(git, decided, carried, heads, SPEC.as_posix())


def _remark(text: str) -> None:
    note(text)
    append_to("GITHUB_STEP_SUMMARY", f"{markdown_text(text)}\n\n")


def event_of_run() -> GitHubEvent:
    """The event in GITHUB_EVENT_NAME and the file at GITHUB_EVENT_PATH."""
    name, path = os.environ.get("GITHUB_EVENT_NAME", ""), os.environ.get("GITHUB_EVENT_PATH", "")
    try:
        payload = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"GITHUB_EVENT_PATH names no event ({error}); `choose` runs in a GitHub Actions job"
        raise wrong("event", Code.NO_EVENT, message) from None
    return GitHubEvent(name=name, payload=payload)


def _published(decided: Plan, root: Path, branch: str, name: str) -> bool:
    from ci_compiler.runner.jobs.publish import is_published

    try:
        return is_published(decided.spec, root, branch, name)
    except StageError as error:
        raise InputError(error.findings) from None
