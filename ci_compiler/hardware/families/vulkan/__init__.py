"""Vulkan, GPUs of any vendor. Shaders are compiled on the machine: there are no targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_compiler.hardware.families import NO_TARGETS, Family

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines


def _machines() -> Machines:
    from ci_compiler.hardware.families.vulkan.machines import MACHINES

    return MACHINES


FAMILY = Family(name="vulkan", title="Vulkan", targets=NO_TARGETS, lists_products=True, machines=_machines)
