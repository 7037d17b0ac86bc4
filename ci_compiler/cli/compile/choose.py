"""`ci-compile choose`: what the current event builds, as outputs of the `select` job of a compiled workflow."""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path

from ci_compiler.cli.changes import changed_since
from ci_compiler.cli.console import append_to
from ci_compiler.cli.where import filter_of, plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, StageError, wrong
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import GitHubEvent, of_pull_request, of_shard
from ci_compiler.reports.summary import left_to_dispatch
from ci_compiler.workflows.pull_request import legs


def run(arguments: argparse.Namespace) -> int:
    """Prints `commit`, `chosen`, `cells`, `matrix` and `listed`, also to $GITHUB_OUTPUT.

    Variants that are left over go to the summary.
    """
    root = root_of(arguments)
    decided, git, event = plan_of(arguments), Git(root), _event()
    changed = partial(changed_since, git, decided)
    if arguments.pull_request:
        choice = of_pull_request(decided, event, changed)
    else:
        shards = {shard.name: shard for shard in decided.shards}
        filter_of(arguments, "shard", shards)
        shard = shards[arguments.shard]
        choice = of_shard(shard, event, changed, lambda name: _published(decided, root, shard.branch, name))
    outputs = {
        "commit": git.resolve("HEAD"),
        "chosen": json.dumps(choice.variants),
        "cells": json.dumps(choice.suffixes),
        "matrix": json.dumps(legs(decided.spec, choice.cells)),
        "listed": json.dumps(legs(decided.spec, choice.cells, listed=True)),
    }
    lines = "".join(f"{key}={value}\n" for key, value in outputs.items())
    append_to("GITHUB_OUTPUT", lines)
    print(lines, end="")
    if choice.left and choice.ref:  # to be dispatched by hand
        append_to("GITHUB_STEP_SUMMARY", left_to_dispatch(decided, choice))
    return 0


def _event() -> GitHubEvent:
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
