"""Metal, Apple's GPUs. Shaders are compiled on the machine: there are no targets."""

from __future__ import annotations

from ci_compiler.hardware.families import NO_TARGETS, Family

FAMILY = Family(
    name="metal",
    title="Metal",
    targets=NO_TARGETS,
    only_on="macOS",
    aliases=("mps",),
    lists_products=True,
    device="mps",
)
