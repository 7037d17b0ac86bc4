"""Variants for which a run asks no machine, since an earlier run completed them."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.complete import may_be_complete, stays_complete
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import plan
from tests.specs import CACHE, small, spec_of

KEYS = {"builder-keys": ["builder-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="]}
WITH_KEYS: dict[str, Any] = {"cache": CACHE["cache"] | KEYS}
COMMAND = {"build": "b", "files": ["f"], "publish": "p", "install": "i"}
FAILURE = {"variants": "pytorch-*", "stage": "cpu-test", "because": "no kernels", "until": "2027-03-31"}
SUITE = {"command": "x", "minutes": 5, "junit": "r.xml"}
LISTED = [{"test": "t", "because": "no kernels", "until": "2027-03-31"}]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        (CACHE, False),
        (WITH_KEYS, True),
        ({"backend": "command", "packages": {"pytorch": {"command": COMMAND}}}, False),
    ],
)
def test_a_spec_lets_runs_leave_out_what_is_complete(changes: dict[str, Any], *, expected: bool) -> None:
    document = small(**changes)
    if "backend" in changes:
        document["branches"]["main"]["versions"] = {"pytorch": "1.0"}
        del document["branches"]["main"]["nixpkgs"], document["branches"]["main"]["nixpkgs-hash"]
    assert may_be_complete(spec_of(document), "pytorch") is expected


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        (WITH_KEYS, True),
        ({}, False),
        (WITH_KEYS | {"expected-failures": [FAILURE]}, False),
        (WITH_KEYS | {"packages": {"pytorch": {"suites": {"s": SUITE}}, "torchvision": {}}}, True),
        (
            WITH_KEYS
            | {"packages": {"pytorch": {"suites": {"s": SUITE | {"expected-failures": LISTED}}}, "torchvision": {}}},
            False,
        ),
    ],
)
def test_what_excuses_a_failure_up_to_a_day_is_never_complete(changes: dict[str, Any], *, stays: bool) -> None:
    decided = plan(spec_of(small(**changes)))
    (built,) = built_variants(decided, "pytorch-python313-cpu-avx2")
    assert stays_complete(built) is stays
