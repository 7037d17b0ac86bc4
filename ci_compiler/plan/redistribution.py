"""Which products of NVIDIA the binary cache would carry, and whether its owner may redistribute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.backends.protocol import CachePush
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.releases import uses_cudnn
from ci_compiler.spec.model import Spec

CUDA, CUDNN = "cuda", "cudnn"
"""The products' folders on NVIDIA's download server, which `redistributes` names."""


def redistribution_findings(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error if a public cache gets whole closures with libraries whose redistribution the spec does not claim.

    With `push: own`, these are left out on the machine that pushes (`backends.own_store`).
    """
    cache = spec.cache
    if cache is None or not cache.public or cache.push is CachePush.OWN or not spec.backend.has_recipes:
        return
    carried = {product for cell in cells if cell.target != CPU for product in _products(spec, cell)}
    missing = sorted(carried - set(cache.redistributes))
    if missing:
        message = (
            f"the cache is public, and whole closures carry NVIDIA's {' and '.join(missing)} libraries; leave them out "
            f"with `push: own`, or if their licences let you serve them, write `redistributes: [{', '.join(missing)}]`"
        )
        yield spec.finding(("cache", "public"), Code.REDISTRIBUTION_UNCLAIMED, message)


def _products(spec: Spec, cell: Cell) -> Iterator[str]:
    yield CUDA
    if any(uses_cudnn(spec, cell, variant.package) for variant in cell.variants):
        yield CUDNN
