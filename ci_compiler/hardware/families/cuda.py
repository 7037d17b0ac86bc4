"""CUDA: NVIDIA's GPUs, by their compute capability."""

from __future__ import annotations

from typing import Any

from ci_compiler.hardware.families import Family

ALL = "all"
"""The target of code for every GPU that its toolkit supports, except Tegra's."""


def _runs(machine: Any, built: Any) -> bool:
    """Whether a cubin built for `built` runs on `machine`: same major capability, no lower minor one.

    Tegra GPUs run only code that was built for them, and no other GPU runs that code. A build for `all` GPUs contains
    code for each GPU except Tegra. Source: CUDA C++ Programming Guide, binary compatibility.
    """
    if built.name == built.family:
        return True
    if machine.tegra or built.tegra:
        return bool(machine.name == built.name)
    if built.name == ALL:
        return True
    own, other = machine.capability, built.capability
    return bool(own.major == other.major and own.minor >= other.minor)


FAMILY = Family(name="cuda", title="CUDA", toolkit="CUDA", targets="sm[1-9][0-9]{1,2}|all", runs=_runs)
