"""Keys of the spec about the matrix: its axes, the values of each, and exclusions.

`values` are multiplied with each of `rows`. An axis is built in (`AXES`), a part of the accelerator (`PARTS`), or
declared in `axes`. What `spec.shorthand` knows in addition has become rows before a `Matrix` is made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from ci_compiler.hardware.families import DEFAULT, NONE
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.spec.forms import BranchNames, PackageName, Reason, VariantPattern
from ci_compiler.spec.load import Path_
from ci_compiler.spec.read import read

SHORT_FAMILY = DEFAULT
"""The family of the toolkits of a branch."""

AXES = ("python", "accelerator", "isa", "platform")
"""The built-in axes."""

PARTS = ("family", "toolkit", "target")
"""The parts of an accelerator, each of which can be selected and ignored alone."""

AxisName = Annotated[
    str,
    form(
        "axis-name",
        title="the name of an axis (lower-case letters, digits, _ and -)",
        pattern="^[a-z][a-z0-9_-]{0,39}$",
    ),
]

AxisValue = Annotated[
    str,
    form(
        "axis-value",
        title="a value of an axis, in quotes where it looks like a number",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:,+/-]{0,79}$",
    ),
]

Tag = Annotated[
    str,
    form(
        title="a text, with {value}, {under} or {digits} for the value",
        pattern=r"^([A-Za-z0-9_.]+|[A-Za-z0-9_.]*\{(value|under|digits)\}[A-Za-z0-9_.]*)$",
    ),
]

SettingValue = Annotated[str, form(title="a text of one line", pattern=r"^[^\x00-\x1f\x7f]{1,500}$")]

AxisValues = Annotated[tuple[AxisValue, ...], form("axis-values", title="a list of values", minItems=1)]

AnyValues = Annotated[AxisValue | AxisValues, form(title="a value of an axis, or a list of them")]

ValuesByAxis = Annotated[
    Mapping[AxisName, AnyValues],
    form(title="a mapping of axes to a value or a list of values", minProperties=1),
]


def value_lists(value: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Values by axis, each of which may be written as one value."""
    return {axis: (one,) if isinstance(one, str) else tuple(one) for axis, one in value.items()}


class Accelerator(NamedTuple):
    """A family, a toolkit of it and a target: `cuda 12.8 sm90`, `rocm 7.1`, `cuda`. A part that is not given is ''."""

    family: str
    toolkit: str = ""
    target: str = ""

    @classmethod
    def parse(cls, text: str) -> "Accelerator":
        """The parts of `text`: the family, then a word that begins with a digit (the toolkit), then the target."""
        family, *words = text.split()
        toolkit = words.pop(0) if words and words[0][0].isdigit() else ""
        return cls(family=family, toolkit=toolkit, target=" ".join(words))

    @property
    def label(self) -> str:
        """The target, or the family if it has none: what tells machines apart."""
        return self.target or self.family

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The cells that something holds for: for each axis, the values of which the cell has one.

    For `accelerator`, a value with fewer parts stands for all that begin with them.
    """

    values: tuple[tuple[str, tuple[str, ...]], ...]

    def holds(self, cell: Mapping[str, str]) -> bool:
        """Whether it holds for the cell with these values; an axis that the cell lacks has none of them."""
        return all(_has(cell, axis, among) for axis, among in self.values)

    def __str__(self) -> str:
        return ", ".join(f"{axis} {' or '.join(among)}" for axis, among in self.values)


def _has(cell: Mapping[str, str], axis: str, among: tuple[str, ...]) -> bool:
    if axis != "accelerator":
        return cell.get(axis, "") in among
    wanted = map(Accelerator.parse, among)
    return any(
        all(part in {"", cell.get(name, "")} for name, part in zip(PARTS, accelerator, strict=True))
        for accelerator in wanted
    )


def to_when(value: Mapping[str, Any]) -> When:
    """The conditions that a spec writes as a mapping."""
    return When(values=tuple(value_lists(value).items()))


Conditions = Annotated[
    Mapping[AxisName, AnyValues],
    form(
        "when",
        title="a mapping of axes to a value or a list of values",
        description="The cells that it holds for: those that have one of the values on each axis named here.",
        minProperties=1,
        examples=[{"accelerator": "cuda 13.0", "torch": ["2.6", "2.7"]}],
    ),
]


@declared("axis")
class AxisRow:
    """An axis: its values, how names spell them, and values that stand for others."""

    name: str
    values: AxisValues = key("Its values. Left out for a built-in axis.", default=(), published=False)
    tag: Tag = key(
        "How names spell a value: `{value}` is the value, `{under}` has underscores in place of dots, `{digits}` none. "
        "Left out: the axis and the value with underscores.",
        examples=["torch{digits}"],
        default="",
    )
    values_from: SettingValue = key(
        "A command that lists the values, as JSON or one on each line. `ci-compile update` runs it in the root of the "
        "repository, and writes the values into the axis and into each matrix that has all of them.",
        examples=["python ci/supported-torch.py"],
        default="",
    )
    serves: Mapping[AxisValue, AxisValues] = key(
        "Values that serve others: a build for the first is used wherever one of the list is asked for.",
        examples=[{"abi3": ["3.11", "3.12", "3.13"]}],
        default={},
    )


AxisRows = Mapping[AxisName, AxisValues | AxisRow]


def axis_rows(value: Mapping[str, Any]) -> Mapping[str, AxisRow]:
    """The declared axes, each of which may be written as the list of its values."""
    return {
        name: AxisRow(name=name, values=tuple(row)) if isinstance(row, list) else read(AxisRow, row, name=name)
        for name, row in value.items()
    }


@declared("accelerator")
class AcceleratorRow:
    """What the name of a family stands for in a matrix: its toolkits, combined with its targets."""

    name: str
    toolkits: AxisValues = key("Versions of its toolkit.", default=(), published=False, examples=[["7.1", "7.2"]])
    targets: AxisValues = key(
        "What it compiles for, each in builds of its own. Left out: one build, for what the build itself decides.",
        default=(),
        published=False,
        examples=[["gfx942", "gfx1100"]],
    )
    tag: Tag = key(
        "How names spell the toolkit, as the `tag` of an axis. Left out: the family and the version with underscores. "
        "A text without the value takes the place of a family that has no toolkit.",
        default="",
        examples=["cu{digits}"],
    )


@declared("join")
class Join:
    """Variants that one build makes together: those that differ only in `axes`, and those of the package `with`."""

    index: int
    axes: tuple[AxisName, ...] = key("Axes in which the variants of one build differ.", default=(), published=False)
    package: PackageName = key("The package whose build makes this one as well.", name="with", default="")
    when: When | None = key(default=None, written=Conditions, convert=to_when)


def joins(value: list[Any]) -> tuple[Join, ...]:
    """The rows of `joins`, which may be written as a list of axes."""
    if all(isinstance(one, str) for one in value):
        return (Join(index=0, axes=tuple(value)),)
    return tuple(read(Join, one, index=index) for index, one in enumerate(value))


@declared("setting")
class SettingRow:
    """A value of a setting, and the cells that have it."""

    index: int
    when: When | None = key(default=None, written=Conditions, convert=to_when)
    value: SettingValue = key("The value.")


SettingRows = Annotated[
    SettingValue | Annotated[tuple[SettingRow, ...], form(minItems=1)],
    form(title="a text of one line, or a list of {value, when}"),
]
"""How a spec writes the rows of a setting."""


def setting_rows(value: str | list[Any]) -> tuple[SettingRow, ...]:
    """The rows of a setting, which may be written as one value for all cells."""
    if isinstance(value, str):
        return (SettingRow(index=0, value=value),)
    return tuple(read(SettingRow, one, index=index) for index, one in enumerate(value))


@declared(anyOf=[{"required": ["when"]}, {"required": ["variants"]}])
class Exclusion:
    """Variants that are not wanted, and why."""

    index: int
    pattern: VariantPattern = key(
        "Variants by name, with * ? [] and {a,b}.",
        name="variants",
        examples=["torchaudio-*-sm61-*"],
        default="*",
        published=False,
    )
    when: When | None = key(default=None, written=Conditions, convert=to_when)
    branches: BranchNames = key(default=(), published=False)
    because: Reason = key("The reason; shown by `explain`.")


@declared()
class Matrix:
    """The axes, multiplied: the values of each, or rows of them."""

    values: Mapping[str, tuple[str, ...]] = key(
        "The values of any axes: the built-in `python`, `platform`, `accelerator` and `isa`, those in `axes`, and "
        "`branch`. An accelerator is a family with or without a toolkit and a target.",
        written=ValuesByAxis,
        convert=value_lists,
        default={},
        published=False,
        examples=[{"python": ["3.12", "3.14t"], "platform": "x86_64-linux", "accelerator": ["cpu", "rocm 7.2 gfx942"]}],
    )
    rows: tuple[Mapping[str, tuple[str, ...]], ...] = key(
        "Combinations of values, each multiplied with `values`; a row's own values take the place of those.",
        written=tuple[ValuesByAxis, ...],
        convert=lambda rows: tuple(map(value_lists, rows)),
        minItems=1,
        default=(),
        published=False,
        examples=[[{"platform": "aarch64-linux", "accelerator": "cpu"}, {"accelerator": ["cpu", "cuda 13.0"]}]],
    )
    exclude: tuple[Exclusion, ...] = key(
        "Variants that the axes produce and nobody wants. Excluded variants are recorded with the reason.",
        default=(),
    )

    @property
    def combinations(self) -> Iterator[tuple[Path_, Mapping[str, tuple[str, ...]]]]:
        """Each row with `values`, and its path below the matrix."""
        for index, row in enumerate(self.rows):
            yield ("rows", index), {**self.values, **row}
        if self.values and not self.rows:
            yield ("values",), self.values

    @property
    def accelerators(self) -> Iterator[tuple[Path_, Accelerator]]:
        """The accelerators, each with its path below the matrix."""
        for path, values in (("values",), self.values), *((("rows", at), row) for at, row in enumerate(self.rows)):
            for text in values.get("accelerator", ()):
                yield (*path, "accelerator"), Accelerator.parse(text)

    def of(self, axis: str) -> Iterator[str]:
        """Its values on an axis, in its order."""
        for _, values in self.combinations:
            yield from values.get(axis, ())


def python_order(python: str) -> tuple[int, str]:
    """The sort key of Pythons: by their minor version, and what is not a version (`abi3`) first."""
    minor = python.removeprefix("3.").rstrip("t")
    return (int(minor) if minor.isdigit() else 0, python)


NO_ACCELERATOR = Accelerator(family=NONE)
"""That of a cell without one."""
