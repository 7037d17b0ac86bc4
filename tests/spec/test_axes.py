"""The keys that `spec.axes` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.axes import Exclusion, GpuAxis, Join, Matrix
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(Exclusion, GpuAxis, Join, Matrix)
