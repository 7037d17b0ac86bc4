"""Keys of the spec about branches and packages: what is built."""

from collections.abc import Mapping
from typing import Literal

from ci_compiler.spec.command import Command
from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import BranchNames, Commit, Hash, Minutes, PackageName, PackageVersion, RepositoryName, Word
from ci_compiler.spec.smoke import Smoke
from ci_compiler.variant import recipe_path


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
        "The nixpkgs commit that the branch's recipes are pinned to; required for a backend that builds recipes.",
        title="a commit of nixpkgs (40 hexadecimal digits, in quotes where they are all digits)",
        pattern="^[0-9a-f]{40}$",
        examples=["fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"],
        default="",
        published=False,
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
    attribute: str = key(
        "Attribute in nixpkgs' Python package set; the package's own name, if not given.",
        title="a Nix attribute name (letters, digits, _ and -)",
        pattern="^[A-Za-z_][A-Za-z0-9_-]{0,99}$",
        examples=["torch"],
        default="",
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
    command: Command | None = key(default=None, published=False)
    smoke: Smoke | None = key(default=None, published=False)

    def on(self, branch: str) -> bool:
        """Whether `branch` has the package."""
        return not self.branches or branch in self.branches

    def source(self, name: str) -> str:
        """The path of the file that builds the variant `name`: its recipe, or the package's build script."""
        return self.command.build if self.command else recipe_path(name)


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
