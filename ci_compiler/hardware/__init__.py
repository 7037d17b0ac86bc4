"""GPUs, their toolkits and CPU instruction sets: tables of facts, and lookups that never fall through.

`isas.json` beside this module, and `gpus.json` and `toolkits.json` of a family, hold the facts and the source of each
row; the `hardware` section of a spec adds rows and refines them. Every lookup either answers or raises
`UnknownHardwareError` with the nearest known names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ci_compiler.codes import Code
from ci_compiler.errors import nearest
from ci_compiler.hardware.families import DEFAULT, NONE, CodeTarget, Family, facts, family_of

CPU = NONE
"""The target of a variant for the CPU alone."""

BASELINE = "baseline"
"""The ISA of x86-64 builds without further instruction sets. Names leave it out."""

_UNKNOWN = {
    "GPU": Code.UNKNOWN_GPU,
    "CPU": Code.UNKNOWN_CPU,
    "toolkit": Code.UNKNOWN_TOOLKIT,
    "ISA": Code.UNKNOWN_ISA,
}


class UnknownHardwareError(LookupError):
    """A GPU, CPU, toolkit or ISA that the tables do not hold. The text names the nearest that they do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.code = _UNKNOWN[kind]
        whose = f"{family_of(DEFAULT).toolkit} " if kind == "toolkit" else ""
        super().__init__(f"unknown {whose}{kind} {name!r}{nearest(name, known)}")


class Version(NamedTuple):
    """The version of a toolkit or the compute capability of a GPU: ordered as numbers, written `12.8`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parses `12.8` as `Version(12, 8)`. Raises ValueError for anything but two numbers and a dot."""
        major, minor = text.split(".")
        return cls(int(major), int(minor))


NO_VERSION = Version(0, 0)
"""That of a toolkit or a GPU that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU architecture: the target of its code, the toolkits that support it, the systems that it comes with.

    `driver` is the lowest driver that runs it, `last_driver` the last driver branch that does (0: still supported).
    `dnn`: its vendor's library for neural networks supports it. `on_chip`: it is part of a system on a chip. `adds`:
    what it has that earlier ones lack, in words.
    """

    name: str
    architecture: str
    summary: str
    systems: tuple[str, ...]
    capability: Version = NO_VERSION
    products: tuple[str, ...] = ()
    first_toolkit: Version = NO_VERSION
    last_toolkit: Version | None = None
    driver: int = 0
    dnn: bool = True
    last_driver: int = 0
    on_chip: bool = False
    adds: str = ""
    family: str = DEFAULT

    def runs_code_of(self, other: CodeTarget) -> bool:
        """Whether code that was compiled for `other` runs on this GPU, by the rule of its family."""
        return self.family == other.family and family_of(self.family).runs(self, other)


ALL = Gpu(
    name="all",
    architecture="of every architecture",
    summary="every GPU of the toolkit",
    systems=("x86_64-linux", "aarch64-linux"),
)
"""The value on the GPU axis of one build for every GPU that its toolkit supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """A toolkit: its attribute in nixpkgs, and the Linux drivers (major versions) that it ships with and needs."""

    version: Version
    attribute: str
    shipped_driver: int
    lowest_driver: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isa:
    """A CPU instruction set: compiler flags, the /proc/cpuinfo flags that prove it, the ISAs that its CPUs also run.

    The baseline of a system has no flags. `smallest` has the flags of GCC for a small CPU that has the ISA; `qemu` and
    `sde` are the names that these emulators have for such a CPU ('': they have none, or do not execute the ISA).
    `instructions` is a regular expression for instructions of the ISA that smaller ones lack, as objdump writes them.
    """

    name: str
    system: str
    title: str
    cpus: str
    flags: tuple[str, ...] = ()
    cpuinfo: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    good_for: str = ""
    not_for: str = ""
    smallest: tuple[str, ...] = ()
    qemu: str = ""
    sde: str = ""
    instructions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A program that emulates a CPU and runs another program on it.

    `models` is the field of `Isa` with the name of the CPU, which takes the place of `{model}` in `options`. `lowest`
    is the first version that executes the ISAs ('': any). An instruction that the CPU lacks ends the program by SIGILL,
    or prints what matches `stray`.
    """

    program: str
    title: str
    system: str
    models: str
    options: tuple[str, ...]
    lowest: str = ""
    stray: str = ""

    def model(self, isa: Isa) -> str:
        """The CPU that it emulates for `isa`; '' if it cannot."""
        return str(getattr(isa, self.models)) if isa.system == self.system else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A Nix system: GitHub's runner labels for its architecture and `os`, its title in documents.

    `baseline` is the ISA that every CPU of the system runs, `undecided` the ISA for users who do not know their CPU.
    """

    name: str
    label: str
    os: str
    title: str
    baseline: str
    undecided: str


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hardware:
    """The tables, by name. Tables are compared by identity.

    `aliases` maps common misspellings of ISAs to the right names. `families` are those that a spec declares.
    """

    gpus: Mapping[str, Gpu]
    toolkits: Mapping[str, Toolkit]
    isas: Mapping[str, Isa]
    systems: Mapping[str, System]
    aliases: Mapping[str, str]
    emulators: tuple[Emulator, ...] = ()
    families: Mapping[str, Family] = field(default_factory=dict)

    def family(self, name: str) -> Family:
        """The family called `name`: as declared, or as known; one without facts for any other name."""
        return self.families.get(name) or family_of(name)

    def gpu(self, name: str) -> Gpu:
        """The GPU architecture called `name`, or `all` of them. Raises UnknownHardwareError."""
        if name == ALL.name:
            return ALL
        return _find("GPU", self.gpus, name)

    def toolkit(self, version: str) -> Toolkit:
        """The toolkit of `version` (`12.8`). Raises UnknownHardwareError."""
        return _find("toolkit", self.toolkits, version)

    def isa(self, name: str) -> Isa:
        """The instruction set called `name` (`avx512`). Raises UnknownHardwareError, which resolves aliases."""
        if name in self.aliases:
            raise UnknownHardwareError("ISA", name, [self.aliases[name]])
        return _find("ISA", self.isas, name)

    def emulators_of(self, isa: Isa) -> tuple[Emulator, ...]:
        """The emulators that have a CPU for `isa`, the preferred one first."""
        return tuple(emulator for emulator in self.emulators if emulator.model(isa))

    def gpus_of(self, system: str) -> tuple[Gpu, ...]:
        """The GPUs that machines of `system` may have."""
        return tuple(gpu for gpu in self.gpus.values() if system in gpu.systems)

    def runs(self, isas: Iterable[str], system: str = "") -> frozenset[str]:
        """Every ISA that a CPU with `isas` runs: those, and the ones that they include, transitively.

        With `system`, the baseline of that system is one of them.
        """
        found: set[str] = set()
        waiting = [*isas, self.systems[system].baseline if system else ""]
        while waiting:
            name = waiting.pop()
            if name and name not in found:
                found.add(name)
                waiting.extend(self.isa(name).includes)
        return frozenset(found)


def _find(kind: str, table: Mapping[str, Row], name: str) -> Row:
    try:
        return table[name]
    except KeyError:
        raise UnknownHardwareError(kind, name, table) from None


def read_table(name: str) -> dict[str, Any]:
    """The JSON file `name` beside this module."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_bytes())
    return table


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row of a table, without its source."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items() if key != "source"}


def _gpu(name: str, row: Mapping[str, Any]) -> Gpu:
    fields = _fields(row)
    for key in ("capability", "first_toolkit", "last_toolkit"):
        fields[key] = Version.parse(row[key]) if row[key] else None
    return Gpu(**fields, name=name)


@cache
def tables() -> Hardware:
    """The bundled tables, read once."""
    isas = read_table("isas.json")
    toolkits = facts(DEFAULT, "toolkits")["toolkits"]
    return Hardware(
        gpus={name: _gpu(name, row) for name, row in facts(DEFAULT, "gpus")["gpus"].items()},
        toolkits={name: Toolkit(version=Version.parse(name), **_fields(row)) for name, row in toolkits.items()},
        isas={name: Isa(name=name, **_fields(row)) for name, row in isas["isas"].items()},
        systems={name: System(name=name, **row) for name, row in isas["systems"].items()},
        aliases=isas["aliases"],
        emulators=tuple(Emulator(**_fields(row)) for row in isas["emulators"]),
    )
