"""ROCm: AMD's GPUs, by their LLVM target; `generic.json` has the targets that run generic code, `names.json` the
products of each.

`gfx90a` is a major version in decimal, then the minor one and the stepping as one hexadecimal digit each: nothing
follows from their order. `gfx942:sramecc+:xnack-` fixes features of the target, in alphabetical order. Source: LLVM,
"User Guide for AMDGPU Backend" (target ids, generic processors).
"""

from __future__ import annotations

import re
from functools import cache

from ci_compiler.hardware.families import ALL, Family, Target, facts

_EVERY = "amdgcnspirv"
"""An abstract target, whose code is finished on the machine that runs it."""

_ID = re.compile(
    r"(?P<processor>gfx[1-9][0-9]?([0-9a-f]{2}|(-[0-9]+)?-generic))(?P<features>(:sramecc[+-])?(:xnack[+-])?)"
)


def _runs(machine: Target, built: Target) -> bool:
    """Whether code for `built` runs on `machine`: the same processor, or a generic one that covers it.

    A feature that the code leaves open runs with either setting; one that it fixes must be the machine's.
    """
    if built.name in {ALL, _EVERY}:
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


FAMILY = Family(
    name="rocm",
    title="ROCm",
    toolkit="ROCm",
    targets=f"{_ID.pattern}|{_EVERY}|{ALL}",
    rule=_runs,
    lists_products=True,
    language="HIP",
    device="cuda",  # as PyTorch spells it
)
