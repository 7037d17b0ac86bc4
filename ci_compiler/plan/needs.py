"""The variants that a variant is built with: those whose values equal its own or serve them, or that an edge names.

`Needs.links` gives those of one variant, with the kind of each edge: `needs` takes one variant, `gathers` every match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ci_compiler.hardware import ALL
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.edges import GATHERS, Edge
from ci_compiler.spec.model import Spec


def serves(spec: Spec, axis: str, value: str, wanted: str) -> bool:
    """Whether a build with `value` on `axis` can be used where `wanted` is asked for; an absent value serves all."""
    if value in {"", wanted}:
        return True
    if wanted in served_by(spec, axis, value):
        return True
    gpus = spec.hardware.gpus
    if axis != "target" or value not in {*gpus, ALL.name} or wanted not in gpus:
        return False
    return gpus[wanted].runs_code_of(spec.hardware.gpu(value))


def served_by(spec: Spec, axis: str, value: str) -> tuple[str, ...]:
    """The values that the spec says `value` serves on `axis`."""
    row = spec.axes.get(axis)
    return row.serves.get(value, ()) if row else ()


class Link(NamedTuple):
    """A variant that another one is built with, its cell, and the kind of the edge that leads to it."""

    kind: str
    cell: Cell
    variant: Variant


def hands_files(spec: Spec, package: str = "") -> bool:
    """Whether variants of `package` ('': of any) are built and tested with the files of others."""
    asked = [spec.packages[package]] if package else spec.packages.values()
    return spec.backend.uses_artifacts and any(one.edges or one.gathers for one in asked)


def is_fetched(spec: Spec, package: str) -> bool:
    """Whether the files of `package` can be fetched from where they are published."""
    command = spec.packages[package].command
    return bool(command and command.fetch)


class Needs:
    """The variants that others are built with, among all cells of a plan: in the same cell, or else the nearest."""

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
        return self._nearest(cell.branch, need, [cell.axes])

    def _nearest(self, branch: str, need: str, wanted: Sequence[Mapping[str, str]]) -> list[tuple[Cell, Variant]]:
        if len(wanted) == 1 and (exact := self._exact(branch, need, *wanted)):
            return exact
        fitting = list(self._fitting(branch, need, wanted))
        most = max((alike for alike, _, _ in fitting), default=0)
        return [(other, variant) for alike, other, variant in fitting if alike == most]

    def _fitting(
        self, branch: str, need: str, wanted: Sequence[Mapping[str, str]]
    ) -> Iterator[tuple[int, Cell, Variant]]:
        """The variants whose values equal or serve one of `wanted`, each with the number of values that are equal."""
        for other, variant in self._holding.get((branch, need), ()):
            axes = other.axes
            alike = [
                sum(one.get(axis) == value for axis, value in axes.items())
                for one in wanted
                if all(axis not in one or serves(self.spec, axis, value, one[axis]) for axis, value in axes.items())
            ]
            if alike:
                yield max(alike), other, variant

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

    def holding(self, branch: str, package: str) -> Iterable[tuple[Cell, Variant]]:
        """The variants of `package` on `branch`, each with its cell."""
        return self._holding.get((branch, package), ())

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

    def values_of(self, branch: str, package: str, axis: str) -> set[str]:
        """The values on `axis` that variants of `package` have on `branch`."""
        return {cell.axes[axis] for cell, _ in self._holding.get((branch, package), ()) if axis in cell.axes}

    def edges(self, cell: Cell, package: str) -> Iterator[tuple[str, Edge]]:
        """The edges that hold for the variant of `package` in `cell`, each with its kind."""
        for kind, edges in () if cell.listed else self.spec.packages[package].edges_by_kind:
            yield from ((kind, edge) for edge in edges if edge.when is None or edge.when.holds(cell.conditions))

    def reached(self, cell: Cell, kind: str, edge: Edge) -> list[tuple[Cell, Variant]]:
        """The variants that `edge` leads to from `cell`; several that are alike near if it needs one of them."""
        if kind == GATHERS:
            found = self._fitting(cell.branch, edge.package, edge.wanted(cell.axes))
            return [(other, variant) for _, other, variant in found]
        if edge.values:
            return self._nearest(cell.branch, edge.package, edge.wanted(cell.axes))
        return self.found(cell, edge.package)

    def links(self, cell: Cell, package: str) -> Iterator[Link]:
        """What the variant of `package` in `cell` needs and gathers, without what other repositories build.

        An edge that leads to the variant itself does not hold for it.
        """
        for kind, edge in self.edges(cell, package):
            found = self.reached(cell, kind, edge)
            others = [one for one in found if one[0] != cell or one[1].package != package]
            if kind == GATHERS or others == found:
                yield from (Link(kind, *one) for one in (others if kind == GATHERS else others[:1]))

    def every(self, cell: Cell, package: str) -> tuple[tuple[Cell, Variant], ...]:
        """What the variant of `package` in `cell` is built with, directly and transitively, in build order."""
        seen: set[tuple[Cell, Variant]] = set()

        def below(cell: Cell, package: str) -> Iterator[tuple[Cell, Variant]]:
            for one in self.of(cell, package):
                if one not in seen:
                    seen.add(one)
                    yield from below(one[0], one[1].package)
                    yield one

        return tuple(below(cell, package))

    def of(self, cell: Cell, package: str) -> Iterator[tuple[Cell, Variant]]:
        """The variants that the variant of `package` in `cell` is built with, without those of other repositories."""
        return ((link.cell, link.variant) for link in self.links(cell, package))

    def cells_before(self, cell: Cell) -> list[Cell]:
        """The other cells with a variant that one of `cell` is built with."""
        every = (other for variant in cell.variants for other, _ in self.of(cell, variant.package))
        return list(dict.fromkeys(other for other in every if other != cell))
