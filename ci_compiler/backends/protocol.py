"""The protocol of a backend: the tool that builds and publishes variants.

A backend has two sides. `Backend` states facts and judges plain values; workflows, routing, the doctor and the reports
read it. `BackendPrograms` (in `job`) runs the backend's programs in a checkout, for the stages on a machine. Neither
knows a spec: all arguments are plain values, and no argument or result implies a Nix store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ci_compiler.judgement import failed, ok

if TYPE_CHECKING:
    import re

    from ci_compiler.backends.job import BackendPrograms, JobContext
    from ci_compiler.hardware.machine import Machine
    from ci_compiler.judgement import Judgement


class NixUse(Enum):
    """Which Nix a backend builds with, if any: the doctor checks the Nix that is installed on the machine."""

    NONE = "none"
    OWN = "own"
    INSTALLED = "installed"


class CachePush(Enum):
    """What is copied into a binary cache: the whole closure of a build, or the part that other caches do not serve."""

    ALL = "all"
    OWN = "own"


class BinaryCache(Protocol):
    """A binary cache that closures travel through, as the spec names it."""

    @property
    def url(self) -> str:
        """Its URL."""

    @property
    def public_key(self) -> str:
        """The key that its paths are signed with, as NAME:BASE64."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys whose signatures count: the public key first, then those that it replaces, or that replace it."""

    @property
    def builder_keys(self) -> tuple[str, ...]:
        """The keys with which builders' daemons sign what they build."""

    @property
    def public(self) -> bool:
        """Whether anyone may fetch from it."""

    @property
    def staging(self) -> str:
        """The URL of the store that unpublished builds travel through; '' for the cache itself."""

    @property
    def staging_days(self) -> int:
        """For how many days they are kept."""

    @property
    def push(self) -> CachePush:
        """What is copied into it."""

    @property
    def others(self) -> tuple[str, ...]:
        """The URLs of the caches whose paths are left out of it."""

    @property
    def redistributes(self) -> tuple[str, ...]:
        """Vendors' products that its owner may serve to others."""


class CommandAnswer(Protocol):
    """How a command ended: its exit status, and the line that it printed."""

    @property
    def status(self) -> int:
        """The exit status."""

    @property
    def said(self) -> str:
        """The line that says why it failed."""


class Tool(NamedTuple):
    """A program that a backend runs, and how to install it."""

    name: str
    install: str


class OutputForms(NamedTuple):
    """The forms of what a manifest states of a build. Its values become arguments of commands on other machines.

    `derivation` and `path` are those of its derivation and outputs, `content` that of the hash of an output's content.
    """

    derivation: re.Pattern[str]
    path: re.Pattern[str]
    content: re.Pattern[str]


class SecretEvidence(NamedTuple):
    """What a publishing secret is judged by.

    `now` is in seconds since 1970. `minutes` is the time for which the secret must remain valid. `answer` is that of
    the backend's `secret_command`; None if there is no such command or program. `name` is what it is called.
    """

    text: str
    now: int
    minutes: int
    owner: str
    cache: BinaryCache | None
    machine: Machine
    answer: CommandAnswer | None
    name: str = ""


class InstallRequest(NamedTuple):
    """What a user wants to install: variants of one cell of `branch`, by the paths of their recipes.

    `wanted` are the names of the variants and of what they need, each with a version or '', in build order. `declared`
    are the commands that the spec declares for the variants.
    """

    owner: str
    branch: str
    recipes: tuple[str, ...]
    wanted: tuple[tuple[str, str], ...]
    cache: BinaryCache | None
    declared: tuple[str, ...] = ()


class Backend(ABC):
    """A backend: facts, and functions of plain values.

    `name` is its name in specs, `title` its name in sentences, and `summary` says in a few words what builds and
    what publishes. `tools` are the programs that a stage needs on PATH. `secret` is the name of the publishing
    secret, which a spec without recipes may name otherwise. `has_recipes`: it builds Nix recipes, which are
    compiled or kept in the repository; the others build what the spec's `command` declares. `uses_artifacts`: what
    it builds travels to other machines with the manifest, as an artifact of the run. `installer` is the action that
    installs the tools on a hosted machine, which has a pin in `workflows/pins.json`; '' if they need no
    installation. `nix` is the Nix that it builds with. `publishes_into_cache`: it publishes into the spec's binary
    cache. `builds_to_publish`: publishing builds again what the store lacks, and so needs a machine that can build.
    `reads_loader_cache`: what it builds finds the driver in the loader's cache as well. `forms` are the forms of
    its outputs in a manifest. `withdrawal` says how a publication is taken back. The runner images have what
    `runner-images/build.py --backend` calls `image`. `locks` are the files that decide what recipes without a pin
    are built from, as paths from the repository's root. `about` is a sentence for users who do not know its
    program, and the address of the page that installs it. `platforms` are the ends of the names of the platforms
    that it makes; () for all.
    """

    name: str
    title: str
    summary: str
    tools: tuple[Tool, ...]
    secret: str
    has_recipes: bool = True
    uses_artifacts: bool = False
    installer: str = ""
    nix: NixUse = NixUse.NONE
    publishes_into_cache: bool = False
    builds_to_publish: bool = False
    reads_loader_cache: bool = False
    forms: OutputForms
    withdrawal: str
    image: str = "nix"
    locks: tuple[str, ...] = ()
    about: tuple[str, str] = ("", "")
    platforms: tuple[str, ...] = ("-linux", "-darwin")

    def makes(self, platform: str) -> bool:
        """Whether it makes what runs on `platform`."""
        return not self.platforms or platform.endswith(self.platforms)

    def __str__(self) -> str:
        return self.name

    def check_tools(self, machine: Machine, found: Collection[str], *, testing: bool) -> Judgement:  # noqa: ARG002
        """Judges whether a machine has the tools; `found` are those on PATH, `testing` says that it only tests."""
        missing = next((tool for tool in self.tools if tool.name not in found), None)
        if missing:
            return failed(f"{missing.name} is not on PATH", missing.install)
        return ok(", ".join(tool.name for tool in self.tools) or "no program is needed")

    def secret_command(self, text: str) -> tuple[str, ...]:  # noqa: ARG002
        """The command to ask whether the secret `text` is valid; () if the secret is judged without one."""
        return ()

    @abstractmethod
    def check_secret(self, evidence: SecretEvidence) -> Judgement:
        """Judges a publishing secret, which no message may contain."""

    @abstractmethod
    def install(self, request: InstallRequest) -> tuple[str, ...]:
        """The commands that install variants for a user."""

    def verify(
        self,
        script: str,  # noqa: ARG002
        recipes: Collection[str],  # noqa: ARG002
        cache: BinaryCache | None,  # noqa: ARG002
    ) -> tuple[str, ...]:
        """The commands that run the Python `script` with what is installed; () if none can.

        `recipes` are the paths of the recipes of the installed Python packages.
        """
        return ()

    @abstractmethod
    def programs(self, job: JobContext) -> BackendPrograms:
        """The backend's programs in a job. Raises InputError if one that every stage needs is missing."""
