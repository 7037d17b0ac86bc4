"""`ci-compile choose`: what the current event builds, as outputs of the `select` job of a compiled workflow."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, note
from ci_compiler.cli.where import carried_of, event_of_run, filter_of, plan_of, root_of
from ci_compiler.errors import InputError, StageError
from ci_compiler.git import Git
from ci_compiler.plan.pause import words_of_cells
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import (
    GitHubEvent,
    Selection,
    asks_again,
    decide,
    may_publish,
    night_of,
    profile_of,
    question,
    without,
)
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.reports.summary import left_to_dispatch, rebuilt_by_branch
from ci_compiler.spec.triggers import RELEASE
from ci_compiler.spec.versions import decides_versions, with_versions
from ci_compiler.sync.events import (
    EventAnswer,
    dispatched_onto,
    facts_of_push,
    facts_of_request,
    released_tag,
    request_base,
)
from ci_compiler.units import counted, markdown_text
from ci_compiler.workflows.artifacts import PROTECTED, REQUEST, complete_artifact
from ci_compiler.workflows.common import COMPLETE, LEFT_OUT, PULL_REQUEST, VERSIONS
from ci_compiler.workflows.pull_request import matrices
from ci_compiler.workflows.steps import leaves_out

TOKEN = "GITHUB_TOKEN"  # noqa: S105
"""The environment variable with the token of the job."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--shard", metavar="NAME", help="a run of this shard's workflow")
    group.add_argument("--pull-request", action="store_true", help="a run of the pull request workflow")
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the outputs of the job, also to $GITHUB_OUTPUT; what a pull request rebuilds goes to the summary."""
    decided, git, event = plan_of(arguments), Git(root_of(arguments)), event_of_run()
    token = os.environ.pop(TOKEN, "")  # commands of the repository may run
    if arguments.pull_request:
        outputs = _of_request(git, decided, event, token)
    else:
        outputs = _of_shard(arguments, git, decided, event, token)
    lines = "".join(f"{key}={value}\n" for key, value in {"commit": git.resolve("HEAD"), **outputs}.items())
    append_to("GITHUB_OUTPUT", lines)
    print(lines, end="")
    return 0


def _of_shard(arguments: argparse.Namespace, git: Git, decided: Plan, event: GitHubEvent, token: str) -> dict[str, str]:
    shards = {shard.name: shard for shard in decided.shards}
    filter_of(arguments, "shard", shards)
    shard = shards[arguments.shard]
    decided, versions = _versions(decided, git, [shard.branch], night_of(event))
    asked = question(decided, event, shard)
    answer = _remarked(facts_of_push(git, decided, asked))
    if profile_of(event) == RELEASE:
        released_tag(git, decided.spec)
    published = {name for name in asked.names if _published(decided, git.root, shard.branch, name)}
    chosen = decide(decided, event, answer.facts._replace(published=published), shard)
    carried = carried_of(git.root, decided.spec)
    onto, publish = dispatched_onto(git, decided, event, shard.branch, carried), may_publish(decided.spec, shard, event)
    run = _Run(shard.path, PROTECTED, shard.branch, versions, publish, "" if asks_again(event) else token)
    chosen, noted = (chosen, {}) if onto else _without_complete(git, decided, chosen, run)
    (choice,) = chosen.branches
    left = decided.spec.profiles.left_out(profile_of(event))
    return {
        "chosen": json.dumps(choice.variants),
        "cells": json.dumps(choice.suffixes),
        "onto": onto,
        "pausable": " ".join(words_of_cells(choice.cells, publish=publish)),
        **({LEFT_OUT: " ".join(map(str, left))} if decided.spec.profiles.leaves_tests_out else {}),
        **versions,
        **noted,
    }


def _versions(decided: Plan, git: Git, branches: Sequence[str], night: str = "") -> tuple[Plan, dict[str, str]]:
    """The plan with the versions that this run builds on `branches`, and the output with them, if runs decide them."""
    if not decides_versions(decided.spec):
        return decided, {}
    from ci_compiler.runner.versions import decided_versions  # no other selection needs it

    found = decided_versions(decided.spec, git.root, branches, night)
    return replace(decided, spec=with_versions(decided.spec, found)), {VERSIONS: json.dumps(found)}


def _of_request(git: Git, decided: Plan, event: GitHubEvent, token: str) -> dict[str, str]:
    carried = carried_of(git.root, decided.spec)
    asked = question(decided, event, base=request_base(git, event))
    answer = _remarked(facts_of_request(git, decided, asked, carried))
    request = decide(decided, event, answer.facts)
    append_to("GITHUB_STEP_SUMMARY", rebuilt_by_branch(request))
    if event.name == "pull_request" and request.ref and any(selection.left for selection in request.branches):
        append_to("GITHUB_STEP_SUMMARY", left_to_dispatch(decided, request))
    commit = git.resolve("HEAD")
    chosen = request.branches if request.ref else ()  # a fork's request builds nothing
    _, versions = _versions(decided, git, [selection.branch for selection in chosen])
    run = _Run(f"{FOLDER}/{PULL_REQUEST}", REQUEST, asked.branch, versions, publish=False, token=token)
    request, noted = _without_complete(git, decided, request, run) if request.ref else (request, {})
    chosen = request.branches if request.ref else ()
    return {
        "chosen": json.dumps({selection.branch: selection.variants for selection in request.branches}),
        **{output: json.dumps(legs) for output, legs in matrices(decided, request.branches, commit).items()},
        "pausable": " ".join(words_of_cells((part for selection in chosen for part in selection.cells), publish=False)),
        **versions,
        **noted,
    }


class _Run(NamedTuple):
    """A run that may leave out what an earlier one of its workflow `file` completed for `branch`.

    `versions` are those that it decided on, and `token` is that of its job; '' asks nobody.
    """

    file: str
    trust: str
    branch: str
    versions: dict[str, str]
    publish: bool
    token: str


def _without_complete(git: Git, decided: Plan, chosen: Selection, run: _Run) -> tuple[Selection, dict[str, str]]:
    """`chosen` without what earlier runs completed, and the output with the name of what this one will note.

    If GitHub does not answer, nothing is left out.
    """
    if not leaves_out(decided.spec):
        return chosen, {}
    tree = git.tree_of("HEAD")
    name = complete_artifact(f"{run.file} {run.branch}", tree, json.dumps(run.versions))
    if not run.token:
        return chosen, {COMPLETE: name}
    from ci_compiler.github.access import access  # PyGithub is slow to import
    from ci_compiler.github.client import Client
    from ci_compiler.github.complete import WantedNotes, completed
    from ci_compiler.github.errors import GitHubError

    client = Client(access({**os.environ, TOKEN: run.token}, git.root), say=note)
    wanted = WantedNotes(name, run.file, run.trust, run.branch, tree, run.publish, os.environ.get("GITHUB_RUN_ID", ""))
    try:
        complete = completed(client, decided, wanted)
    except GitHubError as error:
        note(f"warning: {error.line}; nothing is left out")
        return chosen, {COMPLETE: name}
    rest, left = without(decided, chosen, run.branch, complete)
    for url, names in left.items():
        _remark(f"{counted(len(names), 'variant')} left out, which {url} completed: {', '.join(names)}")
    return rest, {COMPLETE: name}


def _remarked(answer: EventAnswer) -> EventAnswer:
    for text in answer.remarks:
        _remark(text)
    return answer


def _remark(text: str) -> None:
    note(text)
    append_to("GITHUB_STEP_SUMMARY", f"{markdown_text(text)}\n\n")


def _published(decided: Plan, root: Path, branch: str, name: str) -> bool:
    from ci_compiler.runner.jobs.publish import is_published

    try:
        return is_published(decided.spec, root, branch, name)
    except StageError as error:
        raise InputError(error.findings) from None
