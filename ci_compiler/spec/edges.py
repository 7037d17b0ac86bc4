"""Keys of the spec about edges, the variants that a variant is built with, and the order that they require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ci_compiler.spec.axes import PARTS, Accelerator, AxisName, AxisValue, AxisValues, When, to_when
from ci_compiler.spec.declare import form

if TYPE_CHECKING:
    from ci_compiler.spec.packages import Package


NEEDS, GATHERS = "needs", "gathers"
"""The kinds of edges, and their keys."""

EVERY = "all"
"""What opens an axis in place of a value."""

_TOGETHER = {"accelerator": PARTS, "family": PARTS, "platform": ("platform", "isa")}
"""The axes that an edge does not take from the dependent either where it names the one that decides them."""

_Values = Annotated[AxisValue | AxisValues, form(title="a value of the axis in quotes, a list of values, or all")]

_WrittenEdge = Annotated[
    Mapping[AxisName, _Values],
    form(
        "edge",
        description="The variants of a package that have these values, or ones that serve them, on the axes named here "
        "(`all` for any value), and on other axes those of the dependent. `when`: the cells that it holds for.",
        required=["package"],
        properties={"package": {"type": "string"}, "when": {"$ref": "#/$defs/when"}},
        examples=[{"package": "torch", "accelerator": "cpu"}, {"package": "kernels", "python": "all"}],
    ),
]

WrittenEdges = tuple[Annotated[str | _WrittenEdge, form(title="a package, or a mapping with the key package")], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The variants of a package that a variant is built with; `values` are the axes that it fixes or opens."""

    index: int
    package: str
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    when: When | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it holds for every cell, and leads to the values of the dependent."""
        return not self.values and self.when is None

    def wanted(self, axes: Mapping[str, str]) -> list[dict[str, str]]:
        """The values, of which a variant must have one set, for a dependent with those of `axes`."""
        named = {part for axis, _ in self.values for part in _TOGETHER.get(axis, (axis,))}
        found = [{axis: value for axis, value in axes.items() if axis not in named}]
        for axis, among in self.values:
            if EVERY not in among:
                found = [one | _parts(axis, value) for one in found for value in among]
        return found

    def __str__(self) -> str:
        return f"{self.package} ({When(values=self.values)})" if self.values else self.package


def _parts(axis: str, value: str) -> dict[str, str]:
    if axis != "accelerator":
        return {axis: value}
    return {part: text for part, text in zip(PARTS, Accelerator.parse(value), strict=True) if text}


def to_edges(value: list[str | Mapping[str, Any]]) -> tuple[Edge, ...]:
    """The edges that a spec writes as a list of packages and mappings."""
    return tuple(_edge(index, {"package": one} if isinstance(one, str) else one) for index, one in enumerate(value))


def _edge(index: int, row: Mapping[str, Any]) -> Edge:
    values = {axis: value for axis, value in row.items() if axis not in {"package", "when"}}
    return Edge(
        index=index,
        package=row["package"],
        values=to_when(values).values,
        when=to_when(row["when"]) if "when" in row else None,
    )


def in_build_order(packages: Mapping[str, Package]) -> tuple[Package, ...]:
    """`packages` with each after those it needs, otherwise as declared. Raises ValueError, naming a circle."""
    done: dict[str, Package] = {}
    waiting = dict(packages)
    while waiting:
        ready = _ready(waiting, always=False) or _ready(waiting, always=True)[:1]
        if not ready:
            raise ValueError(circle_in_words(circle(waiting)))
        done |= {name: waiting.pop(name) for name in ready}
    return tuple(done.values())


def _ready(waiting: Mapping[str, Package], *, always: bool) -> list[str]:
    return [
        name for name, one in waiting.items() if all(need not in waiting for need in one.built_after(always=always))
    ]


def circle(packages: Mapping[str, Package]) -> tuple[str, ...]:
    """The shortest circle of the first package that needs itself, each name before one it needs; () if none does."""
    for first in packages:
        paths: list[tuple[str, ...]] = [(first,)]
        seen = {first}
        for path in paths:  # grows on the way
            needs = packages[path[-1]].built_after(always=True)
            if first in needs:
                return path
            new = [need for need in needs if need in packages and need not in seen]
            seen.update(new)
            paths += [(*path, need) for need in new]
    return ()


def circle_in_words(names: Sequence[str]) -> str:
    """The message about a circle."""
    first, *others = names
    if not others:
        return f"{first} needs itself"
    return f"{first} needs {', which needs '.join([*others, first])}; one of them must not need the next"
