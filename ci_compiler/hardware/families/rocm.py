"""ROCm: AMD's GPUs, by their LLVM target.

Sources: LLVM, "User Guide for AMDGPU Backend" (target ids, generic processors).
"""

from __future__ import annotations

import re

from ci_compiler.hardware.families import Family, Target

_GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}
"""The targets that run code of a generic one."""

_EVERY = "amdgcnspirv"
"""An abstract target, whose code is finished on the machine that runs it."""

_ID = re.compile(r"(?P<processor>gfx[0-9a-f]+(-[0-9a-z]+)*|amdgcnspirv|all)(?P<features>(:[a-z]+[+-])*)")


def _parts(name: str) -> tuple[str, frozenset[str]]:
    found = _ID.fullmatch(name)
    return (found["processor"], frozenset(found["features"].split(":")[1:])) if found else (name, frozenset())


def _runs(machine: Target, built: Target) -> bool:
    """Whether code for `built` runs on `machine`: the same processor, or a generic one that covers it.

    A feature that the code leaves open runs with either setting; one that it fixes must be the machine's.
    """
    if built.name in {built.family, "all"}:
        return True
    (own, has), (other, wants) = _parts(machine.name), _parts(built.name)
    return other == _EVERY or ((other == own or own in _GENERIC.get(other, ())) and wants <= has)


FAMILY = Family(name="rocm", title="ROCm", toolkit="ROCm", targets=_ID.pattern, runs=_runs)
