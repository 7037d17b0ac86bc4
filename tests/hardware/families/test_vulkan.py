"""Vulkan compiles for no target."""

from __future__ import annotations

from ci_compiler.hardware.families.vulkan import FAMILY
from tests.hardware.families import runs


def test_there_are_no_targets() -> None:
    assert (FAMILY.name, FAMILY.title) == ("vulkan", "Vulkan")
    assert not any(map(FAMILY.is_target, ("", "all", "vulkan", "spirv", "sm90")))
    assert runs(FAMILY, "vulkan", "vulkan")
