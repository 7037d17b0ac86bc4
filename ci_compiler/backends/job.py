"""A backend's programs in a job on a machine, and the plain values that they take and return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, failure
from ci_compiler.process import PAST_LIMIT, Ended
from ci_compiler.publishing.plan import Nights
from ci_compiler.publishing.target import Target
from ci_compiler.secret import Secret
from ci_compiler.units import duration

show = partial(print, flush=True)
"""Prints a line of a program's output at once."""


class DeclaredCommands(Protocol):
    """The commands that the spec declares for a package that is built without recipes."""

    @property
    def build(self) -> str:
        """The path of the build script, from the root of the repository."""

    @property
    def files(self) -> tuple[str, ...]:
        """Patterns of the files that the script makes."""

    @property
    def version(self) -> object:
        """What the spec declares of the version, which the files must then have; None for nothing."""

    @property
    def setup(self) -> str:
        """The command that installs the files for a test; '' for `pip install` of the wheels among them."""

    @property
    def fetch(self) -> str:
        """The command that fetches the published files; '' for none."""

    @property
    def publish(self) -> object:
        """The command that publishes the files; something else where the job has a target."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the publishing secrets, which `publish` and `published` get."""

    @property
    def published(self) -> str:
        """The command that succeeds if the version is published already; '' for none."""


class NeededFiles(NamedTuple):
    """The files of a variant that another one is built and tested with: verified, and alone in `folder`.

    `package` is its package, `setup` the declared command that installs them, and `values` are those of the variant.
    `gathered`: the other one has it from what it `gathers`.
    """

    package: str
    folder: Path
    setup: str
    values: Mapping[str, str]
    gathered: bool = False


class JobContext(NamedTuple):
    """Where a job runs a backend's programs: the root of the checkout, the spec's owner and cache, and the secrets.

    `secrets` has the publishing secrets that the job was given, by name. `seconds` limits each program. `folder` is the
    folder of the manifest, in which a backend that `uses_artifacts` keeps what it builds. `values` are those of the
    job's variant by name (`spec.values`), `environment` are the variables that its commands get, `container` the image
    that its build script runs in ('': none), and `commands` what the spec declares for its package. `recipes` is the
    tree that recipes are read from, None for `root`. `needed` are the files that were handed over, in build order,
    below the folder `needs`. `target` opens the place that files are published to without a command, `whole` names all
    variants of the release that are shown there together (None: each alone), and `keep` says which nights stay there.
    """

    root: Path
    owner: str
    cache: BinaryCache | None
    secrets: Mapping[str, Secret]
    seconds: float
    folder: Path = Path()
    values: Mapping[str, str] = MappingProxyType({})
    environment: Mapping[str, str] = MappingProxyType({})
    container: str = ""
    commands: DeclaredCommands | None = None
    recipes: Path | None = None
    needs: Path | None = None
    needed: tuple[NeededFiles, ...] = ()
    target: Callable[[], Target] | None = None
    whole: Callable[[], Sequence[str]] | None = None
    keep: Nights | None = None


def variables(values: Mapping[str, str]) -> dict[str, str]:
    """The values of a variant by name as environment variables: `VARIANT_` and the name in capitals."""
    return {f"VARIANT_{name.upper().replace('-', '_')}": value for name, value in values.items()}


class ImportWay(NamedTuple):
    """A way in which users get a package, by name, and the import path that it gives them.

    `lacks` is the reason why the package cannot be tested in this way; '' if it can.
    """

    name: str
    paths: tuple[str, ...]
    lacks: str = ""


class Interpreter(NamedTuple):
    """A Python interpreter, folders to add to its import path, and the folder that the package must come from.

    `program` is '' if the package is not for Python; `lacks` says why. `ways` are further ways to get the package, in
    each of which a test imports it once.
    """

    program: str
    paths: tuple[str, ...] = ()
    home: str = ""
    lacks: str = ""
    ways: tuple[ImportWay, ...] = ()


class NeededVariant(NamedTuple):
    """A variant that another one is built with: its name and the path of its recipe.

    `expression` is a Nix expression of its derivation if another repository builds it, else ''.
    """

    name: str
    recipe: str
    expression: str = ""


class OtherVariant(NamedTuple):
    """A variant that another one does not need by the spec: its name, its recipe's path, and whether that is named.

    `finding` is what is wrong if the other one is built with it.
    """

    name: str
    recipe: str
    named: bool
    finding: Finding


class BuildOrder(NamedTuple):
    """A variant to build: its name, the path of its recipe or build script, what it needs, and the file for the log.

    `staged` are the staged builds of what it needs, as store paths. `others` are the variants that it does not need.
    """

    name: str
    recipe: str
    needs: tuple[NeededVariant, ...]
    log: Path
    staged: tuple[str, ...] = ()
    others: tuple[OtherVariant, ...] = ()


class JoinedVariant(NamedTuple):
    """A variant that one build makes together with others: the patterns of its files, and the folder for them.

    Its wheels must have `version` and be for `python`, those of the `package` before all others; '' for any.
    """

    name: str
    patterns: tuple[str, ...]
    folder: Path
    version: str = ""
    python: str = ""
    package: str = ""


class BuildResult(NamedTuple):
    """The result of a build, as the manifest states it.

    `store_path` is the output to install, `outputs` are all. `closure` has the hash of the content of each output and
    of all that it needs; `closure_size` is the size of what `store_path` needs, in bytes. `seconds` is how long the
    build took from `started` (UTC) on; `built` is False if the outputs existed already. `python_modules` are the
    outputs that nixpkgs' `withPackages` adds to an interpreter with the package, by its `requiredPythonModules`.
    """

    derivation: str
    store_path: str
    outputs: tuple[str, ...]
    closure_size: int
    closure: Mapping[str, str]
    started: datetime
    seconds: float
    built: bool
    staged: str = ""
    remarks: tuple[str, ...] = ()
    python_modules: tuple[str, ...] = ()


class BuildRecord(Protocol):
    """What a manifest states of a build: `BuildResult` in part, the variant, and its branch and commit."""

    @property
    def name(self) -> str:
        """The variant's name."""

    @property
    def version(self) -> str:
        """The version of its package."""

    @property
    def branch(self) -> str:
        """The branch that it was built for."""

    @property
    def commit(self) -> str:
        """The commit that it was built from."""

    @property
    def derivation(self) -> str:
        """Its derivation, or its build script."""

    @property
    def store_path(self) -> str:
        """The output to install."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs."""

    @property
    def closure(self) -> Mapping[str, str]:
        """The hash of the content of each path that the outputs need, by path, references first."""

    @property
    def staged(self) -> str:
        """The staged build, as a store path; '' if other machines get it otherwise."""

    @property
    def python_modules(self) -> tuple[str, ...]:
        """The outputs that nixpkgs' `withPackages` adds by `requiredPythonModules`; () for unknown."""


class BackendPrograms(Protocol):
    """A backend's programs in one job.

    Every method raises InputError if a program or a setting is missing, and StageError if a program fails.
    """

    def evaluate(self, recipe: str) -> Mapping[str, str]:
        """The attributes of the derivation that a recipe evaluates to, as its build sees them; {} without recipes."""

    def outputs(self, recipes: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """The paths of all outputs of `recipes`, by recipe; {} without recipes.

        One that is missing or does not evaluate has none, which is printed.
        """

    def build(self, order: BuildOrder) -> BuildResult:
        """Builds a variant with what it needs, and shares the result with other machines if the spec has a cache."""

    def build_joined(self, order: BuildOrder, members: Sequence[JoinedVariant]) -> Mapping[str, BuildResult]:
        """Builds all of `members` at once; their results by name. Raises InputError if the backend cannot."""

    def fetch(self, build: BuildRecord) -> bool:
        """Makes a build available on this machine. Returns False if it was already."""

    def fetch_recipe(self, name: str, recipe: str) -> BuildResult:
        """Makes the build of the recipe of `name` in the checkout available on this machine, without building it."""

    def closure(self, build: BuildRecord) -> tuple[str, ...]:
        """The paths that a build needs on this machine, its own last; () if it has not been fetched."""

    def interpreter(self, build: BuildRecord, scratch: Path) -> Interpreter:
        """The interpreter to test a build with, which has been fetched; `scratch` is an empty folder for it."""

    def prove(self, build: BuildRecord, recipe: str) -> None:
        """Makes a build available, and raises StageError unless it is what `recipe` evaluates to.

        Its outputs must be all those of the recipe, and every path that they need must have the content that the build
        states. Without recipes, only the content is verified.
        """

    def recorded(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Those of `texts` that `record` shared; () if the backend or the spec has no cache that keeps them."""

    def record(self, text: str) -> None:
        """Shares a short text, which any machine then finds by `recorded`. Does nothing without a cache for it."""

    def attest(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> None:
        """Keeps records, signed by the publishing key, that a build passed `tests`, where there is a place for them.

        With another `recipe`, they are about what the closure of the build has of it.
        """

    def attested(self, build: BuildRecord, tests: Sequence[str], recipe: str = "") -> bool:
        """Whether such records show that a build, or what its closure has of another `recipe`, passed `tests`."""

    def is_published(self, name: str, version: str, recipe: str, tests: Sequence[str]) -> bool:
        """Whether `version` of the variant `name`, or what the recipe in the checkout evaluates to, is published.

        `tests` are those that it must have passed, where the backend keeps records of them.
        """

    def published(self, build: BuildRecord, tests: Sequence[str]) -> str:
        """What shows that a build is already published, having passed `tests`; '' if nothing does."""

    def upload(self, build: BuildRecord) -> str:
        """Brings a build that is of a whole release to where that is published, without showing it.

        Returns what the release waits for, in words; '' if the build may be published.
        """

    def publish(self, build: BuildRecord) -> None:
        """Publishes a build."""


def check_built(order: BuildOrder, ended: Ended) -> None:
    """Raises StageError with the end of the log if the build of `order` failed."""
    if ended.status == 0:
        return
    how = "took too long and was ended" if ended.status == PAST_LIMIT else f"ended with status {ended.status}"
    message = f"the build {how} after {duration(ended.seconds)}; the end of {order.log}:"
    raise failure(order.name, Code.BUILD_FAILED, message, tail=ended.out.splitlines())
