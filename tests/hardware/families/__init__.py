"""The families of accelerators: their targets, and which of them runs what."""

from __future__ import annotations

from ci_compiler.hardware.families import Family, NamedTarget


def runs(family: Family, machine: str, built: str) -> bool:
    return family.runs(NamedTarget(machine, family.name), NamedTarget(built, family.name))


def what_runs(family: Family, machine: str, built: str) -> list[str]:
    """The words of `built` that name targets, and whose code `machine` runs."""
    assert all(map(family.is_target, built.split()))
    return [one for one in built.split() if runs(family, machine, one)]
