"""Metal compiles for no target."""

from __future__ import annotations

from ci_compiler.hardware.families.metal import FAMILY
from tests.hardware.families import runs


def test_there_are_no_targets() -> None:
    assert (FAMILY.name, FAMILY.title) == ("metal", "Metal")
    assert not any(map(FAMILY.is_target, ("", "all", "metal", "apple7", "sm90")))
    assert runs(FAMILY, "metal", "metal")
