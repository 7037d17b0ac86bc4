"""Keys of the spec about recipes: what compiled ones override, templates, and the repository's own work-arounds."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import (
    COMMENT_LINE,
    FilePath,
    RecipeArguments,
    RecipeAttributes,
    RecipeEnvironment,
    RecipeFlags,
    RecipeInputs,
)
from ci_compiler.spec.presets import Override, by_build


def _by_build(description: str, **more: Any) -> Any:
    """A key with values for all builds, or by kind of build; `more` is as for `key`."""
    return key(description, convert=by_build, default={}, published=False, **more)


@declared()
class RecipeKeys:
    """What the recipes of a package are made from.

    `overrides` is what compiled ones override, with the presets' values, by the family of the build.
    """

    overrides: Mapping[str, Override] = field(default_factory=dict)
    template: FilePath = key(
        "The Nix file, from the repository's root, that its template recipes are rendered from.",
        examples=["nix/vllm.nix"],
        default="",
    )
    shared: tuple[FilePath, ...] = key(
        "Files and folders, from the repository's root, that all its recipes read; a change there rebuilds them.",
        examples=[[".flox/pkgs/lib"]],
        default=(),
    )
    preset: str = key(
        "The preset that its compiled recipes build on. Left out: the preset called like the attribute, or else "
        "`package`.",
        examples=["torch"],
        default="",
    )
    set: Literal["python", "top"] = key(
        "The package set that has the attribute: nixpkgs' Python packages or nixpkgs itself.", default="python"
    )
    at: Literal["leaf", "set"] = key(
        "Where the override stands: `leaf` overrides the package alone; `set` puts it and what it needs into the "
        "package set, so that other packages of the set are built with them.",
        default="leaf",
    )
    arguments: RecipeArguments = _by_build(
        "Arguments of nixpkgs' function for the package. Placeholders such as `@capability@` stand for values of the "
        "variant, and `@pkgs.NAME@` for a package of nixpkgs. `gpu` and `cpu` hold those for one kind of build.",
        examples=[{"gpu": {"gpuTargets": ["@capability@"]}}],
    )
    environment: RecipeEnvironment = _by_build(
        "Environment variables of the build, exported before it is configured.",
        examples=[{"gpu": {"FLASH_ATTN_CUDA_ARCHS": "@sm@"}}],
    )
    cmake_flags: RecipeFlags = _by_build(
        "Flags added to `cmakeFlags`.",
        examples=[["-DCMAKE_CUDA_ARCHITECTURES=@sm@"]],
    )
    build_flags: RecipeFlags = _by_build(
        "Flags of ninja (`ninjaFlags`), which runs as many jobs as Nix' `cores` and `jobs` allow.",
    )
    inputs: RecipeInputs = _by_build(
        "Packages of nixpkgs added to the inputs, by the attribute that lists them.",
        examples=[{"buildInputs": ["openblas"]}],
    )
    attributes: RecipeAttributes = _by_build(
        "Further attributes of the derivation.",
        examples=[{"doCheck": False}],
    )
    overlays: tuple[FilePath, ...] = key(
        "Nix files, from the repository's root, whose overlays its recipes apply to nixpkgs.",
        default=(),
        examples=[["nix/overlay.nix"]],
    )
    capabilities: bool | None = key(
        "Whether `config.cudaCapabilities` names the GPU's capability, which rebuilds the CUDA libraries that the "
        "package uses. Left out: if nothing else in the recipe names it, or nixpkgs' defaults lack it.",
        default=None,
    )
    self_contained: bool = key(
        "Whether each compiled recipe holds all of its text. Otherwise what the recipes of a branch share stands once, "
        "in `.flox/ci-compiler`, and a recipe says what is its own. Recipes whose overlays or inputs name a value of "
        "the variant (`@gpu@`) are always self-contained.",
        default=False,
        published=False,
    )
    compiler_seed: bool = key(
        "Whether the GPU variants of one branch, Python, toolkit and ISA share the host code that they compile: ccache "
        "keeps that of the first one, as a derivation that all of them take. For packages that compile through CMake.",
        default=False,
        published=False,
    )


@declared()
class WorkAround:
    """A work-around for builds: an overlay, flags, variables and shell code, which branches list by name.

    Texts may hold placeholders. Those of shell are the content of a Nix string, so `${…}` is expanded by Nix.
    """

    name: str
    why: str = key(
        "The reason, a comment in the recipes.",
        title="a reason of one line (3 to 200 characters)",
        minLength=3,
        maxLength=200,
        pattern=COMMENT_LINE,
    )
    packages: tuple[str, ...] = key(
        "Packages whose recipes have it. Left out: all.", default=(), published=False, examples=[["vllm"]]
    )
    build: Literal["gpu", "cpu", ""] = key("The builds that have it, `gpu` or `cpu`. Left out: both.", default="")
    overlay: str = key("A Nix overlay.", default="")
    cmake: tuple[str, ...] = key("Flags added to `cmakeFlags`.", default=())
    exports: Mapping[str, str] = key(
        "Variables exported in `preConfigure`, with their value as the shell reads it.", default={}
    )
    post_patch: str = key("Shell code at the end of `postPatch`.", default="")
    pre_configure: str = key("Shell code at the end of `preConfigure`.", default="")
    pre_build: tuple[str, ...] = key("Shell code at the end of `preBuild`, by line.", default=())
