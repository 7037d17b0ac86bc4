"""Metal, Apple's GPUs. Shaders are compiled on the machine: there are no targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_compiler.hardware.families import NO_TARGETS, Family, facts

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines


def _machines() -> Machines:
    from ci_compiler.hardware.families.metal.machines import MACHINES

    return MACHINES


FAMILY = Family(
    name="metal",
    targets=NO_TARGETS,
    aliases=("mps",),
    lists_products=True,
    machines=_machines,
    **facts("metal", "words")["family"],
)
