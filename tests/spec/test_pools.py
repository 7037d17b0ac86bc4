"""The keys that `spec.pools` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.pools import Cache, Pool, Prices, Publish
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(Cache, Pool, Prices, Publish)
