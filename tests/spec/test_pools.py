"""Pools and caches: the keys that the published schema has, how a job addresses machines, and what a pool is for."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.pools import Cache, Pool, Prices, Publish, RunsOn
from ci_compiler.spec.read import read
from ci_compiler.stages import BUILD, PUBLISH
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(Cache, Pool, Prices, Publish, RunsOn)


@pytest.mark.parametrize(
    ("written", "expected", "shown"),
    [
        ("arc-gpu", RunsOn(scale_set="arc-gpu"), "arc-gpu"),
        (["linux", "x64"], RunsOn(labels=("linux", "x64")), "linux, x64"),
        ({"group": "gpu"}, RunsOn(group="gpu"), "group gpu"),
        (
            {"group": "gpu", "labels": ["linux", "x64"]},
            RunsOn(group="gpu", labels=("linux", "x64")),
            "group gpu, linux, x64",
        ),
    ],
)
def test_a_job_addresses_a_pool_by_labels_a_group_or_a_scale_set(written: Any, expected: RunsOn, shown: str) -> None:
    found = read(Pool, {"runs-on": written}, name="pool").runs_on
    assert (found, str(found)) == (expected, shown)


@pytest.mark.parametrize(
    ("keys", "only_publishes"),
    [({}, False), ({"stages": (BUILD, PUBLISH)}, False), ({"stages": (PUBLISH,)}, True)],
)
def test_a_pool_that_publishes_alone_builds_and_tests_nothing(keys: dict[str, Any], *, only_publishes: bool) -> None:
    assert Pool(name="pool", **keys).only_publishes == only_publishes
