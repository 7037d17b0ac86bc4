"""Compilations and tests of the same content, counted over every event that builds it, each on a machine of its own."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.runner.jobs.test_records import MANIFEST, SUITE, cached, smoke_result
from tests.runner.jobs.world import SPEC, TORCH, World, ci_runner

__all__ = ["cached"]

EVENTS = ("pull_request", "pull_request", "merge_group", "push", "schedule", "workflow_dispatch")
"""A pull request that is pushed to without a change, its queue, the merge, which publishes, and what follows it."""

PUBLISHES = EVENTS.index("push")
"""The first of `EVENTS` that publishes."""


def stages_run(world: World, event: str, machine: str) -> tuple[int, int, int]:
    """The compilations, smoke tests and suites that a run of `event` takes on a `machine` with a store of its own."""
    world.use_store(machine)
    world.patch.setenv("GITHUB_EVENT_NAME", event)
    ran = world.folder / "ran"
    before = len(ran.read_text("utf-8")) if ran.exists() else 0
    results = world.folder / "results"
    shutil.rmtree(results, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NIX_CONFIG", f"{os.environ['NIX_CONFIG']}secret-key-files = {world.folder}/builder.secret\n")
        assert world.build() == 0
    tested = not smoke_result()["recorded"]
    shutil.copytree("test-output", results / "cpu-test")
    assert ci_runner("suite", TORCH, "--suite", "unit", *MANIFEST) == 0
    shutil.copytree("test-output", results / "suite")
    suites = len(ran.read_text("utf-8")) - before if ran.exists() else 0
    return int(world.manifest["built"]), int(tested), suites // len("ran\n")


def counted(world: World, **cache: object) -> list[tuple[int, int, int]]:
    """The same for each of `EVENTS`, in a fleet with a cache that has these keys as well."""
    torch = {"attribute": "torch", "suites": {"unit": SUITE | {"shards": 1}}}
    world.spec(packages=SPEC["packages"] | {"pytorch": torch}, cache=world.cache() | cache)
    world.commit()
    world.key()
    counts = []
    for number, event in enumerate(EVENTS):
        counts.append(stages_run(world, event, f"machine-{number}"))
        if number >= PUBLISHES:
            place = ("--branch", "main", "--commit", world.manifest["commit"], *MANIFEST)
            assert ci_runner("publish", TORCH, *place, "--results", str(world.folder / "results")) == 0
    return counts


def test_the_same_derivation_is_compiled_once_and_tested_once_per_trust(cached: World) -> None:
    builder = cached.cache("builder")["public-key"]
    counts = counted(cached, **{"staging": f"file://{cached.folder}/staging", "builder-keys": [builder]})
    assert counts == [
        *((1, 1, 1), (0, 0, 0), (0, 0, 0)),
        (0, 1, 1),  # what may publish believes no test of a request
        *((0, 0, 0), (0, 0, 0)),
    ]
