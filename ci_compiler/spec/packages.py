"""Keys of the spec about branches and packages: what is built."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import (
    BranchNames,
    Commit,
    FilePath,
    Hash,
    Minutes,
    PackageName,
    PackageVersion,
    RecipeArguments,
    RecipeAttributes,
    RecipeEnvironment,
    RecipeFlags,
    RecipeInputs,
    RepositoryName,
    Word,
)
from ci_compiler.spec.patterns import matcher
from ci_compiler.spec.presets import Override, by_build


class RecipeKind(StrEnum):
    """Where a recipe comes from: compiled from the spec, rendered from a template, or the maintainer's own."""

    COMPILED = "compiled"
    TEMPLATE = "template"
    OWN = "own"


def _kinds(value: str | Mapping[str, str]) -> Mapping[str, RecipeKind]:
    """The kind of recipe by pattern of variant names."""
    rows = {"*": value} if isinstance(value, str) else value
    return {pattern: RecipeKind(kind) for pattern, kind in rows.items()}


@declared()
class Source:
    """A source on GitHub."""

    repository: RepositoryName = key("Where it comes from.", examples=["pytorch/vision"])
    tag: str = key(
        "The tag that is built.",
        title="a tag (letters, digits and . _ -)",
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    )
    hash: Hash = key("Hash of the tag's content.")
    submodules: bool = key("Whether its submodules are fetched as well.", default=False)


@declared()
class Branch:
    """A git branch that carries recipes."""

    name: str
    cuda: str = key(
        "CUDA toolkit of the branch's GPU variants.",
        title='a CUDA toolkit\'s version in quotes ("12.8")',
        pattern=r"^[0-9]{1,2}\.[0-9]{1,2}$",
        examples=["12.8", "13.0"],
    )
    nixpkgs: str = key(
        "The nixpkgs commit that the branch's recipes are pinned to.",
        title="a commit of nixpkgs (40 hexadecimal digits, in quotes where they are all digits)",
        pattern="^[0-9a-f]{40}$",
        examples=["fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"],
    )
    nixpkgs_hash: Hash = key(
        "Hash of that commit's archive; with it the recipes also evaluate in Nix's pure mode.",
        default="",
        published=False,
    )
    allow_broken: bool = key(
        "Whether the recipes allow packages that nixpkgs marks as broken (for a CUDA toolkit that nixpkgs does not "
        "build with yet).",
        default=False,
    )
    work_arounds: tuple[Word, ...] = key(
        "Names of the work-arounds that recipes for the branch's nixpkgs and sources need.",
        default=(),
        examples=[["magma-cuda-13", "torch-cccl", "torch-find-cuda-toolkit"]],
    )
    sources: Mapping[str, Source] = key(
        "Sources that replace those of nixpkgs, for packages that nixpkgs has in another version.",
        default={},
        examples=[
            {
                "pytorch": {
                    "repository": "pytorch/pytorch",
                    "tag": "v2.10.0",
                    "hash": "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=",
                    "submodules": True,
                }
            }
        ],
    )
    pnames: Mapping[str, PackageName] = key(
        "The beginning of a package's `pname` on this branch, where it is not the package's name.",
        default={},
        examples=[{"pytorch": "pytorch210"}],
    )
    versions: Mapping[str, PackageVersion] = key(
        "Version of each package on this branch.", examples=[{"pytorch": "2.8.0", "torchvision": "0.23.0"}]
    )


@declared()
class Repository:
    """Another repository that holds this package's recipes; it is built there, and imported here."""

    name: RepositoryName = key("Where the recipes are.", examples=["my-org/build-pytorch"])
    rev: Mapping[str, Commit] = key("The commit, by branch.", minProperties=1)
    hash: Mapping[str, Hash] = key("Hash of that commit's archive, by branch.", minProperties=1)


@declared()
class Package:
    """A package: what it is in nixpkgs, what it is built with, what a build takes."""

    name: str
    overrides: Mapping[str, Override] = field(default_factory=dict)
    attribute: str = key(
        "Attribute in nixpkgs' Python package set; the package's own name, if not given.",
        title="a Nix attribute name (letters, digits, _ and -)",
        pattern="^[A-Za-z_][A-Za-z0-9_-]{0,99}$",
        examples=["torch"],
        default="",
        published=False,
    )
    recipes: Mapping[str, RecipeKind] = key(
        "Where its recipes come from: `compiled` from this spec, rendered from its `template`, or its `own`, which are "
        "never written; one of them, or by patterns of variant names, of which the first that matches counts.",
        title="a kind of recipe (compiled, template, own), or kinds by patterns of variant names",
        written=RecipeKind | Mapping[str, RecipeKind],
        convert=_kinds,
        default={},
        examples=["template", {"*-sm61-*": "own"}],
    )
    template: FilePath = key(
        "The Nix file, from the repository's root, that its template recipes are rendered from.",
        examples=["nix/vllm.nix"],
        default="",
        published=False,
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
        published=False,
    )
    set: Literal["python", "top"] = key(
        "The package set that has the attribute: nixpkgs' Python packages or nixpkgs itself.", default="python"
    )
    at: Literal["leaf", "set"] = key(
        "Where the override stands: `leaf` overrides the package alone; `set` puts it and what it needs into the "
        "package set, so that other packages of the set are built with them.",
        default="leaf",
    )
    arguments: RecipeArguments = key(
        "Arguments of nixpkgs' function for the package. Placeholders such as `@capability@` stand for values of the "
        "variant, and `@pkgs.NAME@` for a package of nixpkgs. `gpu` and `cpu` hold those for one kind of build.",
        convert=by_build,
        default={},
        published=False,
        examples=[{"gpu": {"gpuTargets": ["@capability@"]}}],
    )
    environment: RecipeEnvironment = key(
        "Environment variables of the build, exported before it is configured.",
        convert=by_build,
        default={},
        published=False,
        examples=[{"gpu": {"FLASH_ATTN_CUDA_ARCHS": "@sm@"}}],
    )
    cmake_flags: RecipeFlags = key(
        "Flags added to `cmakeFlags`.",
        convert=by_build,
        default={},
        published=False,
        examples=[["-DCMAKE_CUDA_ARCHITECTURES=@sm@"]],
    )
    build_flags: RecipeFlags = key(
        "Flags of ninja (`ninjaFlags`), after -j with the compile jobs.",
        convert=by_build,
        default={},
        published=False,
    )
    inputs: RecipeInputs = key(
        "Packages of nixpkgs added to the inputs, by the attribute that lists them.",
        convert=by_build,
        default={},
        published=False,
        examples=[{"buildInputs": ["openblas"]}],
    )
    attributes: RecipeAttributes = key(
        "Further attributes of the derivation.",
        convert=by_build,
        default={},
        published=False,
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
        published=False,
    )
    title: str = key(
        "The package's name in documents and descriptions; its name in the spec, if not given.",
        title="a name for people (one line)",
        minLength=1,
        maxLength=60,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        examples=["PyTorch"],
        default="",
        published=False,
    )
    jobs: int = key(
        "Number of compilers that a build runs at a time (`MAX_JOBS`, ninja's -j): as many as the builders' memory "
        "holds.",
        title="a number of compile jobs",
        minimum=1,
        maximum=1024,
        default=32,
    )
    repository: Repository | None = key(default=None, published=False)
    needs: tuple[str, ...] = key(
        "Packages whose variant of the same cell this one is built with.", default=(), examples=[["pytorch"]]
    )
    branches: BranchNames = key(default=(), published=False)
    minutes: Mapping[Literal["gpu", "cpu"], Minutes] = key(
        "Duration of a build on a 32-core builder, for the forecast.",
        title="{gpu: MINUTES, cpu: MINUTES}",
        default={"gpu": 60, "cpu": 30},
    )
    disk: int = key("Disk that a build takes, in GB.", title="gigabytes", minimum=1, maximum=100000, default=10)
    memory: int = key("Memory that a build takes, in GB.", title="gigabytes", minimum=1, maximum=100000, default=8)

    def on(self, branch: str) -> bool:
        """Whether `branch` has the package."""
        return not self.branches or branch in self.branches

    def kind_of(self, name: str) -> RecipeKind:
        """Where the recipe of the variant called `name` comes from."""
        found = (kind for pattern, kind in self.recipes.items() if matcher(pattern)(name))
        return next(found, RecipeKind.COMPILED)


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
        pattern=r"^[^\x00-\x1f\x7f\u2028\u2029]+$",
    )
    packages: tuple[str, ...] = key(
        "Packages whose recipes have it. Left out: all.", default=(), published=False, examples=[["vllm"]]
    )
    build: Literal["gpu", "cpu", ""] = key(
        "The builds that have it, `gpu` or `cpu`. Left out: both.", default="", published=False
    )
    overlay: str = key("A Nix overlay.", default="", published=False)
    cmake: tuple[str, ...] = key("Flags added to `cmakeFlags`.", default=())
    exports: Mapping[str, str] = key(
        "Variables exported in `preConfigure`, with their value as the shell reads it.", default={}
    )
    post_patch: str = key("Shell code at the end of `postPatch`.", default="", published=False)
    pre_configure: str = key("Shell code at the end of `preConfigure`.", default="", published=False)
    pre_build: tuple[str, ...] = key("Shell code at the end of `preBuild`, by line.", default=())


def in_build_order(packages: Mapping[str, Package]) -> tuple[Package, ...]:
    """`packages` with each after those it needs, otherwise as declared. Raises ValueError, naming a cycle."""
    done: dict[str, Package] = {}
    waiting = dict(packages)
    while waiting:
        ready = [name for name, package in waiting.items() if all(need not in waiting for need in package.needs)]
        if not ready:
            message = f"need one another in a circle: {', '.join(waiting)}"
            raise ValueError(message)
        done |= {name: waiting.pop(name) for name in ready}
    return tuple(done.values())
