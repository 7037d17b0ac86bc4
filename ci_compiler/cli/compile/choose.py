"""`ci-compile choose`: what the current event builds, as outputs of the `select` job of a compiled workflow."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import SPEC, add_spec, root_of, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from ci_compiler.git import Git
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.selection import GitHubEvent, RunSelection


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the two kinds of runs."""
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--shard", metavar="NAME", help="a run of this shard's workflow")
    kind.add_argument("--pull-request", action="store_true", help="a run of the pull request workflow")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints `commit`, `chosen`, `cells`, `matrix` and `listed`, also to $GITHUB_OUTPUT.

    Variants that are left over go to the summary.
    """
    from ci_compiler.errors import nearest, wrong
    from ci_compiler.git import Git
    from ci_compiler.plan.pipeline import plan
    from ci_compiler.plan.selection import of_pull_request, of_shard
    from ci_compiler.workflows.pull_request import legs

    root = root_of(arguments)
    decided, git, event = plan(spec_of(arguments)), Git(root), _event()

    def affected(base: str, branch: str) -> Sequence[str]:
        return _affected(git, decided, base, branch)

    if arguments.pull_request:
        choice = of_pull_request(decided, event, affected)
    else:
        shards = {shard.name: shard for shard in decided.shards}
        if arguments.shard not in shards:
            message = f"unknown shard {arguments.shard!r}{nearest(arguments.shard, shards)}"
            raise wrong("--shard", Code.UNKNOWN_SHARD, message)
        shard = shards[arguments.shard]
        choice = of_shard(decided, shard, event, affected, lambda name: _published(decided, root, shard.branch, name))
    outputs = {
        "commit": git.resolve("HEAD"),
        "chosen": json.dumps(choice.variants),
        "cells": json.dumps(choice.suffixes),
        "matrix": json.dumps(legs(choice.cells)),
        "listed": json.dumps(legs(choice.cells, listed=True)),
    }
    _write(outputs)
    _summarise(decided, choice)
    return 0


def _event() -> GitHubEvent:
    """The event in GITHUB_EVENT_NAME and the file at GITHUB_EVENT_PATH."""
    from ci_compiler.errors import wrong
    from ci_compiler.plan.selection import GitHubEvent

    name, path = os.environ.get("GITHUB_EVENT_NAME", ""), os.environ.get("GITHUB_EVENT_PATH", "")
    try:
        payload = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"GITHUB_EVENT_PATH names no event ({error}); `choose` runs in a GitHub Actions job"
        raise wrong("event", Code.NO_EVENT, message) from None
    return GitHubEvent(name=name, payload=payload)


def _affected(git: Git, decided: Plan, base: str, branch: str) -> Sequence[str]:
    """The variants that changed since `base`; all of the branch if `base` is gone (a forced push)."""
    from ci_compiler.cli.console import note
    from ci_compiler.errors import InputError
    from ci_compiler.recipes.affected import affected

    head = git.resolve("HEAD")
    try:
        start = git.merge_base(git.resolve(base), head)
    except InputError:
        note(f"the commit {base} is not in the history; everything counts as changed")
        return [name for shard in decided.shards if shard.branch == branch for name in shard.variants]
    found = affected(git, base=start, head=head, spec_path=SPEC.as_posix(), spec=decided.spec, branch=branch)
    return [one.name for one in found]


def _published(decided: Plan, root: Path, branch: str, name: str) -> bool:
    from ci_compiler.errors import InputError, StageError
    from ci_compiler.runner.jobs.publish import is_published

    try:
        return is_published(decided.spec, root, branch, name)
    except StageError as error:
        raise InputError(error.findings) from None


def _write(outputs: Mapping[str, str]) -> None:
    lines = "".join(f"{key}={value}\n" for key, value in outputs.items())
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(lines)
    print(lines, end="")


def _summarise(decided: Plan, choice: RunSelection) -> None:
    """Adds the variants that must be dispatched by hand to the run's summary."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path or not choice.left:
        return
    from ci_compiler.reports.summary import left_to_dispatch

    with Path(path).open("a", encoding="utf-8") as file:
        file.write(left_to_dispatch(decided, choice))
