"""What each variant is built with must exist, and no variant may be built with itself by way of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs
from ci_compiler.spec.edges import NEEDS, Edge
from ci_compiler.spec.model import Package, RecipeKind, Spec
from ci_compiler.variant import variant_name

Node = tuple[str, str]
"""A job that builds: its branch, and its cell or joined build."""


def edge_findings(spec: Spec, cells: Sequence[Cell]) -> Iterator[Finding]:
    """An error for each edge that leads to no variant, or to several where one is needed; and for circles."""
    needs, seen, found = Needs(spec, cells), set[tuple[str, str, str, int]](), list[Finding]()
    leading = {name: [*_leading(spec, package)] for name, package in spec.packages.items()}
    for cell in cells:
        held = {variant.package for variant in cell.variants}
        for variant in () if cell.listed else cell.variants:
            for kind, edge, in_cell in leading[variant.package]:
                if in_cell and edge.package in held:
                    continue
                key = (cell.branch, variant.package, kind, edge.index)
                if key not in seen and (edge.when is None or edge.when.holds(cell.conditions)):
                    reached = needs.reached(cell, kind, edge)
                    if not reached or (kind == NEEDS and len(reached) > 1):
                        seen.add(key)
                        message = _message(needs, cell, variant, kind, edge, reached)
                        path = ("packages", variant.package, kind, *(() if edge.is_plain else (edge.index,)))
                        found.append(spec.finding(path, Code.NEEDS_MISSING_VARIANT, message))
    yield from found or (_circles(needs, cells) if spec.has_edges or any(one.joined for one in cells) else ())
    yield from _unusable(spec)


def _leading(spec: Spec, package: Package) -> Iterator[tuple[str, Edge, bool]]:
    """The edges of a package to variants of this plan, each with its kind and whether its own cell may hold the one."""
    for kind, edges in package.edges_by_kind:
        for edge in edges:
            if not (edge.is_plain and spec.packages[edge.package].repository is not None):
                yield kind, edge, kind == NEEDS and not edge.values


def _message(
    needs: Needs, cell: Cell, variant: Variant, kind: str, edge: Edge, found: Sequence[tuple[Cell, Variant]]
) -> str:
    if found:
        some = ", ".join(other.name for _, other in found[:3])
        more = "; fix another axis, or use `gathers`" if edge.values else ""
        return f"{variant.name} needs one variant of {edge}, and several serve it alike: {some}{more}"
    what = variant_name(edge.package, cell.suffix) if kind == NEEDS and not edge.values else str(edge)
    return f"{variant.name} {kind} {what}, which {cell.branch} does not build{_near(needs, cell, edge)}"


def _near(needs: Needs, cell: Cell, edge: Edge) -> str:
    """The values nearest to the first that `edge` names and no variant of its package has."""
    for axes in edge.wanted(cell.axes) if edge.values else ():
        for axis, value in axes.items():
            had = needs.values_of(cell.branch, edge.package, axis)
            if had and value not in had:
                return nearest(value, had)
    return ""


def _circles(needs: Needs, cells: Sequence[Cell]) -> Iterator[Finding]:
    """An error for a circle of jobs: variants, or builds that make several of them, none of which could be first."""
    from graphlib import CycleError, TopologicalSorter  # most specs have no edge that could close a circle

    after: dict[Node, dict[Node, tuple[Variant, str, Variant]]] = {}
    for cell in cells:
        for variant in cell.variants:
            for link in needs.links(cell, variant.package):
                own, other = (cell.branch, cell.key), (link.cell.branch, link.cell.key)
                if own != other:
                    after.setdefault(own, {}).setdefault(other, (variant, link.kind, link.variant))
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        nodes: list[Node] = error.args[1][::-1]
        steps = [after[one][other] for one, other in pairwise(nodes)]
        words = ", and ".join(f"{one.name} {kind} {other.name}" for one, kind, other in steps)
        message = f"{words}: none of them can be built first; limit one of these edges with `when`"
        yield needs.spec.finding(("packages", steps[0][0].package, steps[0][1]), Code.NEEDS_CIRCLE, message, key=True)


def _unusable(spec: Spec) -> Iterator[Finding]:
    """An error for each package whose edges its compiled recipe cannot follow."""
    for package in spec.packages.values():
        written = any(package.may_be(kind) for kind in (RecipeKind.COMPILED, RecipeKind.TEMPLATE))
        compiled = spec.backend.has_recipes and package.repository is None and written
        for kind, edges in package.edges_by_kind if compiled else ():
            if edge := next((one for one in edges if kind != NEEDS or not one.is_plain), None):
                message = (
                    f"a compiled recipe of {package.name} takes the variants of its own cell, not {edge}; use recipes "
                    "of your own or `backend: command`"
                )
                yield spec.finding(("packages", package.name, kind, edge.index), Code.BACKEND_CANNOT, message)
