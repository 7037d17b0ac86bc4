"""Everything that the recipe of a variant is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ci_compiler.hardware import CPU, Gpu, Isa, Toolkit
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.capabilities import capabilities_of
from ci_compiler.recipes.work_arounds import Piece, pieces_in
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.model import Branch, Package, Source, Spec
from ci_compiler.spec.packages import Pin
from ci_compiler.spec.presets import Override, override_in
from ci_compiler.spec.shorthand.lists import TOOLKIT_PACKAGES, TOOLKIT_TAG
from ci_compiler.spec.values import variant_values
from ci_compiler.variant import python_tag, toolkit_tag, variant_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A variant with its branch, package and hardware. `gpu` and `toolkit` are None for a CPU variant.

    `pin` is the nixpkgs that it is built from, and `capabilities` are the capabilities or targets that it is built for.
    `values` are those of the placeholders, and `override` what the package's compiled recipes override.
    `seeded_by` is the variant whose host code it takes (`recipes.seeds`), or ''. `is_shared` says that the text is for
    all variants like this one, and `values` has marks in place of their own (`recipes.parameters`).
    """

    spec: Spec
    branch: Branch
    pin: Pin
    package: Package
    cell: Cell
    variant: Variant
    gpu: Gpu | None
    isa: Isa
    toolkit: Toolkit | None
    capabilities: tuple[str, ...]
    values: Mapping[str, str]
    override: Override
    pieces: tuple[Piece, ...]
    seeded_by: str = ""
    is_shared: bool = False

    @property
    def version(self) -> str:
        """The package's version on the branch."""
        return self.branch.versions[self.package.name]

    @property
    def source(self) -> Source | None:
        """The source that replaces the one of nixpkgs."""
        return self.pin.sources.get(self.package.name)

    @property
    def pname(self) -> str:
        """The derivation's `pname`."""
        return self.values["pname"]

    @property
    def python_packages(self) -> str:
        """The Python package set of the variant, an attribute of nixpkgs."""
        return f"{python_tag(self.cell.python)}Packages"


def subject_of(spec: Spec, cell: Cell, variant: Variant, *, seeded_by: str = "") -> Subject:
    """The subject of the recipe of `variant`."""
    branch, package = spec.branches[cell.branch], spec.packages[variant.package]
    pin = branch.pin(cell.toolkit)
    gpu = None if cell.target == CPU else spec.hardware.gpu(cell.target)
    toolkit = spec.hardware.toolkit(cell.toolkit) if cell.toolkit else None
    capabilities = capabilities_of(spec.hardware, cell)
    return Subject(
        spec=spec,
        branch=branch,
        pin=pin,
        package=package,
        cell=cell,
        variant=variant,
        gpu=gpu,
        isa=spec.hardware.isa(cell.isa),
        toolkit=toolkit,
        capabilities=capabilities,
        values=_values(spec, cell, variant, pin, toolkit, capabilities),
        override=override_in(package, cell.family),
        pieces=pieces_in(spec, cell, package),
        seeded_by=seeded_by,
    )


def _values(
    spec: Spec, cell: Cell, variant: Variant, pin: Pin, toolkit: Toolkit | None, capabilities: tuple[str, ...]
) -> dict[str, str]:
    """The values of the placeholders in the recipe of `variant`, and of those in pieces of recipes."""
    package = spec.packages[variant.package]
    values = variant_values(spec, cell.branch, package.name, variant.name, cell) | {
        "attribute": package.attribute,
        "title": package.title,
        "pname": variant_name(pin.pnames.get(package.name, package.name), cell.suffix),
        "python-tag": python_tag(cell.python),
        "toolkit": cell.toolkit,
        TOOLKIT_TAG: toolkit_tag(cell.toolkit) if cell.family == SHORT_FAMILY else "",
        TOOLKIT_PACKAGES: toolkit.attribute if toolkit else "",
        "sm": ";".join(capability.replace(".", "") for capability in capabilities),
        "capability": ";".join(capabilities),
        "nixpkgs": pin.nixpkgs,
        "nixpkgs-hash": pin.nixpkgs_hash,
    }
    values["nix-version"] = nix.string(values["version"])
    if source := pin.sources.get(package.name):
        tag = source.tag.replace(values["version"], "${version}")
        values["source"] = fetch(source, fetcher="final", tag=tag)
    return values


def fetch(source: Source, *, fetcher: str, tag: str) -> str:
    """The fetcher call of a source, from the package set `fetcher`; `tag` is the text of a Nix string."""
    owner, repository = source.repository.split("/")
    arguments = {
        "owner": nix.string(owner),
        "repo": nix.string(repository),
        "tag": f'"{tag}"',
        "hash": nix.string(source.hash),
    }
    if source.submodules:
        arguments["fetchSubmodules"] = "true"
    return f"{fetcher}.fetchFromGitHub {nix.attributes(arguments)}"
