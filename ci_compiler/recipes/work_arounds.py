"""The named pieces that recipes are composed of: what differs between branches, GPUs and ISAs.

The bundled ones are in `ci_compiler.spec.work_arounds`, because the spec names some of them; the spec may add its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.recipes.capabilities import sets_capabilities
from ci_compiler.spec.model import Package, RecipeKind, Spec, WorkAround
from ci_compiler.spec.work_arounds import table
from ci_compiler.variant import variant_name


class Traits(NamedTuple):
    """What decides which pieces a recipe has. `dnn`: the GPU, if any, has a library for neural networks.

    `capabilities`: the recipe sets the switch for the architectures of all packages.
    """

    package: str
    preset: str
    isa: str
    family: str
    gpu: bool
    dnn: bool
    source: bool
    capabilities: bool
    work_arounds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a recipe. `overlay`, `post_patch` and `pre_configure` are texts; '' for none.

    `cached`: what CMake's cache must have because of it, beside its flags. `without`: what it switches off, with the
    consequence; '' for nothing.
    """

    name: str
    why: str
    when: Mapping[str, Any]
    overlay: str = ""
    cmake: tuple[str, ...] = ()
    exports: Mapping[str, str] = field(default_factory=dict)
    post_patch: str = ""
    pre_configure: str = ""
    pre_build: tuple[str, ...] = ()
    cached: Mapping[str, str] = field(default_factory=dict)
    without: str = ""

    @property
    def is_work_around(self) -> bool:
        """Whether only the branches that name it have it."""
        return bool(self.when.get("work-around"))

    def applies(self, traits: Traits) -> bool:
        """Whether a recipe with `traits` has it: each condition names the value, or a list of values, of a trait."""
        found = traits._asdict() | {"work-around": self.name in traits.work_arounds}
        return all(
            found[key] in value if isinstance(value, list) else found[key] == value for key, value in self.when.items()
        )


@cache
def pieces() -> tuple[Piece, ...]:
    """All pieces, in their order in a recipe."""
    return tuple(_piece(name, row) for name, row in table().items())


def pieces_in(spec: Spec, cell: Cell, package: Package) -> tuple[Piece, ...]:
    """The pieces of the recipe of `package` in `cell`: the bundled ones, then the spec's own."""
    pin = spec.branches[cell.branch].pin(cell.toolkit)
    traits = Traits(
        package=package.name,
        preset=package.preset,
        isa=cell.isa,
        family=cell.family,
        gpu=cell.target != CPU,
        dnn=cell.target == CPU or spec.hardware.gpu(cell.target).dnn,
        source=package.name in pin.sources,
        capabilities=sets_capabilities(spec, package, cell),
        work_arounds=pin.work_arounds,
    )
    own = map(_own, spec.work_arounds.values())
    return (*_bundled(traits), *(piece for piece in own if piece.applies(traits)))


def switched_off(spec: Spec, cell: Cell, package: str) -> tuple[str, ...]:
    """What the compiled recipes of `package` and of all that it needs switch off in `cell`, with the consequences."""
    found = [
        piece.without
        for name in (*needs_of(spec, package), package)
        if spec.packages[name].kind_of(variant_name(name, cell.suffix)) is RecipeKind.COMPILED and not cell.listed
        for piece in pieces_in(spec, cell, spec.packages[name])
    ]
    return tuple(dict.fromkeys(filter(None, found)))


@cache
def _bundled(traits: Traits) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces() if piece.applies(traits))


def _own(one: WorkAround) -> Piece:
    when: dict[str, Any] = {"work-around": True}
    if one.packages:
        when["package"] = list(one.packages)
    if one.build:
        when["gpu"] = one.build == "gpu"
    return Piece(
        name=one.name,
        why=one.why,
        when=when,
        overlay=one.overlay.rstrip("\n"),
        cmake=one.cmake,
        exports=one.exports,
        post_patch=one.post_patch.rstrip("\n"),
        pre_configure=one.pre_configure.rstrip("\n"),
        pre_build=one.pre_build,
    )


def _piece(name: str, row: Mapping[str, Any]) -> Piece:
    return Piece(
        name=name,
        why=row["why"],
        when=row["when"],
        overlay=_text(row, "overlay"),
        cmake=tuple(row.get("cmake", ())),
        exports=row.get("exports", {}),
        post_patch=_text(row, "post-patch"),
        pre_configure=_text(row, "pre-configure"),
        cached=row.get("cached", {}),
        without=row.get("without", ""),
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    return (row["folder"] / row[key]).read_text("utf-8").rstrip("\n") if key in row else ""
