"""The keys that `spec.upstream` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.upstream import ActionPin, Update, Upstream
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(ActionPin, Update, Upstream)
