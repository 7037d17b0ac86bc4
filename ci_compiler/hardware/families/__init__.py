"""Families of accelerators: one row each, from a module of its own, which alone knows the family's facts.

A *target* is what code is compiled for. It is an opaque name; which target runs code of which other one is the family's
own rule. Code for several targets in one build bears their names with commas between, and runs where code for one of
them does. A family without facts has no order of targets: code runs where its target, or its family if it has no
target, is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ci_compiler.hardware.families.machines import Machines

NONE = "cpu"
"""The family of variants that use no accelerator."""

ALL = "all"
"""The target of code for every target that its toolkit supports."""

NO_TARGETS = "(?!)"
"""The pattern of the targets of a family that has none: its code is compiled on the machine that runs it."""


class CodeTarget(Protocol):
    """What a rule is given of a target."""

    @property
    def name(self) -> str:
        """Its name; the family's if code is not compiled for a target."""

    @property
    def family(self) -> str:
        """The name of its family."""


class NamedTarget(NamedTuple):
    """A target of which only the names are known."""

    name: str
    family: str


@cache
def facts(family: str, table: str) -> dict[str, Any]:
    """The file `table` with facts of `family`, or of those without a folder (`.`), without importing its module."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / family / f"{table}.json").read_bytes())
    return found


def products_of(family: str) -> Mapping[str, list[str]]:
    """The products of each target of `family`; {} if its table lists none."""
    found: dict[str, list[str]] = facts(family, "names").get("products", {}) if has_facts(family, "names") else {}
    return found


@cache
def has_facts(family: str, table: str) -> bool:
    """Whether `family` has the file `table`."""
    return (Path(__file__).parent / family / f"{table}.json").is_file()


def nixpkgs(family: str) -> dict[str, Any]:
    """How nixpkgs spells what a build for `family` gets; the default's for CPUs and where that is not known."""
    return facts(family if has_facts(family, "nixpkgs") else DEFAULT, "nixpkgs")


def folders_of(part: str) -> dict[str, Path]:
    """The folder `part` of each family that has one."""
    folders = {name: Path(__file__).parent / name / part for name in FAMILIES}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


@cache
def files_of(name: str) -> Mapping[str, Path]:
    """The file called `name` of each family that has one."""
    files = {family: Path(__file__).parent / family / name for family in FAMILIES}
    return {family: path for family, path in files.items() if path.is_file()}


def runs_what_it_is_named(machine: CodeTarget, built: CodeTarget) -> bool:
    """The rule of a family without an order: the same target, or code for all."""
    return built.name in {machine.name, ALL}


def _each(target: CodeTarget) -> tuple[CodeTarget, ...]:
    """The targets that `target` names."""
    parts = target.name.split(",")
    return tuple(NamedTarget(part, target.family) for part in parts) if parts[1:] else (target,)


def _next(version: int) -> int:
    return version + 1


def spelled(tag: str, value: str, **more: str) -> str:
    """`tag` with `value` in place of `{value}`, with underscores for dots (`{under}`) or without dots (`{digits}`)."""
    return tag.format(value=value, under=value.replace(".", "_"), digits=value.replace(".", ""), **more)


class Family(NamedTuple):
    """A family: its name in specs and names of variants, and its name in sentences.

    `targets` is the pattern of one of its targets. `tag` is how indices of packages spell its toolkit (`spelled`).
    `rule` says whether a machine's target runs code that was compiled for another one; both are single targets of this
    family. `toolkit`, `vendor` and `tool` are how sentences call its toolkit, the vendor of its GPUs and the program
    that lists them. `next_branch` is the lowest driver of the branch after that of a driver, by major versions.
    `machines` imports what it knows of machines. PyTorch calls its devices `device`, and a target what `in_pytorch`
    makes of it. `dnn` is the vendor's library for neural networks. `products` are what a result carries: of the
    toolkit, and of that library. `downloads` is the pattern of the addresses from which nixpkgs fetches them, with the
    name of the product as its only group. `target_of` makes a target of a capability; targets begin with `prefix`, and
    `example` is one. `visible` is the variable that says which GPUs a process sees, and `slices` what the vendor calls
    parts of a GPU. `aliases` are further names that people have for it. `named` is how pools name the target of a
    machine.
    """

    name: str
    title: str
    toolkit: str = ""
    targets: str = r"[A-Za-z0-9][A-Za-z0-9_:+.-]*"
    rule: Callable[..., bool] = runs_what_it_is_named
    vendor: str = ""
    tool: str = ""
    tag: str = "{family}{value}"
    next_branch: Callable[[int], int] = _next
    machines: Callable[[], Machines] | None = None
    device: str = ""
    dnn: str = ""
    products: Sequence[str] = ()
    downloads: str = NO_TARGETS
    target_of: Callable[[int, int], str] = "{}.{}".format
    prefix: str = ""
    example: str = ""
    visible: str = ""
    slices: str = ""
    in_pytorch: Callable[[str], str] = str
    named: Callable[[str], str] = str
    aliases: Sequence[str] = ()

    @property
    def has_targets(self) -> bool:
        """Whether its code is compiled for targets, and not on the machine that runs it."""
        return self.targets != NO_TARGETS

    @property
    def kit(self) -> str:
        """What sentences call what its code is built with."""
        return self.toolkit or self.title

    def is_target(self, name: str) -> bool:
        """Whether `name` has the form of a target of the family, or of several: no two the same."""
        parts = name.split(",")
        return len({*parts}) == len(parts) and all(re.fullmatch(self.targets, part) for part in parts)

    def index_tag(self, toolkit: str) -> str:
        """How indices of packages spell the family with `toolkit`: `cu130`, `rocm7.1`, `cpu`; the name without one."""
        return spelled(self.tag, toolkit, family=self.name) if toolkit else self.name

    def runs(self, machine: CodeTarget, built: CodeTarget) -> bool:
        """Whether `machine` runs code for `built`. If either is several targets: each of `machine`, one of `built`."""
        if built.name in {self.name, machine.name}:
            return True
        return all(any(self.rule(target, other) for other in _each(built)) for target in _each(machine))


_CPU = Family(name=NONE, title="CPU", targets=NO_TARGETS)

DEFAULT = "cuda"
"""The family of a GPU whose family is not named, and of the tables of `Hardware`."""

_FOLDERS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))

FAMILIES = (DEFAULT, *(name for name in _FOLDERS if name != DEFAULT), NONE)
"""The families that are known: each folder here, the default first, and last the one of no accelerator."""


@cache
def family_of(name: str) -> Family:
    """The family called `name`; one without facts if it is not a known one."""
    if name not in FAMILIES:
        return Family(name=name, title=name)
    row: Family = _CPU if name == NONE else import_module(f"{__name__}.{name}").FAMILY
    return row
