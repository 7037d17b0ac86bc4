"""The keys that `spec.suites` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.suites import (
    DeclaredBenchmark,
    ExpectedFailure,
    ExpectedStageFailure,
    FlakyTest,
    Smoke,
    Suite,
    SuiteMatrix,
)
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(DeclaredBenchmark, ExpectedFailure, ExpectedStageFailure, FlakyTest, Smoke, Suite, SuiteMatrix)
