"""A variant's recipe: a self-contained Nix expression in the style of a Nix programmer.

Recipes are self-contained so that the recipes that a change touches are exactly the variants that it rebuilds. What
differs between branches, GPUs and ISAs comes from the spec, the hardware tables and the named pieces; this module puts
it in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from ci_compiler.files.drift import FLOX, MARK, Territory
from ci_compiler.hardware import CPU, Gpu, Isa, Toolkit
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.work_arounds import Piece, Traits, fill, pieces
from ci_compiler.spec.model import Branch, Package, Source, Spec
from ci_compiler.spec.packages import Pin, RecipeKind
from ci_compiler.variant import RECIPES, python_tag, recipe_path, variant_name

ARCHIVE = "https://github.com/{repository}/archive/{rev}.tar.gz"
NIXPKGS = "NixOS/nixpkgs"

BLAS = {True: "cublas", False: "openblas"}
"""The BLAS of a build with a GPU and without (the recipes' `passthru.blasProvider`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """Everything that a recipe is made from. `gpu` is None for a CPU variant."""

    spec: Spec
    branch: Branch
    pin: Pin
    package: Package
    cell: Cell
    variant: Variant
    gpu: Gpu | None
    isa: Isa
    toolkit: Toolkit | None
    pieces: tuple[Piece, ...]
    values: Mapping[str, str]

    @property
    def version(self) -> str:
        return self.branch.versions[self.package.name]

    @property
    def source(self) -> Source | None:
        return self.pin.sources.get(self.package.name)

    @property
    def pname(self) -> str:
        return variant_name(self.pin.pnames.get(self.package.name, self.package.name), self.cell.suffix)


def recipes(spec: Spec, judged: Judged, branch: str) -> dict[str, str]:
    """The recipes of `branch` that are compiled, by path from the repository's root, and their `.gitattributes`."""
    made: dict[str, str] = {}
    own = False
    for cell in judged.cells:
        for variant in cell.variants if cell.branch == branch else ():
            if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN:
                own = True
            else:
                made[recipe_path(variant.name)] = recipe(spec, cell, variant)
    return {**_attributes_file(spec, made, own=own), **made}


def territory(spec: Spec, judged: Judged, branch: str) -> Territory:
    """The folder of the recipes of `branch`, in which the repository's own recipes are kept."""
    own = (
        recipe_path(variant.name)
        for cell in judged.cells
        for variant in cell.variants
        if cell.branch == branch and spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    )
    return FLOX._replace(kept=frozenset(own))


def _attributes_file(spec: Spec, made: Iterable[str], *, own: bool) -> dict[str, str]:
    """The `.gitattributes` that marks compiled recipes, one by one where the branch has recipes of its own too."""
    names = ([PurePosixPath(path).name for path in made] if own else ["*.nix"]) if made else []
    note = f"{nix.comment(MARK)} from {spec.document.file}: GitHub folds these in its view of changes.\n"
    lines = "".join(f"{name} linguist-generated=true\n" for name in names)
    return {f"{RECIPES}/.gitattributes": f"{note}{lines}"} if names else {}


def recipe(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The text of the recipe of `variant`."""
    subject = _subject(spec, cell, variant)
    head = [
        nix.comment(f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-compile recipes`."),
        nix.comment(f"{_headline(subject)}"),
        "",
    ]
    return "\n".join(
        [*head, "{ ... }:", "", "let", nix.indent("\n\n".join(_bindings(subject))), "in", _body(subject), ""]
    )


def pname(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The `pname` of the recipe of `variant`."""
    return _subject(spec, cell, variant).pname


def _subject(spec: Spec, cell: Cell, variant: Variant) -> _Subject:
    branch, package = spec.branches[cell.branch], spec.packages[variant.package]
    pin = branch.pin(cell.cuda)
    gpu = None if cell.gpu == CPU else spec.hardware.gpu(cell.gpu)
    toolkit = spec.hardware.toolkit(cell.cuda) if cell.cuda else None
    traits = Traits(
        attribute=package.attribute,
        isa=cell.isa,
        cuda=gpu is not None,
        cudnn=gpu is None or gpu.cudnn,
        source=package.name in pin.sources,
        work_arounds=pin.work_arounds,
    )
    version = branch.versions[package.name]
    values = {
        "version": version,
        "nix-version": nix.string(version),
        "title": package.title,
        "cuda": cell.cuda,
        "jobs": str(package.jobs),
        "cuda-packages": toolkit.attribute if toolkit else "",
    }
    if source := pin.sources.get(package.name):
        values["source"] = _fetch(source, fetcher="final", tag=source.tag.replace(version, "${version}"))
    return _Subject(
        spec=spec,
        branch=branch,
        pin=pin,
        package=package,
        cell=cell,
        variant=variant,
        gpu=gpu,
        isa=spec.hardware.isa(cell.isa),
        toolkit=toolkit,
        pieces=_pieces(traits),
        values=values,
    )


@cache
def _pieces(traits: Traits) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces() if piece.applies(traits))


def _headline(subject: _Subject) -> str:
    return f"{subject.package.title} {subject.version} for {_target(subject)}."


def _target(subject: _Subject) -> str:
    """The GPU and CPU that it is built for, for people."""
    system = subject.spec.hardware.systems[subject.cell.system]
    cpu = f"{system.title} CPUs with {subject.isa.title}"
    if subject.gpu is None:
        return cpu
    return f"NVIDIA {subject.gpu.architecture} ({subject.gpu.name}: {subject.gpu.summary}) and {cpu}"


# The `let`.


def _bindings(subject: _Subject) -> Iterator[str]:
    yield f"nixpkgs = {_tarball(NIXPKGS, subject.pin.nixpkgs, subject.pin.nixpkgs_hash)};"
    yield f"pkgs = import nixpkgs {_nixpkgs_arguments(subject)};"
    yield "inherit (pkgs) lib;"
    for need in subject.package.needs:
        yield f"{_comment_of_need(subject, need)}\n{_binding(subject, need)} = {_import(subject, need)};"
    if subject.gpu is not None:
        why = nix.comment(f"TORCH_CUDA_ARCH_LIST takes {subject.gpu.capability}, never sm_{subject.gpu.name[2:]}.")
        yield f"{why}\ngpuArchSM = {nix.string(str(subject.gpu.capability))};"
    yield f"{nix.comment(f'{subject.isa.title}: {subject.isa.cpus}.')}\ncpuFlags = {nix.words(subject.isa.flags)};"


def _tarball(repository: str, rev: str, digest: str) -> str:
    arguments = {"url": nix.string(ARCHIVE.format(repository=repository, rev=rev))}
    if digest:
        arguments["sha256"] = nix.string(digest)
    return f"builtins.fetchTarball {nix.attributes(arguments)}"


def _nixpkgs_arguments(subject: _Subject) -> str:
    config = {"allowUnfree": "true"}
    if subject.gpu is not None:
        config["cudaSupport"] = "true"
    if subject.pin.allow_broken:
        config["allowBroken"] = "true"
    overlays = [
        f"{nix.comment(fill(piece.why, subject.values))}\n{fill(piece.overlay, subject.values)}"
        for piece in subject.pieces
        if piece.overlay
    ]
    arguments = {"system": nix.string(subject.cell.system), "config": nix.attributes(config)}
    if overlays:
        arguments["overlays"] = nix.block("[", overlays, "]")
    return nix.attributes(arguments)


def _binding(subject: _Subject, need: str) -> str:
    """The name of a needed package in the recipe: its attribute in nixpkgs, which is overridden."""
    return nix.name(subject.spec.packages[need].attribute)


def _comment_of_need(subject: _Subject, need: str) -> str:
    package = subject.spec.packages[need]
    return nix.comment(f"The {package.title} of this very cell: the derivation that its own recipe builds.")


def _import(subject: _Subject, need: str) -> str:
    recipe = recipe_path(variant_name(need, subject.cell.suffix))
    repository = subject.spec.packages[need].repository
    if repository is None:
        return f"import ./{PurePosixPath(recipe).name} {{ }}"
    tarball = _tarball(repository.name, repository.rev[subject.branch.name], repository.hash[subject.branch.name])
    return f"import (({tarball}) + {nix.string(f'/{recipe}')}) {{ }}"


# The body.


def _body(subject: _Subject) -> str:
    attributes = _attributes(subject)
    entries = [f"{key} = {value};" for key, value in attributes.items()]
    return nix.block(f"({_overridden(subject)}).overrideAttrs (old: {{", "\n\n".join(entries).split("\n"), "})")


def _overridden(subject: _Subject) -> str:
    python = f"{python_tag(subject.cell.python)}Packages"
    package = f"pkgs.{python}.{nix.name(subject.package.attribute)}"
    if subject.package.needs:
        needs = " ".join(_binding(subject, need) for need in subject.package.needs)
        return f"{package}.override {{ inherit {needs}; }}"
    if subject.gpu is None:
        return f"{package}.override {{ cudaSupport = false; }}"
    return f"{package}.override {nix.attributes({'cudaSupport': 'true', 'gpuTargets': '[ gpuArchSM ]'})}"


def _attributes(subject: _Subject) -> dict[str, str]:
    """The attributes that the recipe overrides, Nix expressions by name."""
    made = {"pname": nix.string(subject.pname)}
    if subject.source is not None and subject.package.attribute != "torch":
        made["version"] = nix.string(subject.version)
        made["src"] = _fetch(subject.source, fetcher="pkgs", tag=subject.source.tag)
        made["patches"] = "[ ]"
    made["ninjaFlags"] = nix.words([f"-j{subject.package.jobs}"])
    made["requiredSystemFeatures"] = nix.words(["big-parallel"])
    cmake = [fill(flag, subject.values) for piece in subject.pieces for flag in piece.cmake]
    if cmake:
        made["cmakeFlags"] = f"(old.cmakeFlags or [ ]) ++ {nix.words(cmake)}"
    if patched := [_shell(subject, piece, piece.post_patch) for piece in subject.pieces if piece.post_patch]:
        made["postPatch"] = f'(old.postPatch or "") + {nix.lines(patched)}'
    made["preConfigure"] = f'(old.preConfigure or "") + {nix.lines(_pre_configure(subject))}'
    if built := [_shell(subject, piece, "\n".join(piece.pre_build)) for piece in subject.pieces if piece.pre_build]:
        made["preBuild"] = f'(old.preBuild or "") + {nix.lines(built)}'
    made["passthru"] = f"(old.passthru or {{ }}) // {nix.attributes(_passthru(subject))}"
    made["meta"] = f"(old.meta or {{ }}) // {nix.attributes(_meta(subject))}"
    return made


def _pre_configure(subject: _Subject) -> Iterator[str]:
    yield 'export CXXFLAGS="${lib.concatStringsSep " " cpuFlags} $CXXFLAGS"'
    yield 'export CFLAGS="${lib.concatStringsSep " " cpuFlags} $CFLAGS"'
    yield f"export MAX_JOBS={subject.package.jobs}"
    for piece in subject.pieces:
        exports = [f"export {key}={fill(value, subject.values)}" for key, value in piece.exports.items()]
        if exports or piece.pre_configure:
            yield _shell(subject, piece, "\n".join([*exports, *([piece.pre_configure] if piece.pre_configure else [])]))


def _shell(subject: _Subject, piece: Piece, text: str) -> str:
    """The piece's shell code after a comment with its reason."""
    return f"{nix.escape_lines(nix.comment(fill(piece.why, subject.values)))}\n{fill(text, subject.values)}"


def _passthru(subject: _Subject) -> dict[str, str]:
    return {
        "gpuArch": "null" if subject.gpu is None else nix.string(subject.gpu.name),
        "cpuISA": nix.string(subject.isa.name),
        "blasProvider": nix.string(BLAS[subject.gpu is not None]),
    }


def _meta(subject: _Subject) -> dict[str, str]:
    return {
        "description": nix.string(f"{subject.package.title} for {_short_target(subject)}"),
        "longDescription": nix.lines(map(nix.escape_lines, _long_description(subject))),
        "platforms": nix.words([subject.cell.system]),
    }


def _short_target(subject: _Subject) -> str:
    if subject.gpu is None:
        return f"CPUs with {subject.isa.title}"
    return f"NVIDIA {subject.gpu.architecture} ({subject.gpu.name}) and CPUs with {subject.isa.title}"


def _long_description(subject: _Subject) -> Iterator[str]:
    yield f"{subject.package.title} {subject.version} for Python {subject.cell.python}, built for one kind of hardware:"
    if subject.gpu is not None and subject.toolkit is not None:
        yield f"- GPU: {subject.gpu.summary} (compute capability {subject.gpu.capability})"
        driver = max(subject.toolkit.lowest_driver, subject.gpu.driver)
        yield f"- CUDA {subject.cell.cuda}, NVIDIA driver {driver} or newer"
    yield f"- CPU: {subject.isa.cpus}"


def _fetch(source: Source, *, fetcher: str, tag: str) -> str:
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
