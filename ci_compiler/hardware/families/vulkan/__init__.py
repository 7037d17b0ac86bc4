"""Vulkan, GPUs of any vendor. Shaders are compiled on the machine: there are no targets."""

from __future__ import annotations

from ci_compiler.hardware.families import NO_TARGETS, Family

FAMILY = Family(name="vulkan", title="Vulkan", targets=NO_TARGETS, lists_products=True)
