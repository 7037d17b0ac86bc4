"""The axes multiplied out: every cell that the spec selects, possible or not, and the variants of each cell.

A *cell* is a branch and at most one value of each axis; its *variants* are the packages built for it. `plan.rules`
decides whether a cell can exist. A variant that fits no axis has a cell of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.spec.axes import AXES, NO_ACCELERATOR, PARTS, SHORT_FAMILY, Accelerator, SettingRow
from ci_compiler.spec.command import Command
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Matrix, Package, Spec
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.values import variant_values
from ci_compiler.variant import Grammar, variant_name

Values = tuple[tuple[str, str], ...]
"""Axes with the value that a cell has of each; an accelerator is its parts."""


class Variant(NamedTuple):
    """One package built for one cell; `name` is its recipe's file name and its attribute path in Flox."""

    name: str
    package: str


_USUAL = {"python", *PARTS, "isa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A branch and at most one value of each axis.

    `system` and `isa` are what its machines must have, whether they are values of it or not.
    """

    branch: str
    values: Values
    system: str
    isa: str

    def value(self, axis: str) -> str:
        """Its value on `axis`; '' if it has none."""
        return next((value for name, value in self.values if name == axis), "")

    @property
    def python(self) -> str:
        """Its Python; '' if it has none."""
        return self.value("python")

    @property
    def family(self) -> str:
        """The family of its accelerator."""
        return self.value("family") or CPU

    @property
    def toolkit(self) -> str:
        """The toolkit of its accelerator; '' if it has none."""
        return self.value("toolkit")

    @property
    def target(self) -> str:
        """What its machines must have: the target, the family of code that has none, or `cpu`."""
        return self.value("target") or self.value("family") or NO_ACCELERATOR.label

    @property
    def is_usual(self) -> bool:
        """Whether its Python, toolkit, target and ISA say all about it."""
        own = {axis for axis, _ in self.values}
        target = {CPU: "family", SHORT_FAMILY: "target"}.get(self.family, "")
        return {target, "isa"} <= own <= _USUAL

    @property
    def axes(self) -> Mapping[str, str]:
        """Its value on each axis that it has one of, its branch included."""
        return {"branch": self.branch, **dict(self.values)}

    @property
    def conditions(self) -> Mapping[str, str]:
        """What a `when` is about: `axes`, with the platform that an ISA implies."""
        return {"platform": self.system, **self.axes} if self.value("isa") else self.axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Combination):
    """A combination with its variants in build order; `suffix` is what their names share after the package.

    The suffix of a variant that the spec names is its whole name. `joined` names the build that makes its variants
    together with those of other cells, or with each other. An `alone` cell holds one variant, so that edges between
    variants make no circle of jobs.
    """

    suffix: str
    variants: tuple[Variant, ...]
    joined: str = ""
    alone: bool = False

    @property
    def listed(self) -> str:
        """The name of its only variant, if the spec names it; else ''."""
        return next((variant.name for variant in self.variants if variant.name == self.suffix), "")

    @property
    def called(self) -> str:
        """The name of its only variant, if its jobs are those of a variant and not those of a cell; else ''."""
        shares = self.joined or len(self.variants) != 1 or (self.is_usual and not self.alone)
        return "" if shares else self.variants[0].name

    @property
    def key(self) -> str:
        """What the conditions of jobs name: its suffix, its only variant, or the build that makes it."""
        return self.joined or (self.variants[0].name if self.alone else self.suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Combination):
    """A combination that the spec selects, before it is multiplied by packages.

    `row` is the path of its row, and `path` that of the value in it that findings point to.
    """

    row: Path_
    path: Path_


def candidates(spec: Spec, root: Path_, matrix: Matrix) -> Iterator[Candidate]:
    """Every combination that `matrix`, which is at `root`, selects, branch by branch and row by row, each once."""
    usual, of_branch = first_system(spec, matrix), rows_by_branch(spec, matrix)
    for branch in spec.branches:
        seen: set[Values] = set()
        for path, row in of_branch[branch]:
            axes, at = [axis for axis in row if axis != "branch"], (*root, *path)
            for chosen in product(*(_values(spec, branch, axis, row[axis]) for axis in axes)):
                values = _in_order(pair for pairs in chosen for pair in pairs)
                if (key := tuple(sorted(values))) not in seen:
                    seen.add(key)
                    system, isa = machine_of(spec, dict(values), usual)
                    place = (*at, "isa", row["isa"].index(isa)) if "isa" in row else at
                    yield Candidate(branch=branch, values=values, system=system, isa=isa, row=at, path=place)


def rows_by_branch(spec: Spec, matrix: Matrix) -> dict[str, list[tuple[Path_, Mapping[str, tuple[str, ...]]]]]:
    """The rows of a matrix that each branch has, with their paths below the matrix."""
    found: dict[str, list[tuple[Path_, Mapping[str, tuple[str, ...]]]]] = {name: [] for name in spec.branches}
    for path, row in matrix.combinations:
        for name in row.get("branch", found):
            if name in found:
                found[name].append((path, row))
    return found


def _in_order(values: Iterable[tuple[str, str]]) -> Values:
    """`values` with the Python first, as in names."""
    return tuple(sorted(values, key=lambda pair: pair[0] != "python"))


def _values(spec: Spec, branch: str, axis: str, values: Sequence[str]) -> list[Values]:
    if axis != "accelerator":
        return [((axis, value),) for value in values]
    every = (one for text in values for one in _accelerators(spec, branch, Accelerator.parse(text)))
    return [tuple(pair for pair in zip(PARTS, one, strict=True) if pair[1]) for one in dict.fromkeys(every)]


def _accelerators(spec: Spec, branch: str, named: Accelerator) -> Iterator[Accelerator]:
    """What `named` stands for: the toolkits and the targets that the spec lists for its family."""
    tables = spec.accelerator_tables(branch)
    rows = [rows[named.family] for rows in tables if named.family in rows]
    toolkits = next((row.toolkits for row in rows if row.toolkits), ())
    if named.family == SHORT_FAMILY:
        toolkits = toolkits or tuple(spec.branches[branch].toolkits)
    targets = next((row.targets for row in rows if row.targets), ())
    for toolkit in [named.toolkit] if named.toolkit else toolkits or [""]:
        for target in [named.target] if named.target else targets or [""]:
            yield Accelerator(family=named.family, toolkit=toolkit, target=target)


def first_system(spec: Spec, matrix: Matrix) -> str:
    """The system that builds what is not for a platform: the first of the matrix."""
    named = (values["platform"][0] for _, values in matrix.combinations if "platform" in values)
    serves = spec.axes["platform"].serves if "platform" in spec.axes else {}
    name = next(named, "x86_64-linux")
    return serves.get(name, (name,))[0]


def machine_of(spec: Spec, values: Mapping[str, str], usual: str) -> tuple[str, str]:
    """The system and the ISA that a machine for `values` must have.

    A platform that serves several is built on the first of them; `usual` is the system of what has no platform.
    """
    platform, isa = values.get("platform", usual), values.get("isa", "")
    serves = spec.axes["platform"].serves if "platform" in spec.axes else {}
    system = spec.hardware.isas[isa].system if isa in spec.hardware.isas else serves.get(platform, (platform,))[0]
    row = spec.hardware.systems.get(system)
    return system, isa or (row.baseline if row else "")


EVERYWHERE = "any"
"""The suffix of a cell without a value on any axis."""


class Cells:
    """Makes the cells of a matrix."""

    def __init__(self, spec: Spec, matrix: Matrix) -> None:
        self.spec, self.grammar = spec, grammar_of(spec)
        has_platforms = any("platform" in row for _, row in matrix.combinations)
        self.usual = first_system(spec, matrix) if has_platforms else ""

    def of(self, candidate: Candidate, packages: Sequence[Package]) -> Iterator[Cell]:
        """A cell for each package: what the package ignores is not in it."""
        where = candidate.conditions
        for package in packages:
            if package.when is None or package.when.holds(where):
                yield self._cell(candidate, package)

    def _cell(self, candidate: Candidate, package: Package) -> Cell:
        ignored = {part for axis in package.ignores for part in (PARTS if axis == "accelerator" else (axis,))}
        if "family" in ignored:
            ignored |= set(PARTS)
        own = tuple(pair for pair in candidate.values if pair[0] not in ignored)
        implied = {"platform"} if "isa" in dict(own) and not self.spec.names else set()
        suffix = self.grammar.suffix({axis: value for axis, value in own if axis not in implied}) or EVERYWHERE
        built_on = "isa" in ignored and "platform" not in ignored
        system, isa = machine_of(self.spec, dict(own), candidate.system if built_on else self.usual or candidate.system)
        return Cell(
            branch=candidate.branch,
            values=own,
            system=system,
            isa=isa,
            suffix=suffix,
            variants=(Variant(name=variant_name(package.name, suffix), package=package.name),),
        )


def setting(spec: Spec, name: str, cell: Cell) -> str:
    """The value of the setting `name` for `cell`; '' if it has none."""
    return applying(spec.settings.get(name, ()), cell)


def applying(rows: Sequence[SettingRow], cell: Cell) -> str:
    """The value of the first of `rows` that applies to `cell`; '' if none does."""
    axes = cell.conditions if rows else {}
    return next((row.value for row in rows if row.when is None or row.when.holds(axes)), "")


def command_values(command: Command, cell: Cell, values: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The declared variables of the commands of a variant with `values`, and the image that its build runs in."""
    found = {name: applying(rows, cell) for name, rows in command.env.items()}
    return {name: fill(text, values) for name, text in found.items() if text}, applying(command.container, cell)


def axis_values(spec: Spec, cell: Cell) -> dict[str, str]:
    """The values of the axes by name, '' for one that `cell` lacks, and those of the settings."""
    axes = {axis.replace("_", "-"): cell.value(axis) for axis in (*PARTS, "platform", *spec.axes)}
    return axes | {name: setting(spec, name, cell) for name in spec.settings}


def values_in(spec: Spec, cell: Cell, package: str, name: str) -> dict[str, str]:
    """All values of the variant `name` of `package` in `cell`, by name."""
    values = axis_values(spec, cell) | variant_values(spec, cell.branch, package, name, cell)
    command = spec.packages[package].command
    local = applying(command.version.local, cell) if command and command.version else ""
    return values | ({"version": f"{values['version']}+{fill(local, values)}"} if local and values["version"] else {})


def version_in(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The version of `variant` of `cell`; '' if the spec does not state it."""
    command = spec.packages[variant.package].command
    if command and command.version and command.version.local:
        return values_in(spec, cell, variant.package, variant.name)["version"]
    return spec.branches[cell.branch].versions.get(variant.package, "")


def grammar_of(spec: Spec) -> Grammar:
    """How the names of variants are spelled."""
    declared = [name for name in spec.axes if name not in {*AXES, *PARTS}]
    usual = "-".join(f"{{{axis}}}" for axis in ("python", *declared, "accelerator", "isa", "platform"))
    tags = {name: row.tag for name, row in spec.axes.items() if row.tag}
    for rows in spec.accelerator_tables():
        tags |= {name: row.tag for name, row in rows.items() if row.tag}
    return Grammar(parts=tuple((spec.names or usual).split("-")), tags=tags)


def listed_cells(spec: Spec) -> Iterator[Cell]:
    """The cells of the variants that fit no axis, branch by branch."""
    for branch in spec.branches:
        for package in spec.packages.values():
            for variant in package.listed(branch):
                yield Cell(
                    branch=branch,
                    values=(("platform", variant.system),),
                    system=variant.system,
                    isa=spec.hardware.systems[variant.system].baseline,
                    suffix=variant.name,
                    variants=(Variant(name=variant.name, package=package.name),),
                )
