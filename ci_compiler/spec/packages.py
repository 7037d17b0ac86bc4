"""Keys of the spec about branches and packages: what is built."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from ci_compiler.spec.axes import AcceleratorRow, AxisName, Conditions, Join, Matrix, When, joins, to_when
from ci_compiler.spec.command import Command
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.edges import GATHERS, NEEDS, Edge, WrittenEdges, to_edges
from ci_compiler.spec.forms import (
    LINE,
    REVISION,
    WORD,
    BranchName,
    BranchNames,
    Commit,
    Gigabytes,
    Hash,
    Minutes,
    PackageName,
    PackageVersion,
    PoolName,
    Reason,
    RepositoryName,
    VariantPattern,
    Word,
)
from ci_compiler.spec.patterns import matcher
from ci_compiler.spec.recipe_keys import RecipeKeys
from ci_compiler.spec.shorthand.keys import ShortMatrix, without_short_keys
from ci_compiler.spec.shorthand.lists import TOOLKITS, ToolkitVersion
from ci_compiler.spec.suites import DeclaredBenchmark, Smoke, Suite, SuiteName, each_row
from ci_compiler.spec.upstream import Upstream
from ci_compiler.variant import recipe_path

BUILDER_CORES = 32
"""The cores of the builder that the minutes of a package refer to."""


@declared()
class Source:
    """A source on GitHub."""

    repository: RepositoryName = key("Where it comes from.", examples=["pytorch/vision"])
    tag: str = key(
        "The tag that is built.",
        title="a tag (letters, digits and . _ -)",
        pattern=WORD,
    )
    hash: Hash = key("Hash of the tag's content.")
    submodules: bool = key("Whether its submodules are fetched as well.", default=False)
    commit: Commit = key(
        "The commit that the tag named when the hash was taken. `ci-compile update` writes it, and reports a tag that "
        "was moved since.",
        default="",
    )


@declared(type=["object", "null"])
class Pin:
    """The nixpkgs that recipes build from, and what they change there."""

    nixpkgs: str = key(
        "The nixpkgs commit that recipes are pinned to. Required where `ci-compile` writes recipes.",
        title="a commit of nixpkgs (40 hexadecimal digits, in quotes where they are all digits)",
        pattern=REVISION,
        examples=["fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"],
        default="",
    )
    nixpkgs_hash: Hash = key(
        "Hash of that commit's archive, which `ci-compile hash` fills in. Required where a branch publishes into a "
        "`cache`; with it the recipes also evaluate in Nix's pure mode.",
        default="",
    )
    allow_broken: bool = key(
        "Whether the recipes build their own package where nixpkgs marks it as broken (for a CUDA toolkit that nixpkgs "
        "does not build it with yet). Other broken packages stay refused; a work-around's overlay repairs one.",
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


def _toolkits(value: str | list[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {value: None}
    return value if isinstance(value, Mapping) else dict.fromkeys(value)


@declared(type="object")
class Branch(Pin):
    """A git branch that carries recipes.

    `toolkits` has the pin in force for each of its toolkits, in the spec's order.
    """

    name: str
    toolkits: Mapping[str, Pin] = key(
        "CUDA toolkit of the branch's GPU variants, a list of several, or a mapping whose entries refine the branch's "
        "nixpkgs and what follows from it.",
        name=TOOLKITS,
        title='a CUDA toolkit\'s version in quotes ("12.8"), a list of versions, or a mapping of versions',
        written=ToolkitVersion | Annotated[tuple[ToolkitVersion, ...], form(minItems=1)] | Mapping[ToolkitVersion, Pin],
        convert=_toolkits,
        examples=["12.8", ["12.8", "12.9"], {"12.9": {}, "13.1": {"allow-broken": True}}],
        default={},
        published=False,
    )
    accelerators: Mapping[Word, AcceleratorRow] = key(
        "What the name of a family stands for on this branch, in place of the general `accelerators`.",
        default={},
    )
    publish: bool = key(
        "Whether its variants are published. A branch for a consumer, which repeats the names and versions of another "
        "branch, is not.",
        default=True,
    )
    versions: Mapping[str, PackageVersion] = key(
        "Version of each package on this branch. Optional for packages whose recipes are the repository's own.",
        default={},
        examples=[{"pytorch": "2.8.0", "torchvision": "0.23.0"}],
    )

    def pin(self, toolkit: str) -> Pin:
        """The pin for variants of the toolkit `toolkit`; the branch's own for others."""
        return self.toolkits.get(toolkit, self)


@declared()
class Repository:
    """Another repository that holds this package's recipes; it is built there, and imported here."""

    name: RepositoryName = key("Where the recipes are.", examples=["my-org/build-pytorch"])
    rev: Mapping[str, Commit] = key(
        "The commit, by branch. Required where recipes that `ci-compile` writes import it.", default={}
    )
    hash: Mapping[str, Hash] = key("Hash of that commit's archive, by branch. Required where `rev` is.", default={})
    branches: Mapping[str, BranchName] = key(
        "The branch there, by the branch here, where their names differ.",
        default={},
        examples=[{"pytorch-2.10": "pytorch-2.10-python313"}],
    )


class RecipeKind(StrEnum):
    """Where a recipe comes from: compiled from the spec, rendered from a template, or the repository's own."""

    COMPILED = "compiled"
    TEMPLATE = "template"
    OWN = "own"


def _kinds(value: str | Mapping[str, str]) -> tuple[tuple[str, RecipeKind], ...]:
    rows = {"*": value} if isinstance(value, str) else value
    return tuple((pattern, RecipeKind(kind)) for pattern, kind in rows.items())


def _reasons(value: str | Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(({"*": value} if isinstance(value, str) else value).items())


@declared()
class ListedVariant:
    """A variant that fits no axis of the matrix, such as one for macOS. Its recipe is the repository's own."""

    name: str
    system: Word = key("Nix system that builds it.", examples=["aarch64-darwin"])
    pool: PoolName = key("The pool that builds and tests it, if not the least scarce one of its system.", default="")
    branches: BranchNames = key(default=(), published=False)

    def on(self, branch: str) -> bool:
        """Whether `branch` has the variant."""
        return not self.branches or branch in self.branches


@declared()
class Package(RecipeKeys):
    """A package: what it is in nixpkgs, what it is built with, what a build takes."""

    name: str
    attribute: str = key(
        "Attribute in nixpkgs' package set; the package's own name, if not given.",
        title="a Nix attribute name (letters, digits, _ and -)",
        pattern="^[A-Za-z_][A-Za-z0-9_-]{0,99}$",
        examples=["torch"],
        default="",
    )
    title: str = key(
        "The package's name in documents and descriptions; its name in the spec, if not given.",
        title="a name for people (one line)",
        minLength=1,
        maxLength=60,
        pattern=LINE,
        examples=["PyTorch"],
        default="",
    )
    jobs: int = key(
        "The most compilers that a build runs at a time. Compiled recipes run no more than Nix' `cores` on the builder "
        "either, so their result does not depend on the builder. A build script gets no more than the machine has "
        "cores, and memory for.",
        title="a number of compile jobs",
        minimum=1,
        maximum=1024,
        default=32,
    )
    repository: Repository | None = key(default=None)
    recipes: tuple[tuple[str, RecipeKind], ...] = key(
        "Where its recipes come from: `compiled` from this file, rendered from a `template`, or the repository's "
        "`own`, which are never written. A mapping says so by pattern; the first pattern that matches counts, and "
        "other variants are compiled.",
        title="compiled, template or own, or a mapping from patterns of variant names to these",
        written=RecipeKind | Mapping[VariantPattern, RecipeKind],
        convert=_kinds,
        examples=["own", {"*-sm61-*": "own"}],
        default=(("*", RecipeKind.COMPILED),),
        published=False,
    )
    matrix: Matrix | None = key(
        "The package's axes, in place of the general matrix.",
        default=None,
        written=ShortMatrix,
        convert=without_short_keys,
    )
    ignores: tuple[AxisName, ...] = key(
        "Axes, or parts of the accelerator (`family`, `toolkit`, `target`), in which its builds do not differ: it is "
        "built once for all of their values, and its names do without them.",
        minItems=1,
        default=(),
        published=False,
        examples=[["python"], ["accelerator"]],
    )
    when: When | None = key(
        "The cells that it is built for. Left out: every cell of its matrix.",
        default=None,
        written=Conditions,
        convert=to_when,
    )
    joins: tuple[Join, ...] = key(
        "Variants that one build makes together: a list of axes, or rows of which the first that applies counts.",
        title="a list of axes, or a list of {axes, with, when}",
        written=Annotated[tuple[AxisName, ...], form(minItems=1)] | tuple[Join, ...],
        convert=joins,
        default=(),
        published=False,
        examples=[["python"], [{"with": "libcudf", "when": {"format": "conda"}}]],
    )
    system: Word = key(
        "Nix system of a package without variants: one build, called as the package, whose recipe is the repository's "
        "own.",
        examples=["x86_64-linux"],
        default="",
    )
    variants: Mapping[Word, ListedVariant] = key(
        "Variants that fit no axis, by name.",
        examples=[{"pytorch-python313-darwin-mps": {"system": "aarch64-darwin"}}],
        default={},
    )
    upstream: Upstream | None = key(default=None)
    edges: tuple[Edge, ...] = key(
        "Packages of which a variant is built with one variant: that of the same cell, or of the axes that an entry "
        "fixes.",
        name="needs",
        written=WrittenEdges,
        convert=to_edges,
        default=(),
        examples=[["pytorch"], [{"package": "torch", "accelerator": "cpu"}]],
    )
    gathers: tuple[Edge, ...] = key(
        "Packages of which a variant is built with every variant that fits, and at least one.",
        written=WrittenEdges,
        convert=to_edges,
        default=(),
        examples=[[{"package": "kernels", "python": "all", "isa": ["avx2", "avx512"]}]],
    )
    branches: BranchNames = key(default=(), published=False)
    minutes: Mapping[Literal["gpu", "cpu"], Minutes] = key(
        f"Duration of a build on a {BUILDER_CORES}-core builder, for the forecast.",
        title="{gpu: MINUTES, cpu: MINUTES}",
        default={"gpu": 60, "cpu": 30},
    )
    disk: Gigabytes = key("Disk that a build takes, in GB.", maximum=100000, default=10)
    memory: Gigabytes = key("Memory that a build takes, in GB.", maximum=100000, default=8)
    memory_per_job: Gigabytes = key("Memory that one of its compilers takes, in GB.", maximum=1000, default=2)
    command: Command | None = key(default=None)
    smoke: Smoke | None = key(default=None)
    suites: Mapping[SuiteName, Suite] = key(
        "Test suites, by name, which run after the smoke test.",
        examples=[{"ops": {"command": "python -m pytest --junitxml=report.xml", "minutes": 30, "junit": "report.xml"}}],
        default={},
        written=Mapping[SuiteName, Suite],
        convert=each_row,
    )
    benchmark: DeclaredBenchmark | None = key(default=None)
    untested: tuple[tuple[str, str], ...] = key(
        "Why its variants that no pool tests are published all the same: a reason, or reasons by pattern of variant "
        "names; the first pattern that matches counts. Without a reason, such a variant is not published.",
        title="a reason of one line (3 to 200 characters), or a mapping from patterns of variant names to reasons",
        written=Reason | Mapping[VariantPattern, Reason],
        convert=_reasons,
        examples=["No machine here runs macOS.", {"*-darwin-*": "No machine here runs macOS."}],
        default=(),
        published=False,
    )

    @property
    def edges_by_kind(self) -> tuple[tuple[str, tuple[Edge, ...]], ...]:
        """Its edges, by their kind."""
        return (NEEDS, self.edges), (GATHERS, self.gathers)

    @property
    def needs(self) -> tuple[str, ...]:
        """The packages whose variant of the same cell each of its variants is built with."""
        return tuple(edge.package for edge in self.edges if edge.is_plain)

    def built_after(self, *, always: bool = False) -> tuple[str, ...]:
        """The packages that its edges lead to; with `always`, without those of edges that a `when` limits."""
        every = [edge for edge in (*self.edges, *self.gathers) if edge.when is None or not always]
        return tuple(dict.fromkeys(edge.package for edge in every if edge.package != self.name or edge.is_plain))

    def why_untested(self, name: str) -> str:
        """Why its variant `name` may be published without a test; '' if it may not."""
        return next((reason for pattern, reason in self.untested if matcher(pattern)(name)), "")

    def on(self, branch: str) -> bool:
        """Whether `branch` has the package."""
        return not self.branches or branch in self.branches

    def source(self, name: str) -> str:
        """The path of the file that builds the variant `name`: its recipe, or the package's build script."""
        return self.command.build if self.command else recipe_path(name)

    def listed(self, branch: str) -> tuple[ListedVariant, ...]:
        """Its variants on `branch` that fit no axis."""
        single = (ListedVariant(name=self.name, system=self.system),) if self.system else ()
        return tuple(one for one in (*single, *self.variants.values()) if self.on(branch) and one.on(branch))

    def may_be(self, kind: RecipeKind) -> bool:
        """Whether a variant in its matrix can have a recipe of `kind`."""
        kinds = {one for _, one in self.recipes}
        everything = any(pattern == "*" for pattern, _ in self.recipes)
        return not (self.system or self.command) and (kind in kinds or (kind is RecipeKind.COMPILED and not everything))

    def kind_of(self, name: str) -> RecipeKind:
        """Where the recipe of its variant `name` comes from."""
        if self.system or name in self.variants:
            return RecipeKind.OWN
        return next((kind for pattern, kind in self.recipes if matcher(pattern)(name)), RecipeKind.COMPILED)
