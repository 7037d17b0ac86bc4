"""The short form of a matrix becomes rows: each GPU with its toolkits, ISAs and Pythons, and the branches of it.

A row has the path that it has in the expanded spec, and the place of what it was made from in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci_compiler.errors import Place
from ci_compiler.hardware import ALL, CPU, Hardware
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.load import Document, Path_
from ci_compiler.spec.read import read
from ci_compiler.spec.shorthand.keys import GpuAxis, ShortMatrix
from ci_compiler.spec.shorthand.lists import TOOLKITS, matrices, put


class Value(NamedTuple):
    """A value of a row, and the path of what it was made from."""

    text: str
    path: Path_


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRow:
    """A GPU on branches that have it with the same toolkits, ISAs and Pythons."""

    axis: GpuAxis
    branches: tuple[str, ...]
    toolkits: tuple[str, ...]
    isas: tuple[Value, ...]
    pythons: tuple[str, ...]
    python_path: Path_

    @property
    def accelerators(self) -> list[str]:
        """What the row has on the axis of accelerators."""
        if self.axis.name == CPU:
            return [CPU]
        return [f"{SHORT_FAMILY} {toolkit} {self.axis.name}" for toolkit in self.toolkits]


def expanded(document: Document, hardware: Hardware) -> tuple[Any, Document]:
    """The value of `document`, which the schema has accepted, with rows; and `document` with the places of the rows."""
    value, values, keys = document.value, dict(document.values), dict(document.keys)
    for path, matrix in short_matrices(document):
        rows = list(rows_of(document.value, hardware, path, matrix))
        written = [_written(row, document.value["branches"]) for row in rows]
        rest = {key: item for key, item in _at(value, path).items() if key == "exclude"}
        value = put(value, path, {"rows": written, **rest})
        for index, row in enumerate(rows):
            values |= _places(document, path, (*path, "rows", index), row, key=False)
            keys |= _places(document, path, (*path, "rows", index), row, key=True)
    branches = {name: _without_python(row) for name, row in value["branches"].items()}
    made = Document(
        file=document.file,
        value=document.value,
        values=values,
        keys=keys,
        typed=document.typed,
        guessed=document.guessed,
    )
    return {**value, "branches": branches}, made


def short_matrices(document: Document) -> Iterator[tuple[Path_, ShortMatrix]]:
    """The matrices of the short form, each with its path."""
    for path, row in matrices(document.value):
        if (matrix := read(ShortMatrix, row)).is_short:
            yield path, matrix


def short_pythons(document: Document) -> Iterator[tuple[Path_, tuple[str, ...]]]:
    """The Pythons of each short matrix, with their path."""
    for path, matrix in short_matrices(document):
        if matrix.pythons:
            yield (*path, "python"), matrix.pythons


def rows_of(value: Any, hardware: Hardware, path: Path_, matrix: ShortMatrix) -> Iterator[ShortRow]:
    """The rows of a short matrix at `path`, GPU by GPU. A GPU needs a toolkit, an ISA and a Python to have one.

    Names that the tables lack are left out: they are errors.
    """
    usual = [isa for isas in matrix.isas.values() for isa in isas]
    for axis in (axis for axis in matrix.gpus if axis.name in {CPU, ALL.name, *hardware.gpus}):
        same: dict[tuple[Any, ...], list[str]] = {}
        for name, branch in value["branches"].items():
            if not axis.branches or name in axis.branches:
                at = (*path, "gpus", axis.name)
                own = [Value(isa, (*at, "isas", index)) for index, isa in enumerate(axis.isas)]
                isas = own or [Value(isa, at) for isa in usual]
                also = (Value(isa, (*at, "also", name, index)) for index, isa in enumerate(axis.also.get(name, ())))
                isas += [one for one in also if one.text not in {isa.text for isa in isas}]
                isas = [one for one in isas if one.text in hardware.isas]
                pythons = tuple(branch.get("python", matrix.pythons))
                there = ("branches", name, "python") if "python" in branch else (*path, "python")
                same.setdefault((_toolkits(branch, axis, hardware), tuple(isas), pythons, there), []).append(name)
        for (toolkits, isas_there, pythons_there, there), names in same.items():
            if isas_there and pythons_there and (toolkits or axis.name == CPU):
                yield ShortRow(
                    axis=axis,
                    branches=tuple(names),
                    toolkits=toolkits,
                    isas=isas_there,
                    pythons=pythons_there,
                    python_path=there,
                )


def toolkits_of(branch: Mapping[str, Any]) -> list[str]:
    """The toolkits of a branch, which it has as one version, a list or a mapping."""
    written = branch.get(TOOLKITS, ())
    return [written] if isinstance(written, str) else list(written)


def _toolkits(branch: Mapping[str, Any], axis: GpuAxis, hardware: Hardware) -> tuple[str, ...]:
    if axis.name == CPU:
        return ()
    known = (one for one in toolkits_of(branch) if one in hardware.toolkits)
    return tuple(one for one in known if not axis.toolkits or one in axis.toolkits)


def _written(row: ShortRow, branches: Mapping[str, Any]) -> dict[str, list[str]]:
    """A row as the spec would have it; `branch` only where it is not on all of them."""
    on = {} if len(row.branches) == len(branches) else {"branch": list(row.branches)}
    isas = [isa.text for isa in row.isas]
    return {**on, "accelerator": row.accelerators, "isa": isas, "python": list(row.pythons)}


def _places(document: Document, path: Path_, at: Path_, row: ShortRow, *, key: bool) -> dict[Path_, Place]:
    """The places of a row at `at`, of the matrix at `path`, and of its values: those of values, or of keys."""
    root = (*path, "gpus", row.axis.name)
    gpu = document.place(root, key=key)
    found = dict.fromkeys((at, (*at, "branch"), (*at, "accelerator"), (*at, "isa")), gpu)
    found |= {at[:-1]: document.place((*path, "gpus"), key=key)}
    found |= {(*at, "python"): document.place(row.python_path, key=key)}
    found |= {(*at, "accelerator", index): gpu for index, _ in enumerate(row.accelerators)}
    return found | {
        (*at, "isa", index): gpu if isa.path == root else document.place(isa.path) for index, isa in enumerate(row.isas)
    }


def _without_python(branch: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in branch.items() if key != "python"}


def _at(value: Any, path: Path_) -> Any:
    for step in path:
        value = value[step]
    return value
