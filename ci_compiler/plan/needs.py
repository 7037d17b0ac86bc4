"""Which variant of a needed package a variant is built with: one whose values equal its own, or serve them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Spec


def serves(spec: Spec, axis: str, value: str, wanted: str) -> bool:
    """Whether a build with `value` on `axis` can be used where `wanted` is asked for; an absent value serves all."""
    if value in {"", wanted}:
        return True
    row = spec.axes.get(axis)
    if row and wanted in row.serves.get(value, ()):
        return True
    gpus = spec.hardware.gpus
    return axis == "target" and value in gpus and wanted in gpus and gpus[wanted].runs_code_of(gpus[value])


class Needs:
    """The variants that others are built with, among all cells of a plan.

    Cells of the short form hold all that their variants need; only those of open matrices are searched.
    """

    def __init__(self, spec: Spec, cells: Iterable[Cell]) -> None:
        self.spec = spec
        self._cells = tuple(cells)

    @cached_property
    def _holding(self) -> Mapping[tuple[str, str], list[tuple[Cell, Variant]]]:
        """The cells that hold a package, by branch and package."""
        found: dict[tuple[str, str], list[tuple[Cell, Variant]]] = {}
        for cell in self._cells:
            for variant in cell.variants:
                found.setdefault((cell.branch, variant.package), []).append((cell, variant))
        return found

    def found(self, cell: Cell, need: str) -> list[tuple[Cell, Variant]]:
        """The variants of the package `need` that serve `cell`: the nearest, or several if none is nearer."""
        own = next((variant for variant in cell.variants if variant.package == need), None)
        if own or cell.listed:
            return [(cell, own)] if own else []
        if not cell.named:
            return []
        wanted = cell.axes
        if exact := self._exact(cell.branch, need, wanted):
            return exact
        fitting = [
            (sum(wanted.get(axis) == value for axis, value in other.axes.items()), other, variant)
            for other, variant in self._holding.get((cell.branch, need), ())
            if all(axis not in wanted or self._serves(axis, value, wanted[axis]) for axis, value in other.axes.items())
        ]
        most = max((alike for alike, _, _ in fitting), default=0)
        return [(other, variant) for alike, other, variant in fitting if alike == most]

    def _exact(self, branch: str, need: str, wanted: Mapping[str, str]) -> list[tuple[Cell, Variant]]:
        """Those with no value but the ones that are wanted, if no other variant can be nearer; else []."""
        shapes = self._shapes.get((branch, need), {})
        alike = {axes: sum(axis in wanted for axis in axes) for axes in shapes}
        best = max(alike.values(), default=0)
        nearest = [axes for axes, count in alike.items() if count == best]
        if any(alike[axes] < len(axes) for axes in nearest):
            return []
        held = (shapes[axes].get(tuple(wanted[axis] for axis in axes)) for axes in nearest)
        return list(filter(None, held))

    @cached_property
    def _shapes(self) -> Mapping[tuple[str, str], dict[tuple[str, ...], dict[tuple[str, ...], tuple[Cell, Variant]]]]:
        """The cells that hold a package, by branch and package, by their axes, and by their values on these."""
        found: dict[tuple[str, str], dict[tuple[str, ...], dict[tuple[str, ...], tuple[Cell, Variant]]]] = {}
        for key, held in self._holding.items():
            for cell, variant in held:
                axes = cell.axes
                of_shape = found.setdefault(key, {}).setdefault(tuple(sorted(axes)), {})
                of_shape[tuple(axes[axis] for axis in sorted(axes))] = (cell, variant)
        return found

    def _serves(self, axis: str, value: str, wanted: str) -> bool:
        return serves(self.spec, axis, value, wanted)

    def of(self, cell: Cell, package: str) -> Iterator[tuple[Cell, Variant]]:
        """The variants that the variant of `package` in `cell` is built with, without those of other repositories."""
        for need in () if cell.listed else self.spec.packages[package].needs:
            yield from self.found(cell, need)[:1]

    def cells_before(self, cell: Cell) -> list[Cell]:
        """The other cells with a variant that one of `cell` is built with."""
        if not cell.named:
            return []
        every = (other for variant in cell.variants for other, _ in self.of(cell, variant.package))
        return list(dict.fromkeys(other for other in every if other != cell))
