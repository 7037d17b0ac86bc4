"""ROCm: AMD's GPUs, by their LLVM target; `generic.json` has the targets that run generic code, `names.json` the
products of each.

`gfx90a` is a major version in decimal, then the minor one and the stepping as one hexadecimal digit each: nothing
follows from their order. `gfx942:sramecc+:xnack-` fixes features of the target, in alphabetical order. Source: LLVM,
"User Guide for AMDGPU Backend" (target ids, generic processors).
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from functools import cache
from typing import TYPE_CHECKING

from ci_compiler.hardware.families import ALL, CodeTarget, Family, facts

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines

EVERY = "amdgcnspirv"
"""An abstract target, whose code is finished on the machine that runs it."""

_ID = re.compile(
    r"(?P<processor>gfx[1-9][0-9]?([0-9a-f]{2}|(-[0-9]+)?-generic))(?P<features>(:sramecc[+-])?(:xnack[+-])?)"
)


def _runs(machine: CodeTarget, built: CodeTarget) -> bool:
    """Whether code for `built` runs on `machine`: the same processor, or a generic one that covers it.

    A feature that the code leaves open runs with either setting; one that it fixes must be the machine's.
    """
    if built.name in {ALL, EVERY}:
        return True
    own, code = _ID.fullmatch(machine.name), _ID.fullmatch(built.name)
    if not own or not code or code["processor"] not in {own["processor"], *_generic(own["processor"])}:
        return False
    return {*code["features"].split(":")} <= {*own["features"].split(":")}


@cache
def _generic(processor: str) -> frozenset[str]:
    """The generic targets whose code `processor` runs."""
    rows = facts("rocm", "generic")["generic"]
    return frozenset(name for name, row in rows.items() if processor in row["runs_on"])


def listed(target: str, toolkit: str) -> bool:
    """Whether AMD's matrix for Linux lists `target` for the release, or a release of the series, `toolkit`."""
    first = facts("rocm", "toolkits")["windows"].get(_named(target), {}).get("first", "")
    release = _release(toolkit)
    return bool(first) and release >= _release(first)[: len(release)]


def left_out_of(target: str) -> list[str]:
    """The libraries that AMD builds without code for `target`."""
    rows = facts("rocm", "toolkits")["left-out"]
    return [name for name, targets in rows.items() if any(fnmatch(_named(target), one) for one in targets)]


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _named(target: str) -> str:
    """`target` without its features, as pools and specs name a machine."""
    return target.partition(":")[0]


def _machines() -> Machines:
    from ci_compiler.hardware.families.rocm.machines import MACHINES

    return MACHINES


FAMILY = Family(
    name="rocm",
    targets=f"{_ID.pattern}|{EVERY}|{ALL}",
    rule=_runs,
    machines=_machines,
    named=_named,
    **facts("rocm", "words")["family"],
)
