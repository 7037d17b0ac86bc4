"""The keys that `spec.recipe_keys` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.packages import Package
from ci_compiler.spec.recipe_keys import WorkAround
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(Package, WorkAround)
