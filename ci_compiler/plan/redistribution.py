"""Which products of vendors the binary cache would carry, and whether its owner may redistribute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.backends.protocol import CachePush
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware.families import family_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.releases import uses_dnn
from ci_compiler.spec.model import Spec


def redistribution_findings(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error if a public cache gets whole closures with libraries whose redistribution the spec does not claim.

    With `push: own`, these are left out on the machine that pushes (`backends.own_store`).
    """
    cache = spec.cache
    if cache is None or not cache.public or cache.push is CachePush.OWN or not spec.backend.has_recipes:
        return
    cells = tuple(cells)
    families = tuple(map(family_of, dict.fromkeys(cell.family for cell in cells)))
    carried = {product for cell in cells for product in _products(spec, cell)}
    missing = sorted(carried - set(cache.redistributes))
    if missing:
        whose = " and ".join(dict.fromkeys(f"{row.vendor}'s" for row in families if {*missing} & {*row.products}))
        message = (
            f"the cache is public, and whole closures carry {whose} {' and '.join(missing)} libraries; leave them out "
            f"with `push: own`, or if their licences let you serve them, write `redistributes: [{', '.join(missing)}]`"
        )
        yield spec.finding(("cache", "public"), Code.REDISTRIBUTION_UNCLAIMED, message)


def _products(spec: Spec, cell: Cell) -> Iterator[str]:
    """The products that its variants carry, by the names of their folders on the vendor's server."""
    has_dnn = any(uses_dnn(spec, cell, variant.package) for variant in cell.variants)
    yield from family_of(cell.family).products[: 2 if has_dnn else 1]
