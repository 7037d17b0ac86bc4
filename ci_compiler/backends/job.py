"""A backend's programs in a job on a machine, and the plain values that they take and return."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.secret import Secret


class JobContext(NamedTuple):
    """Where a job runs a backend's programs: the root of the checkout, the spec's owner and cache, and the secrets.

    `secrets` has the publishing secrets that the job was given, by name. `seconds` limits each program.
    """

    root: Path
    owner: str
    cache: BinaryCache | None
    secrets: Mapping[str, Secret]
    seconds: float


class NeededVariant(NamedTuple):
    """A variant that another one is built with: its name and the path of its recipe.

    `expression` is a Nix expression of its derivation if another repository builds it, else ''.
    """

    name: str
    recipe: str
    expression: str = ""


class BuildOrder(NamedTuple):
    """A variant to build: its name, the path of its recipe, what it needs, and the file for the log."""

    name: str
    recipe: str
    needs: tuple[NeededVariant, ...]
    log: Path


class BuildResult(NamedTuple):
    """The result of a build, as the manifest states it.

    `store_path` is the output to install, `outputs` are all. `closure` has the hash of the content of each output and
    of all that it needs; `closure_size` is the size of what `store_path` needs, in bytes. `seconds` is how long the
    build took from `started` (UTC) on; `built` is False if the outputs existed already.
    """

    derivation: str
    store_path: str
    outputs: tuple[str, ...]
    closure_size: int
    closure: Mapping[str, str]
    started: datetime
    seconds: float
    built: bool


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
    def store_path(self) -> str:
        """The output to install."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs."""

    @property
    def closure(self) -> Mapping[str, str]:
        """The hash of the content of each path that the outputs need, by path."""


class BackendPrograms(Protocol):
    """A backend's programs in one job.

    Every method raises InputError if a program or a setting is missing, and StageError if a program fails.
    """

    def build(self, order: BuildOrder) -> BuildResult:
        """Builds a variant with what it needs, and shares the result with other machines if the spec has a cache."""

    def fetch(self, build: BuildRecord) -> bool:
        """Makes a build available on this machine. Returns False if it was already."""

    def fetch_recipe(self, name: str, recipe: str) -> None:
        """Makes the build of the recipe of `name` in the checkout available on this machine."""

    def closure(self, build: BuildRecord) -> tuple[str, ...]:
        """The paths that a build needs on this machine, its own last; () if it has not been fetched."""

    def is_published(self, name: str, version: str, recipe: str) -> bool:
        """Whether `version` of the variant `name`, or what the recipe in the checkout evaluates to, is published."""

    def published(self, build: BuildRecord) -> str:
        """What shows that a build is already published; '' if nothing does."""

    def publish(self, build: BuildRecord) -> None:
        """Publishes a build."""
