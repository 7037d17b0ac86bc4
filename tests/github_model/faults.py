"""Faults for the model to find: each is an edit of compiled workflows, and a scenario in which it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.github_model.explore import (
    FAILS,
    LOST,
    NEVER_PUBLISHED,
    WAITS,
    Scenario,
    dispatch,
    pause,
    push,
)
from tests.github_model.scenarios import FIRST, Stack, request, waves
from tests.github_model.tree import Document

Job = dict[str, Any]
Edit = Callable[[Document, Mapping[str, Document]], None]

_PAUSES = re.compile(
    r" && !contains\(format\(' \{0\} ', vars\.CI_PAUSED\), (?:'[^']*'|format\((?:[^()]|\([^()]*\))*\))\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An edit, what may happen then, and the violation that it leads to."""

    edit: Edit
    scenario: Callable[[Stack], Scenario]
    kind: str


def _runs(job: Job, command: str) -> bool:
    return any(str(step.get("run", "")).startswith(command) for step in job.get("steps", ()))


def _in_jobs(command: str, change: Callable[[Job], None]) -> Edit:
    """Changes the jobs that run a command."""

    def edit(document: Document, _: Mapping[str, Document]) -> None:
        for job in document["jobs"].values():
            if _runs(job, command):
                change(job)

    return edit


def _in_top_jobs(command: str, change: Callable[[Job], None]) -> Edit:
    """Changes the jobs of whole runs that run a command, or that call a workflow whose job does."""

    def edit(document: Document, files: Mapping[str, Document]) -> None:
        for job in document["jobs"].values() if "workflow_call" not in document["on"] else ():
            called = files.get(job.get("uses", "").rpartition("/")[2], {"jobs": {}})["jobs"]
            if any(_runs(one, command) for one in (job, *called.values())):
                change(job)

    return edit


def _without(text: str) -> Callable[[Job], None]:
    def change(job: Job) -> None:
        job["if"] = job.get("if", "").replace(text, "")

    return change


def _loses_needs(*kept: str) -> Callable[[Job], None]:
    def change(job: Job) -> None:
        if job.get("needs"):
            job["needs"] = [need for need in job["needs"] if need.startswith(kept)]

    return change


def _group_of_publishing(job: Job) -> None:
    if "concurrency" in job:
        job["concurrency"]["group"] += "-${{ github.run_id }}"


def _publish_untested(job: Job) -> None:
    for step in job["steps"]:
        if str(step.get("run", "")).startswith("ci-runner publish-run "):
            step["run"] = "ci-runner publish results"


def _asked_once(document: Document, _: Mapping[str, Document]) -> None:
    """Only the jobs that no other job calls, and that publish nothing, still ask for a pause."""
    if "workflow_call" in document["on"]:
        for job in document["jobs"].values():
            job["if"] = _PAUSES.sub("", job.get("if", ""))


def _no_queue(document: Document, _: Mapping[str, Document]) -> None:
    document.get("concurrency", {}).pop("queue", None)


def _one_waits(document: Document, mapping: Mapping[str, Document]) -> None:
    """All pushes share a group, in which one waits."""
    group = document.get("concurrency", {}).get("group", "")
    document.get("concurrency", {})["group"] = group.replace(" || github.run_id", "")
    _no_queue(document, mapping)


def _no_limit(job: Job) -> None:
    job.pop("timeout-minutes", None)


def _grants_nothing(document: Document, _: Mapping[str, Document]) -> None:
    if all("uses" in job for job in document["jobs"].values()):
        document["permissions"] = {}


def _group_of_run(document: Document, _: Mapping[str, Document]) -> None:
    if "concurrency" in document and "push" in document["on"]:
        document["concurrency"]["group"] = "the-group"
    for job in document["jobs"].values():
        if "concurrency" in job:
            job["concurrency"]["group"] = "the-group"


def _one_push(stack: Stack, *, mishaps: int = 0) -> Scenario:
    return Scenario(world=stack.world(), happenings=stack.pushes()[:1], mishaps=mishaps)


def _three_pushes(stack: Stack) -> Scenario:
    files = [f".flox/pkgs/{name}.nix" for name in stack.variants(0)]
    world = stack.world()
    world = replace(world, changed={**world.changed, "e5f6": stack.variants(0)})
    third = push("third push", "e5f6", stack.branch, files, after="second push")
    return Scenario(world=world, happenings=[*stack.pushes(), third])


def _push_and_dispatch(stack: Stack) -> Scenario:
    form = dispatch("dispatch", stack.file, stack.branch, after="first push", variant="all", publish=True)
    return Scenario(world=stack.world(), happenings=[stack.pushes()[0], form])


def _dispatch(stack: Stack) -> Scenario:
    form = dispatch("dispatch", stack.file, stack.branch, variant="all")
    return Scenario(world=stack.world(), happenings=[form], tip=FIRST)


def _push_and_pause(stack: Stack) -> Scenario:
    return Scenario(world=stack.world(), happenings=[stack.pushes()[0], pause("all")[0]])


FAULTS: Mapping[str, Fault] = {
    "a called job without !cancelled()": Fault(
        edit=_in_top_jobs("ci-runner build ", _without("!cancelled() && ")), scenario=_dispatch, kind=FAILS
    ),
    "pushes that replace each other": Fault(edit=_one_waits, scenario=_three_pushes, kind=NEVER_PUBLISHED),
    "a group of publishing for each run": Fault(
        edit=_in_jobs("ci-runner publish-run ", _group_of_publishing),
        scenario=_push_and_dispatch,
        kind="published twice",
    ),
    "a test that does not need its build": Fault(
        edit=_in_jobs("ci-runner smoke ", _loses_needs("nothing")), scenario=_dispatch, kind=FAILS
    ),
    "publishing that does not need the cells": Fault(
        edit=_in_top_jobs("ci-runner publish-run ", _loses_needs("select", "preflight")), scenario=_one_push, kind=FAILS
    ),
    "publishing that does not need its preflight": Fault(
        edit=_in_top_jobs("ci-runner publish-run ", _loses_needs("select", "python")),
        scenario=_one_push,
        kind=FAILS,
    ),
    "a verdict that does not need the cells": Fault(
        edit=_in_jobs(
            "for result in", _loses_needs("select", "preflight", "publish", "compiled", "recipes", "meaning")
        ),
        scenario=lambda stack: request(stack, mishaps=1),
        kind=FAILS,
    ),
    "publishing without the tests": Fault(
        edit=_in_jobs("ci-runner publish-run ", _publish_untested),
        scenario=lambda stack: _one_push(stack, mishaps=1),
        kind="published untested",
    ),
    "a pause that only publishing asks for": Fault(edit=_asked_once, scenario=_push_and_pause, kind="a pause ignored"),
    "waves without a queue": Fault(
        edit=_no_queue, scenario=lambda stack: waves(stack, "one", "two", "three"), kind=LOST
    ),
    "a shard that grants nothing": Fault(edit=_grants_nothing, scenario=_one_push, kind=FAILS),
    "a build without a time limit": Fault(edit=_in_jobs("ci-runner build ", _no_limit), scenario=_one_push, kind=WAITS),
    "publishing in the group of its own run": Fault(edit=_group_of_run, scenario=_one_push, kind=WAITS),
}
"""What is seeded."""
