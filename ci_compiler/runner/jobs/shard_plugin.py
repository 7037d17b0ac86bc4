"""Divides the tests of a suite among its shards by recorded times. As a plugin of pytest, it runs those of one shard.

pytest loads it in the environment of what is tested, which has no `ci_compiler`: it imports the standard library alone.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

TIMES, SHARD, SHARDS, DONE = "CI_SUITE_TIMES", "CI_SUITE_SHARD", "CI_SUITE_SHARDS", "CI_SUITE_DIVIDED"
"""The variables with the file of the recorded times, the shard, the number of shards, and the file that the plugin
writes when it has divided the tests."""


def divided(times: dict[str, float], shards: int) -> dict[str, int]:
    """The shard (from 1) of each test in `times` (seconds): the longest first, to the shard with the least to do."""
    loads, found = [0.0] * shards, {}
    for test in sorted(times, key=lambda name: (-times[name], name)):
        least = loads.index(min(loads))
        found[test], loads[least] = least + 1, loads[least] + times[test]
    return found


def shard_of_test(test: str, known: dict[str, int], shards: int) -> int:
    """The shard of a test. It follows from the name and the recorded times alone, so no test is lost between shards."""
    return known.get(test) or zlib.crc32(test.encode()) % shards + 1


def test_name_of(node: str) -> str:
    """What the JUnit file calls the test with this id of pytest (`tests/test_ops.py::TestAdd::test_one[cpu]`)."""
    path, bracket, parameters = node.partition("[")
    first, *names = path.split("::")
    return ".".join([first.removesuffix(".py").replace("/", "."), *names]) + bracket + parameters


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leaves the tests of this shard; pytest calls it when it has found all tests."""
    shard, shards = int(os.environ[SHARD]), int(os.environ[SHARDS])
    known = divided(json.loads(Path(os.environ[TIMES]).read_text("utf-8")), shards)
    others: list[Any] = []
    own: list[Any] = []
    for item in items:
        is_own = shard_of_test(test_name_of(item.nodeid), known, shards) == shard
        (own if is_own else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = own
    Path(os.environ[DONE]).touch()
