"""Which recipes set nixpkgs' general switch for the architectures of a family's GPUs.

The switch, an option or an overlay, reaches every package of the toolkit, so the recipe's dependencies that take it are
built again for that capability. An argument of the package's own keeps their hashes, so the switch is set only where it
is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ci_compiler.hardware import ALL, CPU, Hardware, Version
from ci_compiler.hardware.families import files_of, nixpkgs
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Package, RecipeKind, Spec
from ci_compiler.spec.presets import override_in
from ci_compiler.units import counted


def capabilities_of(hardware: Hardware, cell: Cell) -> tuple[str, ...]:
    """The compute capabilities that `cell` is built for, or its targets where their family has none; () without one.

    A build for all GPUs has those of its system that the toolkit supports. Those that nixpkgs does not
    mix with others are left out.
    """
    if cell.target in {CPU, cell.family}:
        return ()
    if cell.target != ALL.name:
        return tuple(_capability(hardware, name) for name in cell.target.split(","))
    version = hardware.toolkit(cell.toolkit).version
    return tuple(
        str(other.capability)
        for other in sorted(hardware.gpus.values(), key=lambda one: one.capability)
        if other.family == cell.family
        and cell.system in other.systems
        and other.first_toolkit <= version <= (other.last_toolkit or version)
        and str(other.capability) not in nixpkgs(cell.family)["apart"]
    )


def _capability(hardware: Hardware, target: str) -> str:
    gpu = hardware.gpus.get(target)
    return str(gpu.capability) if gpu and any(gpu.capability) else target


def sets_capabilities(spec: Spec, package: Package, cell: Cell) -> bool:
    """Whether the compiled recipe of `package` in `cell` sets the switch.

    By default it does if nothing else in it names the architecture, or if a capability is not among nixpkgs' defaults
    for the toolkit: the package's own argument would not reach the libraries that it is linked with.
    """
    if cell.target == CPU or not cell.toolkit or cell.family not in files_of("nixpkgs.json"):
        return False
    if package.capabilities is not None:
        return package.capabilities
    toolkit = spec.hardware.toolkit(cell.toolkit).version
    wanted = capabilities_of(spec.hardware, cell)
    return not override_in(package, cell.family).architecture or not all(
        _is_default(cell.family, name, toolkit) for name in wanted
    )


def linked_libraries(spec: Spec, package: Package, cell: Cell) -> str:
    """Which architectures the libraries are built for that are linked into `package` in `cell`; '' if there are none.

    They take the switch, and nixpkgs' defaults without it: the package's own argument does not reach them.
    """
    words = nixpkgs(cell.family)
    if cell.target == CPU or "linked" not in words or override_in(package, cell.family).machine_code != "also":
        return ""
    toolkit = spec.hardware.toolkit(cell.toolkit)
    wanted = capabilities_of(spec.hardware, cell)
    names = ", ".join(wanted)
    if sets_capabilities(spec, package, cell):
        apart = [words["apart-note"]] if set(wanted) & {*words["apart"]} else []
        return "; ".join([f"{words['linked']} are built for {names} alone", *apart])
    usual = [
        str(gpu.capability)
        for gpu in sorted(spec.hardware.gpus.values(), key=lambda gpu: gpu.capability)
        if gpu.first_toolkit <= toolkit.version <= (gpu.last_toolkit or toolkit.version)
        and str(gpu.capability) not in words["apart"]
        and _is_default(cell.family, str(gpu.capability), toolkit.version)
    ]
    own = ", ".join(usual)
    return (
        f"{words['linked']} have code for nixpkgs' {counted(len(usual), 'architecture')}, {own}; "
        f"`capabilities: true` builds them for {names} alone, without a cache"
    )


def variants_with_capabilities(spec: Spec, cell: Cell) -> Iterator[Variant]:
    """The variants of `cell` whose recipes are compiled and set the switch."""
    for variant in cell.variants if cell.target != CPU and spec.backend.has_recipes else ():
        package = spec.packages[variant.package]
        compiled = package.kind_of(variant.name) is RecipeKind.COMPILED
        if compiled and sets_capabilities(spec, package, cell):
            yield variant


@cache
def _is_default(family: str, capability: str, toolkit: Version) -> bool:
    """Whether nixpkgs builds for `capability` unasked; an unknown one is not among the defaults."""
    until = nixpkgs(family)["default_until"].get(capability)
    return capability in nixpkgs(family)["default"] if until is None else toolkit <= Version.parse(until)
