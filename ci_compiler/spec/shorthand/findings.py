"""Findings about the short form of a matrix, at the places where the file has it."""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest, unknown
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.pairs import hardware_problems
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.spec.shorthand.keys import GpuAxis, ShortMatrix
from ci_compiler.spec.shorthand.lists import matrices
from ci_compiler.spec.shorthand.rows import ShortRow, rows_of, short_matrices, toolkits_of
from ci_compiler.spec.unknown_names import isa_of_system, known_branches, look_up, why_unknown

_AXIS = {"python": "python", "isas": "isa", "gpus": "accelerator"}
"""The keys of the short form, and the axes that have their entries in rows."""


def short_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each name that nothing declares, and for each entry without effect."""
    for path, row in matrices(spec.document.value):
        for short in _AXIS.keys() & row.keys() if {"values", "rows"} & row.keys() else ():
            write = f"write its entries as values of `{_AXIS[short]}`"
            message = f"`{short}` has no effect beside `values` and `rows`; {write}"
            yield spec.finding((*path, short), Code.WRONG_VALUE, message, key=True)
    for path, matrix in short_matrices(spec.document):
        yield from _names(spec, path, matrix)
        rows = list(rows_of(spec.document.value, spec.hardware, path, matrix))
        yield from _without_rows(spec, path, matrix, rows)
        yield from _impossible(spec, path, rows)


def _names(spec: Spec, at: Path_, matrix: ShortMatrix) -> Iterator[Finding]:
    for system, isas in matrix.isas.items():
        path: Path_ = (*at, "isas", system)
        if system not in spec.hardware.systems:
            message = why_unknown(path, system) or unknown(Code.UNKNOWN_SYSTEM, system, spec.hardware.systems)
            yield spec.finding(path, Code.UNKNOWN_SYSTEM, message, key=True)
        others = [
            finding for index, isa in enumerate(isas) for finding in isa_of_system(spec, (*path, index), isa, system)
        ]
        yield from others if any(finding.code is not Code.ISA_SYSTEM for finding in others) else others[:1]
    for axis in matrix.gpus:
        yield from _gpu(spec, (*at, "gpus", axis.name), axis)
    packages = next(packages for path, _, packages in spec.matrices if path == at)
    for name, branch in spec.document.value["branches"].items():
        if not (branch.get("python") or matrix.pythons) and any(package.on(name) for package in packages):
            message = f"no Python version for branch {name}; add `python` here or to the branch"
            yield spec.finding(at, Code.MISSING_PYTHON, message, key=True)


def _gpu(spec: Spec, root: Path_, axis: GpuAxis) -> Iterator[Finding]:
    if axis.name != CPU:
        yield from look_up(spec, root, spec.hardware.gpu, axis.name, key=True, extra=CPU)
    yield from known_branches(spec, (*root, "branches"), axis.branches)
    for index, kit in enumerate(axis.toolkits):
        if kit not in spec.toolkits:
            message = f"no branch builds with {family_of(DEFAULT).toolkit} {kit}{nearest(kit, spec.toolkits)}"
            yield spec.finding((*root, DEFAULT, index), Code.UNKNOWN_TOOLKIT, message)
    for index, isa in enumerate(axis.isas):
        yield from look_up(spec, (*root, "isas", index), spec.hardware.isa, isa)
    for branch, isas in axis.also.items():
        path = (*root, "also", branch)
        yield from known_branches(spec, path, (branch,), key=True)
        if axis.branches and branch in spec.branches and branch not in axis.branches:
            message = f"{axis.name} is not built on {branch}, so `also` adds nothing there"
            yield spec.finding(path, Code.UNUSED_ALSO, message, key=True)
        for index, isa in enumerate(isas):
            yield from look_up(spec, (*path, index), spec.hardware.isa, isa)


def _without_rows(spec: Spec, at: Path_, matrix: ShortMatrix, rows: list[ShortRow]) -> Iterator[Finding]:
    """An error for each GPU of which no row is made, since no branch has a toolkit for it; and if there are no ISAs."""
    if not any(matrix.isas.values()) and not any(row.isas for row in rows):
        message = "no variant is left; nothing would be built; list an ISA, such as avx2"
        yield spec.finding((*at, "isas"), Code.EMPTY_MATRIX, message)
        return
    for axis in matrix.gpus:
        on = [row for name, row in spec.document.value["branches"].items() if name in (axis.branches or [name])]
        kits = [kit for row in on for kit in toolkits_of(row)]
        known = {*axis.branches} <= {*spec.branches} and {*axis.toolkits} <= {*spec.toolkits}
        if known and axis.name != CPU and not any(not axis.toolkits or kit in axis.toolkits for kit in kits):
            why = "no branch of it has a toolkit for it" if spec.toolkits else "no branch has a toolkit"
            message = f"no variant is built for {axis.name}: {why}; write `{DEFAULT}: VERSION` in one"
            yield spec.finding((*at, "gpus", axis.name), Code.UNUSED_GPU, message, key=True)
            if not spec.toolkits:
                return  # the reason is that of every GPU


def _impossible(spec: Spec, at: Path_, rows: list[ShortRow]) -> Iterator[Finding]:
    """An error for each GPU that the spec names for a toolkit or an ISA with which it cannot exist."""
    for row in rows:
        gpu, root = spec.hardware.gpus.get(row.axis.name), (*at, "gpus", row.axis.name)
        for branch in row.branches:
            several = len(spec.branches[branch].toolkits) > 1
            named = bool(row.axis.toolkits) or (bool(row.axis.branches) and not several)
            for toolkit, isa in ((toolkit, isa) for toolkit in row.toolkits for isa in row.isas):
                kit, system = spec.hardware.toolkits.get(toolkit), spec.hardware.isa(isa.text).system
                problem = next(hardware_problems(gpu, kit, system), None) if gpu and kit else None
                explicit = {Code.GPU_HOST: isa.path != root}
                if problem and explicit.get(problem[0], named or ("also" in isa.path and not several)):
                    message = f"{row.axis.name} with {isa.text} on {branch}: {problem[1]}"
                    yield spec.finding(isa.path, problem[0], message)
