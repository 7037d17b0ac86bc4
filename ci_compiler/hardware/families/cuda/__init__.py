"""CUDA: NVIDIA's GPUs, by their compute capability.

`sm90` is machine code (a cubin), `sm90+ptx` has PTX in addition; `sm90a` uses what one GPU has, `sm100f` what its
generation has. Sources: CUDA C++ Programming Guide (binary and PTX compatibility); NVIDIA's blog on CUDA 12.9
(family-specific features); LLVM, "User Guide for NVPTX Back-end".
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ci_compiler.hardware.families import ALL, CodeTarget, Family, facts

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines

_TARGET = re.compile(r"sm_?(?P<major>[1-9][0-9]?)(?P<minor>[0-9])(?P<features>[af]?)(?P<ptx>\+ptx)?")


def _runs(machine: CodeTarget, built: CodeTarget) -> bool:
    """Whether code for `built` runs on `machine`.

    A cubin runs on its own major capability from its own minor one on, and so does all code with `f`; code with `a`
    runs on exactly its capability. Other PTX runs on every later capability. Tegra GPUs run only cubins that were
    built for them, and no other GPU runs those. Code for `all` is for each GPU except Tegra.
    """
    if built.name == ALL:
        return not _is_tegra(machine)
    own, code = _TARGET.fullmatch(machine.name), _TARGET.fullmatch(built.name)
    if not own or not code:
        return False
    has, wants = _capability(own), _capability(code)
    if has <= wants or code["features"] == "a":
        return has == wants
    if code["ptx"] and not code["features"]:
        return True
    return has[0] == wants[0] and not _is_tegra(machine) and not _is_tegra(built)


def _capability(target: re.Match[str]) -> tuple[int, int]:
    return int(target["major"]), int(target["minor"])


def _is_tegra(target: Any) -> bool:
    """Whether `target` is part of a system on a chip: as its row says, or the bundled row of its capability."""
    match = _TARGET.fullmatch(target.name)
    return bool(getattr(target, "on_chip", match and _capability(match) in _tegra()))


@cache
def _tegra() -> frozenset[tuple[int, ...]]:
    rows = facts("cuda", "gpus")["gpus"].values()
    return frozenset(tuple(map(int, row["capability"].split("."))) for row in rows if row.get("on_chip"))


def _next_branch(driver: int) -> int:
    """581, of Windows and WSL, belongs to branch 580, which 585 follows."""
    return driver - driver % 5 + 5


def _machines() -> Machines:
    from ci_compiler.hardware.families.cuda.machines import MACHINES

    return MACHINES


FAMILY = Family(
    name="cuda",
    targets=f"{_TARGET.pattern}|{ALL}",
    rule=_runs,
    tag="cu{digits}",
    next_branch=_next_branch,
    machines=_machines,
    target_of="sm{}{}".format,
    in_pytorch=lambda target: f"sm_{target.removeprefix('sm')}",
    **facts("cuda", "words")["family"],
)
