"""The keys that `spec.command` declares, as the published schema has them."""

from __future__ import annotations

from ci_compiler.spec.command import Command, CompilerCache, VersionRule
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(Command, CompilerCache, VersionRule)
