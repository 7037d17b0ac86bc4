"""Builds: each is one job, which makes one variant, or all those that the spec joins.

A variant that is joined with others is in a cell that names the build. Cells of one build differ only in the axes that
it joins, and their tests and publishing are their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import EVERYWHERE, Cell, Values, Variant, grammar_of
from ci_compiler.spec.axes import PARTS, Join
from ci_compiler.spec.model import Spec
from ci_compiler.variant import variant_name

_APART = {"platform", "isa", "accelerator", "branch", *PARTS}
"""The axes that no build can join: they decide which machine builds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A job and the variants that it makes, in build order. `name` is the variant's if it makes only one."""

    name: str
    branch: str
    variants: tuple[tuple[Cell, Variant], ...]


def builds(cells: Iterable[Cell]) -> tuple[Build, ...]:
    """The builds of `cells`, in their order."""
    found: dict[tuple[str, str], list[tuple[Cell, Variant]]] = {}
    for cell in cells:
        for variant in cell.variants:
            found.setdefault((cell.branch, cell.joined or variant.name), []).append((cell, variant))
    return tuple(Build(name=name, branch=branch, variants=tuple(made)) for (branch, name), made in found.items())


def with_joins(spec: Spec, cells: list[Cell], findings: list[Finding]) -> list[Cell]:
    """`cells` with the variants of each joined build in cells of their own; adds an error for each that cannot be."""
    joiner = _Joiner(spec, cells)
    named = {(cell.branch, variant.name): joiner.name_of(cell, variant) for cell in cells for variant in cell.variants}
    several = _several(named)
    found = []
    for cell in cells:
        parts: dict[str, list[Variant]] = {}
        for variant in cell.variants:
            name = named[cell.branch, variant.name]
            parts.setdefault(name if (cell.branch, name) in several else "", []).append(variant)
        found += [replace(cell, joined=name, variants=tuple(part)) for name, part in parts.items()]
    findings += joiner.findings.values()
    return found


def _several(named: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
    """The builds, with their branches, that make more than one variant."""
    counts: dict[tuple[str, str], int] = {}
    for (branch, _), name in named.items():
        counts[branch, name] = counts.get((branch, name), 0) + 1
    return {key for key, count in counts.items() if count > 1}


class _Joiner:
    """Names the build of each variant."""

    def __init__(self, spec: Spec, cells: Iterable[Cell]) -> None:
        self.spec, self.grammar = spec, grammar_of(spec)
        self.known = {(cell.branch, variant.package, cell.values) for cell in cells for variant in cell.variants}
        self.findings: dict[tuple[str, int], Finding] = {}

    def name_of(self, cell: Cell, variant: Variant) -> str:
        """The name of the build that makes `variant`."""
        package, axes = variant.package, set[str]()
        while (row := self._row(cell, package)) is not None:
            package, axes = row.package or package, axes | set(row.axes)
            if not row.package:
                break
        if not axes and package == variant.package:
            return variant.name
        values: Values = tuple(pair for pair in cell.values if pair[0] not in axes)
        return variant_name(package, self.grammar.suffix(dict(values)) or EVERYWHERE)

    def _row(self, cell: Cell, package: str) -> Join | None:
        """The row of `joins` that applies to a package in `cell`; None for a build of its own."""
        rows = self.spec.packages[package].joins
        row = next((join for join in rows if join.when is None or join.when.holds(cell.conditions)), None)
        if row and (problem := self._problem(cell, package, row)):
            path = ("packages", package, "joins")
            finding = self.spec.finding(path, Code.JOIN_UNUSABLE, problem, key=True)
            self.findings.setdefault((package, row.index), finding)
            return None
        return row

    def _problem(self, cell: Cell, package: str, row: Join) -> str:
        if self.spec.backend.has_recipes:
            return f"backend {self.spec.backend} builds each recipe by itself; only build scripts make several variants"
        for apart, why in (
            (_APART, "its variants are built on different machines"),
            (self._unlike(package), "its `env` or `container` depends on it"),
        ):
            if wrong := sorted(apart & set(row.axes)):
                return f"{package} cannot join {' and '.join(wrong)}: {why}"
        if row.package == package:
            return f"{package} joins itself"
        if row.package and (cell.branch, row.package, cell.values) not in self.known:
            return f"{package} joins builds of {row.package}, which is not built for {cell.suffix} on {cell.branch}"
        return ""

    def _unlike(self, package: str) -> set[str]:
        """The axes that decide what the commands of `package` get, and where its script runs."""
        command = self.spec.packages[package].command
        rows = [row for _, row in command.rows if row.when] if command else []
        return {axis for row in rows if row.when for axis, _ in row.when.values}


def cells_by_build(cells: Iterable[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """The joined builds among `cells`, each with its cells."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.joined:
            found.setdefault(cell.joined, []).append(cell)
    yield from found.items()
