"""Which recipes set `config.cudaCapabilities`, nixpkgs' general switch for GPU architectures.

The switch reaches every CUDA package, so the recipe's CUDA dependencies that take it (NCCL, MAGMA) are built again for
that capability. An argument of the package's own keeps their hashes, so the switch is set only where it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.hardware import Gpu, Toolkit, Version
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Package, RecipeKind, Spec


def sets_capabilities(package: Package, gpu: Gpu | None, toolkit: Toolkit) -> bool:
    """Whether the compiled recipes of `package` set the switch in builds for `gpu` (None: for CPUs) with `toolkit`.

    By default they do if nothing else in them names the architecture, or if the capability is not among nixpkgs'
    defaults for the toolkit: the package's own argument would not reach the libraries that it is linked with.
    """
    if gpu is None:
        return False
    if package.capabilities is not None:
        return package.capabilities
    return not package.overrides["gpu"].architecture or not _is_default(gpu.capability, toolkit.version)


def variants_with_capabilities(spec: Spec, cell: Cell) -> Iterator[Variant]:
    """The variants of `cell` whose recipes are compiled and set the switch."""
    if cell.gpu in spec.hardware.gpus:
        gpu, toolkit = spec.hardware.gpu(cell.gpu), spec.hardware.toolkit(cell.cuda)
        for variant in cell.variants:
            package = spec.packages[variant.package]
            compiled = package.kind_of(variant.name) is RecipeKind.COMPILED
            if compiled and sets_capabilities(package, gpu, toolkit):
                yield variant


@cache
def _is_default(capability: Version, toolkit: Version) -> bool:
    """Whether nixpkgs builds for `capability` unasked; an unknown one is not among the defaults."""
    table, name = _table(), str(capability)
    until = table["default_until"].get(name)
    return name in table["default"] if until is None else toolkit <= Version.parse(until)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("capabilities.json").read_bytes())
    return table
