"""Specs and subjects of recipes for tests: the small spec's branch with other packages and hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.subject import Subject, subject_of
from ci_compiler.spec.model import Spec
from tests.specs import MAIN, small, spec_of

TORCH: Mapping[str, Any] = {"attribute": "torch"}
"""A package that compiles as torch does."""


def spec_for(
    packages: Mapping[str, Any],
    *,
    gpus: Sequence[str] = ("cpu", "sm90"),
    isas: Sequence[str] = ("avx2",),
    system: str = "x86_64-linux",
    main: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Spec:
    """A spec of `packages`, version 1.0, for this hardware. `main` has further keys of its branch."""
    branch = MAIN | {"versions": dict.fromkeys(packages, "1.0")} | (main or {})
    matrix = {"python": ["3.13"], "isas": {system: [*isas]}, "gpus": {gpu: {} for gpu in gpus}}
    cpu = "armv9" if system.startswith("aarch64") else "avx512bf16"
    pool = {"runs-on": ["self-hosted", "linux", "b"], "cpu": [cpu], "system": system, "count": 2}
    keys = {"branches": {"main": branch}, "matrix": matrix, "packages": packages, "runners": {"builder": pool}}
    return spec_of(small(**(keys | changes)))


def cell_of(spec: Spec, suffix: str) -> Cell:
    """The cell of `spec` whose variants' names end in `suffix`."""
    [cell] = (cell for cell in judge(spec).cells if cell.suffix == suffix)
    return cell


def subject_for(spec: Spec, name: str) -> Subject:
    """The subject of the recipe of the variant `name`."""
    [subject] = (
        subject_of(spec, cell, variant)
        for cell in judge(spec).cells
        for variant in cell.variants
        if variant.name == name
    )
    return subject
