"""The keys of the spec's `hardware` section, and the tables that it makes of the bundled ones.

A row that the bundled tables have is refined key by key. A row that they do not have must have the keys in `REQUIRED`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from ci_compiler.codes import Code
from ci_compiler.errors import nearest
from ci_compiler.hardware import Gpu, Hardware, Isa, Toolkit, Version
from ci_compiler.hardware.families import FAMILIES, NO_TARGETS, Family, family_of
from ci_compiler.spec.declare import declared, form, key, keys_of, optional
from ci_compiler.spec.forms import COMMENT_LINE, IsaNames, Word
from ci_compiler.spec.load import Path_

Row = TypeVar("Row")

Text = Annotated[
    str,
    form(title="a text of one line", minLength=1, maxLength=200, pattern=COMMENT_LINE),
]

TOOLKIT = r"^[1-9][0-9]?\.[0-9]{1,2}$"
"""The form of a toolkit's version, and of a compute capability."""

VersionNumber = Annotated[str, form(title='a version in quotes ("13.1")', pattern=TOOLKIT)]
ToolkitName = Annotated[str, form("toolkit-name", title='a CUDA toolkit in quotes ("13.1")', pattern=TOOLKIT)]
GpuName = Annotated[str, form("gpu-name", title="a GPU architecture, such as sm130", pattern="^sm[1-9][0-9]{1,2}$")]
IsaName = Annotated[
    str, form("isa-name", title="an ISA (lower-case letters, digits and _)", pattern="^[a-z][a-z0-9_]{0,39}$")
]
Attribute = Annotated[
    str, form(title="an attribute of nixpkgs, such as cudaPackages_13_1", pattern="^[A-Za-z_][A-Za-z0-9_-]{0,99}$")
]
Flag = Annotated[str, form(title="a compiler flag (-m…)", pattern=r"^-m[A-Za-z0-9=.+_-]{1,98}$")]
CpuModel = Annotated[str, form(title="a CPU model, such as Haswell", pattern="^[A-Za-z0-9][A-Za-z0-9,=+_.-]{0,99}$")]

SystemName = Annotated[
    str,
    form("system-name", title="a platform (s390x-linux)", pattern="^[a-z0-9][a-z0-9_]*-[a-z][a-z0-9_-]{0,39}$"),
]
FamilyName = Annotated[
    str,
    form(
        "family-name",
        title="a family of accelerators (lower-case letters, digits and _)",
        pattern="^[a-z][a-z0-9_]{0,39}$",
    ),
]

_TARGET_SIGN = "[A-Za-z0-9_:+.-]"

TargetPattern = Annotated[
    str,
    form(
        title="a target, in which * and ? stand for other signs",
        pattern=r"^[A-Za-z0-9*?][A-Za-z0-9_:+.*?-]{0,79}$",
    ),
]

Driver = Annotated[int, form(title="the major version of a driver, such as 580", minimum=0, maximum=9999)]


@declared("hardware-toolkit", type=["object", "null"])
class ToolkitRow:
    """A CUDA toolkit: where nixpkgs has it, and the Linux drivers (major versions) that it ships with and needs."""

    attribute: Attribute | None = optional("The package set in nixpkgs.")
    shipped_driver: Driver | None = optional("The driver that it ships with.")
    lowest_driver: Driver | None = optional("The lowest driver that runs it.")


@declared("hardware-gpu", type=["object", "null"])
class GpuRow:
    """A GPU architecture, by its name in nvcc without the underscore."""

    capability: VersionNumber | None = optional("Compute capability, which the name repeats: `13.0` for `sm130`.")
    architecture: Text | None = optional("Name of the architecture.")
    products: tuple[Text, ...] | None = optional("Products, as `select` takes them.")
    summary: Text | None = optional("Products in a few words, for documents.")
    first_toolkit: VersionNumber | None = optional("First toolkit that builds for it.", name="first-cuda")
    last_toolkit: VersionNumber | None = optional("Last toolkit that builds for it.", name="last-cuda")
    driver: Driver | None = optional("The lowest driver that runs it.")
    last_driver: Driver | None = optional(
        "The last driver branch that runs it, such as 580; 0 if drivers still support it."
    )
    adds: Text | None = optional("What it has that earlier ones lack, for documents.")
    on_chip: bool | None = optional(
        "Whether it is a Tegra GPU, which runs only code that is built for it; false if not given.", name="tegra"
    )
    dnn: bool | None = optional("Whether cuDNN supports it; true if not given.", name="cudnn")
    systems: tuple[Word, ...] | None = optional("Nix systems of its hosts.", minItems=1, examples=[["x86_64-linux"]])


@declared("hardware-isa", type=["object", "null"])
class IsaRow:
    """A CPU instruction set. It includes the baseline of its system."""

    system: Word | None = optional("Nix system of its CPUs.", examples=["x86_64-linux"])
    title: Text | None = optional("Its name in documents.")
    flags: tuple[Flag, ...] | None = optional("Compiler flags that turn it on.")
    cpuinfo: tuple[Word, ...] | None = optional("Flags in /proc/cpuinfo that prove a CPU to have it.")
    includes: IsaNames | None = optional("ISAs that its CPUs also run.")
    cpus: Text | None = optional("The CPUs that have it, in words.")
    good_for: Text | None = optional("What its builds are good for, for documents.")
    not_for: Text | None = optional("What its builds are not good for.")
    qemu: CpuModel | None = optional(
        "The CPU model of QEMU (`-cpu`) on which a test runs its builds again. Not given: none for a new ISA, and none "
        "for a bundled one with `flags` of its own.",
        examples=["Haswell,+bmi2"],
    )
    sde: CpuModel | None = optional(
        "The chip of Intel SDE for the same, as its option without the hyphen.", examples=["skx"]
    )


@declared("hardware-platform", type=["object", "null"])
class PlatformRow:
    """A platform without facts: where the result runs, and the machine that builds it."""

    title: Text | None = optional("Its name in documents.")
    os: Literal["Linux", "macOS", "Windows"] = key(
        "The operating system of the machines that build it.", default="Linux"
    )
    label: Word = key("GitHub's label for the architecture of the machines that build it.", default="X64")


@declared("hardware-family", type=["object", "null"])
class FamilyRow:
    """A family of accelerators without facts: it is built, and tested where a pool declares it."""

    title: Text | None = optional("Its name in documents.")
    targets: tuple[TargetPattern, ...] | None = optional(
        "Its targets. `[]`: it has none, since its code is compiled on the machine that runs it. Not given: any name.",
        examples=[["gpu1", "gpu2*"]],
    )
    aliases: tuple[FamilyName, ...] | None = optional(
        "Further names that people have for it: `select` takes them, and where the spec has one, the message says so."
    )


@declared("hardware")
class HardwareRows:
    """Hardware that the bundled tables do not have, or have otherwise: rows by name, with the tables' keys."""

    toolkits: Mapping[ToolkitName, ToolkitRow] = key(
        "CUDA toolkits.",
        default={},
        published=False,
        examples=[{"13.9": {"attribute": "cudaPackages_13_9", "shipped-driver": 640, "lowest-driver": 580}}],
    )
    gpus: Mapping[GpuName, GpuRow] = key(
        "GPU architectures.",
        default={},
        published=False,
        examples=[
            {
                "sm130": {
                    "capability": "13.0",
                    "architecture": "Next",
                    "first-cuda": "13.9",
                    "systems": ["x86_64-linux"],
                }
            }
        ],
    )
    families: Mapping[FamilyName, FamilyRow] = key(
        "Families of accelerators.",
        default={},
        published=False,
        examples=[{"opencl": {"title": "OpenCL", "targets": []}}],
    )
    platforms: Mapping[SystemName, PlatformRow] = key(
        "Platforms.", default={}, published=False, examples=[{"loongarch64-linux": {"label": "loong64"}}]
    )
    isas: Mapping[IsaName, IsaRow] = key(
        "CPU instruction sets.", default={}, published=False, examples=[{"armv9": {"cpuinfo": ["sve2", "bf16"]}}]
    )


REQUIRED: Mapping[Any, Mapping[str, str]] = {
    ToolkitRow: {"attribute": "cudaPackages_{0}_{1}", "shipped_driver": "N", "lowest_driver": "N"},
    GpuRow: {
        "capability": '"{0}.{1}"',
        "architecture": "NAME",
        "first_toolkit": '"VERSION"',
        "systems": "[x86_64-linux]",
    },
    IsaRow: {"system": "x86_64-linux", "flags": "[-mFLAG]", "cpuinfo": "[FLAG]", "cpus": '"FIRST CPUS"'},
}
"""The keys that a new row must have, each with what to write."""


class Problem(NamedTuple):
    """What is wrong with a row, at `path` in the spec."""

    path: Path_
    code: Code
    message: str
    key: bool = False


def merged(rows: HardwareRows, bundled: Hardware) -> tuple[Hardware, list[Problem]]:
    """The bundled tables with `rows`, and what is wrong with the rows; incomplete new rows are left out."""
    problems: list[Problem] = []
    gpus = {**bundled.gpus, **dict(_gpus(rows, bundled, problems))}
    toolkits = {**bundled.toolkits, **dict(_toolkits(rows, bundled, problems))}
    isas = {**bundled.isas, **dict(_isas(rows, bundled, problems))}
    order = sorted(toolkits, key=Version.parse)
    families = {name: _family(name, row) for name, row in rows.families.items()}
    by_version = {name: toolkits[name] for name in order}
    hardware = replace(bundled, gpus=gpus, toolkits=by_version, isas=isas, families=families)
    problems += [*_wrong_gpus(rows, hardware), *_wrong_isas(rows, hardware), *_wrong_families(rows)]
    return hardware, problems


def declaration(name: str, row: Any) -> str:
    """The lines of a spec, in YAML's flow style, that declare a new row called `name`; capitals are to be filled in."""
    names = {one.field: one.name for one in keys_of(row)}
    keys = ", ".join(f"{names[field]}: {value.format(*_numbers(name))}" for field, value in REQUIRED[row].items())
    quoted = f'"{name}"' if row is ToolkitRow else name
    return f"hardware: {{{_SECTION[row]}: {{{quoted}: {{{keys}}}}}}}"


_SECTION: Mapping[Any, str] = {ToolkitRow: "toolkits", GpuRow: "gpus", IsaRow: "isas"}


def _given(row: Any) -> dict[str, Any]:
    return {field.name: value for field in fields(row) if (value := getattr(row, field.name)) is not None}


def _toolkits(rows: HardwareRows, bundled: Hardware, problems: list[Problem]) -> Iterator[tuple[str, Toolkit]]:
    for name, row, given in _usable(rows.toolkits, bundled.toolkits, problems):
        yield name, replace(row, **given) if row else Toolkit(version=Version.parse(name), **given)


def _gpus(rows: HardwareRows, bundled: Hardware, problems: list[Problem]) -> Iterator[tuple[str, Gpu]]:
    for name, row, given in _usable(rows.gpus, bundled.gpus, problems):
        for field in {"capability", "first_toolkit", "last_toolkit"} & given.keys():
            given[field] = Version.parse(given[field])
        usual = {"summary": ", ".join(given.get("products", ())) or name}
        yield name, replace(row, **given) if row else Gpu(**{"name": name, **usual, **given})


def _isas(rows: HardwareRows, bundled: Hardware, problems: list[Problem]) -> Iterator[tuple[str, Isa]]:
    for name, row, given in _usable(rows.isas, bundled.isas, problems):
        system = bundled.systems.get(given.get("system") or (row.system if row else ""))
        baseline = system.baseline if system else ""
        if baseline and baseline != name and not given.get("includes", row.includes if row else ()):
            given["includes"] = (baseline,)
        if "flags" in given:  # the models of the bundled row may lack them
            given.update({"smallest": (), "qemu": "", "sde": ""} | given)
        yield name, replace(row, **given) if row else Isa(**{"name": name, "title": name, **given})


def _family(name: str, row: FamilyRow) -> Family:
    known = family_of(name)
    targets = known.targets if row.targets is None else "|".join(map(_target_form, row.targets)) or NO_TARGETS
    return known._replace(title=row.title or known.title, targets=targets, aliases=row.aliases or ())


def _target_form(pattern: str) -> str:
    """The regular expression of the targets that `pattern` stands for."""
    return re.escape(pattern).replace(r"\*", f"{_TARGET_SIGN}*").replace(r"\?", _TARGET_SIGN)


def _usable(
    rows: Mapping[str, Any], bundled: Mapping[str, Row], problems: list[Problem]
) -> Iterator[tuple[str, Row | None, dict[str, Any]]]:
    """Each row with the bundled row of its name and the values that are given; incomplete new ones are problems."""
    for name, row in rows.items():
        given, known = _given(row), bundled.get(name)
        cls: Any = type(row)
        missing = [one.name for one in keys_of(cls) if one.field in REQUIRED[cls].keys() - given.keys()]
        if known is None and missing:
            message = (
                f"{name} is not in the bundled tables and lacks {', '.join(missing)}; a complete row: "
                f"{declaration(name, cls)}"
            )
            problems.append(Problem(("hardware", _SECTION[cls], name), Code.MISSING_KEY, message, key=True))
        else:
            yield name, known, given


def _numbers(name: str) -> tuple[int, ...]:
    """The two numbers in the name of a toolkit or a GPU: `13.9`, or the capability in `sm130`; (0, 0) for an ISA."""
    digits = name.removeprefix("sm")
    if "." in name:
        return Version.parse(name)
    return (int(digits[:-1]), int(digits[-1])) if digits.isdigit() else (0, 0)


def _wrong_gpus(rows: HardwareRows, hardware: Hardware) -> Iterator[Problem]:
    for name in rows.gpus:
        gpu, path = hardware.gpus.get(name), ("hardware", "gpus", name)
        if gpu is None:
            continue
        right = Version(*_numbers(name))
        if gpu.capability != right:
            message = f"{name} is the name of the compute capability {right}, not of {gpu.capability}"
            yield Problem((*path, "capability"), Code.WRONG_HARDWARE, message)
        if gpu.last_toolkit is not None and gpu.last_toolkit < gpu.first_toolkit:
            message = f"the last toolkit for {name}, {gpu.last_toolkit}, is older than the first, {gpu.first_toolkit}"
            yield Problem((*path, "last-cuda"), Code.WRONG_HARDWARE, message)
        if 0 < gpu.last_driver < gpu.driver:
            message = f"the last driver for {name}, {gpu.last_driver}, is older than the lowest, {gpu.driver}"
            yield Problem((*path, "last-driver"), Code.WRONG_HARDWARE, message)
        for index, system in enumerate(gpu.systems):
            if system not in hardware.systems:
                message = f"unknown system {system!r}{nearest(system, hardware.systems)}"
                yield Problem((*path, "systems", index), Code.UNKNOWN_SYSTEM, message)


def _wrong_isas(rows: HardwareRows, hardware: Hardware) -> Iterator[Problem]:
    for name in rows.isas:
        isa, path = hardware.isas.get(name), ("hardware", "isas", name)
        if isa is None:
            continue
        if isa.system not in hardware.systems:
            message = f"unknown system {isa.system!r}{nearest(isa.system, hardware.systems)}"
            yield Problem((*path, "system"), Code.UNKNOWN_SYSTEM, message)
        elif name == hardware.systems[isa.system].baseline and (isa.flags or isa.cpuinfo):
            message = (
                f"{name} is what every CPU of {isa.system} runs, so it has no flags; declare another ISA with them"
            )
            yield Problem(path, Code.WRONG_HARDWARE, message, key=True)
        unknown = [other for other in isa.includes if other not in hardware.isas]
        for other in unknown:
            message = f"unknown ISA {other!r}{nearest(other, hardware.isas)}"
            yield Problem((*path, "includes"), Code.UNKNOWN_ISA, message)
        for other in isa.includes:
            if other in hardware.isas and hardware.isa(other).system != isa.system:
                message = f"{other} is an ISA of {hardware.isa(other).system}, not of {isa.system}"
                yield Problem((*path, "includes"), Code.ISA_SYSTEM, message)
        if not unknown:
            yield from _wrong_flags(hardware, isa, path)


def _wrong_families(rows: HardwareRows) -> Iterator[Problem]:
    names = {*FAMILIES, *rows.families}
    for name, row in rows.families.items():
        path = ("hardware", "families", name)
        if name in FAMILIES and row.targets is not None:
            yield Problem((*path, "targets"), Code.WRONG_HARDWARE, f"the targets of {name} are those of its table")
        for index, alias in enumerate(row.aliases or ()):
            if alias in names:
                yield Problem((*path, "aliases", index), Code.DUPLICATE_NAME, f"{alias} is the name of another family")
            names.add(alias)


def _wrong_flags(hardware: Hardware, isa: Isa, path: Path_) -> Iterator[Problem]:
    """Flags whose meaning is unknown, and features that nothing in /proc/cpuinfo proves."""
    from ci_compiler.hardware.features import UnknownFlagError, unproved  # only declared ISAs need it

    try:
        lacking = unproved(hardware, isa)
    except UnknownFlagError as error:
        yield Problem((*path, "flags"), Code.UNKNOWN_FLAG, str(error))
        return
    if lacking.features:
        message = (
            f"the flags of {isa.name} turn on {', '.join(lacking.features)}, which its `cpuinfo` does not prove; "
            f"add {', '.join(lacking.cpuinfo)}"
        )
        yield Problem((*path, "cpuinfo"), Code.UNPROVED_ISA, message)
