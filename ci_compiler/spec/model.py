"""The spec as the rest of the compiler sees it: frozen, complete (every default filled in), names not yet judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ci_compiler.errors import Finding, Place, Severity
from ci_compiler.hardware import Hardware
from ci_compiler.spec.load import Document, Path_


class Stage(StrEnum):
    """What is done to a variant, in this order."""

    BUILD = "build"
    CPU_TEST = "cpu-test"
    GPU_TEST = "gpu-test"
    PUBLISH = "publish"


TESTS = (Stage.CPU_TEST, Stage.GPU_TEST)


class Backend(StrEnum):
    """What builds and publishes a variant."""

    FLOX = "flox"
    NIX = "nix"


class TestPolicy(StrEnum):
    """What a test that no pool can run means."""

    __test__ = False  # no test case, whatever pytest makes of the name

    REQUIRED = "required"
    WHERE_ROUTED = "where-routed"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A package's source on GitHub: `OWNER/NAME`, a tag, the SRI hash of what it holds."""

    repository: str
    tag: str
    hash: str
    submodules: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A git branch that carries recipes: its CUDA toolkit (`12.8`), nixpkgs commit and package versions.

    `nixpkgs_hash` may be ''. `sources`, `pnames` and `work_arounds` are what its recipes need beyond nixpkgs.
    """

    name: str
    cuda: str
    nixpkgs: str
    nixpkgs_hash: str
    allow_broken: bool
    versions: Mapping[str, str]
    sources: Mapping[str, Source]
    pnames: Mapping[str, str]
    work_arounds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Another GitHub repository (`OWNER/NAME`) with a package's recipes: the commit and archive hash by branch."""

    name: str
    rev: Mapping[str, str]
    hash: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package: its attribute in nixpkgs' Python set, the packages it is built with, what a build takes.

    `minutes` are on a 32-core builder, by "gpu" and "cpu"; `disk` and `memory` in GB; `jobs` compilers at a time.
    `branches` empty: all. A package with a `repository` is built there, and only imported here.
    """

    name: str
    title: str
    attribute: str
    needs: tuple[str, ...]
    branches: tuple[str, ...]
    minutes: Mapping[str, int]
    disk: int
    memory: int
    jobs: int
    repository: Repository | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAxis:
    """One entry of the GPU axis. Empty `branches` or `isas`: the product with all of them; `also`: ISAs by branch."""

    name: str
    branches: tuple[str, ...]
    isas: tuple[str, ...]
    also: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Variants that nobody wants: a pattern of names, the branches (empty: all), the reason, its index in the spec."""

    index: int
    pattern: str
    branches: tuple[str, ...]
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The axes as declared."""

    pythons: tuple[str, ...]
    isas: Mapping[str, tuple[str, ...]]
    gpus: tuple[GpuAxis, ...]
    exclude: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOn:
    """How a job addresses machines: a label set, within a runner group or not, or a runner scale set by its name."""

    labels: tuple[str, ...] = ()
    group: str = ""
    scale_set: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of like machines: what they have (`cpu`: ISAs as declared; '' for no GPU) and what they may run.

    `image` is the container image of its runners.
    """

    name: str
    runs_on: RunsOn
    system: str
    stages: tuple[Stage, ...]
    cpu: tuple[str, ...]
    gpu: str
    count: int
    cores: int
    memory: int
    disk: int
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Tests that come first, the GitHub environment with the secret, whether a push publishes."""

    after: tuple[Stage, ...]
    environment: str
    on_push: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A Nix binary cache: its store URL and the public key of its signatures."""

    url: str
    public_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Days of the week (`mon`) on which shards start by the clock, and whether they build `all` or `unpublished`."""

    days: tuple[str, ...]
    build: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A whole spec. `toolkit` is a pip requirement; `document` knows where each value stands in the file.

    `timeouts` end a job; `stage_minutes` are what the stages after a build are reckoned to take.
    """

    document: Document
    hardware: Hardware
    owner: str
    backend: Backend
    branches: Mapping[str, Branch]
    packages: Mapping[str, Package]
    matrix: Matrix
    pools: tuple[Pool, ...]
    tests: Mapping[Stage, TestPolicy]
    timeouts: Mapping[Stage, int]
    stage_minutes: Mapping[Stage, int]
    publish: Publish
    cache: Cache | None
    attest: bool
    pull_request_cells: int
    schedule: Schedule | None
    hosted: str
    toolkit: str

    def place(self, *path: str | int, key: bool = False) -> Place:
        """Where the value (or the key) at `path` stands in the spec's file."""
        full: Path_ = path
        return self.document.place(full, key=key)

    def finding(self, path: Path_, code: str, message: str, *, key: bool = False, warn: bool = False) -> Finding:
        """A finding about the value (or the key) at `path`."""
        severity = Severity.WARNING if warn else Severity.ERROR
        return Finding(place=self.place(*path, key=key), code=code, message=message, severity=severity)
