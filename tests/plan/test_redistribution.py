"""A public cache gets NVIDIA's libraries only if the spec says that its owner may serve them."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.rules import judge
from tests.specs import small, spec_of

CACHE = {"url": "s3://my-cache", "public-key": f"my-cache-1:{'A' * 43}="}


def missing(cache: dict[str, Any], **changes: Any) -> list[str]:
    """The ends of the findings: the products that the spec should name."""
    found = judge(spec_of(small(cache=CACHE | cache, **changes))).findings
    assert {finding.code for finding in found} <= {"redistribution-unclaimed"}
    return [finding.message.rsplit("redistributes: ", 1)[1].rstrip("`") for finding in found]


@pytest.mark.parametrize(
    ("cache", "products"),
    [
        ({"public": True}, ["[cuda, cudnn]"]),
        ({"public": True, "redistributes": ["cuda"]}, ["[cudnn]"]),
        ({"public": True, "redistributes": ["cuda", "cudnn"]}, []),
        ({"public": True, "push": "own"}, []),
        ({}, []),
    ],
)
def test_whole_closures_in_a_public_cache_need_the_owners_word(cache: dict[str, Any], products: list[str]) -> None:
    assert missing(cache) == products


def test_only_what_is_built_counts() -> None:
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}}
    assert missing({"public": True}, matrix=matrix | {"gpus": {"cpu": {}}}) == []
    assert missing({"public": True}, matrix=matrix | {"gpus": {"sm61": {}}}) == ["[cuda]"]
