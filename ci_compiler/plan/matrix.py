"""The axes multiplied out: every cell that the spec selects, possible or not, and the variants of each cell.

A *cell* is a branch and at most one value of each axis; its *variants* are the packages built for it. `plan.rules`
decides whether a cell can exist. For that decision, a candidate records whether the spec names it explicitly. A variant
that fits no axis has a cell of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.spec.axes import AXES, NO_ACCELERATOR, PARTS, SHORT_FAMILY, Accelerator, SettingRow
from ci_compiler.spec.command import Command
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import GpuAxis, Matrix, Package, Spec
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.values import variant_values
from ci_compiler.variant import Grammar, cell_suffix, variant_name

Values = tuple[tuple[str, str], ...]
"""Axes with the value that a cell has of each; an accelerator is its parts."""


class Variant(NamedTuple):
    """One package built for one cell; `name` is its recipe's file name and its attribute path in Flox."""

    name: str
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A branch and at most one value of each axis, with its variants in build order.

    `system`, `target` and `isa` are what its machines must have, whether they are values of the cell or not. `target`
    is the family where code is not compiled for a target, and `cpu` without an accelerator; `toolkit` may be ''. The
    cell of a variant that fits no axis is a CPU cell that `listed` names; its `python` is '' and its `isa` the baseline
    of its system. `named` is the suffix of an open matrix, and `values` what it spells. `joined` names the build that
    makes its variants together with those of other cells, or with each other. An `alone` cell holds one variant, so
    that edges between variants make no circle of jobs.
    """

    branch: str
    python: str
    toolkit: str
    target: str
    isa: str
    system: str
    variants: tuple[Variant, ...]
    listed: str = ""
    named: str = ""
    values: Values = ()
    joined: str = ""
    alone: bool = False

    @property
    def called(self) -> str:
        """The name of its only variant, if its jobs are those of a variant and not those of a cell; else ''."""
        alone = self.named and not self.joined and len(self.variants) == 1
        return self.listed or (self.variants[0].name if alone else "")

    @property
    def key(self) -> str:
        """What the conditions of jobs name: its suffix, its only variant, or the build that makes it."""
        return self.joined or (self.variants[0].name if self.alone else self.suffix)

    @property
    def suffix(self) -> str:
        """The common suffix of its variants' names: as `cell_suffix` makes it; the whole name of a listed one."""
        return (
            self.listed
            or self.named
            or cell_suffix(python=self.python, toolkit=self.toolkit, target=self.target, isa=self.isa)
        )

    @property
    def family(self) -> str:
        """The family of its accelerator."""
        if self.named:
            return dict(self.values).get("family", CPU)
        return CPU if self.target == CPU else SHORT_FAMILY

    @property
    def axes(self) -> Mapping[str, str]:
        """Its value on each axis that it has one of, its branch included."""
        if self.listed or self.named:
            return {"branch": self.branch, **dict(self.values)}
        return {"branch": self.branch, **dict(short_values(self, self.python))}

    @property
    def conditions(self) -> Mapping[str, str]:
        """What a `when` is about: `axes`, with the platform that the ISA of a cell of the short form implies."""
        return self.axes if self.named else {"platform": self.system, **self.axes}


def short_values(cell: Cell | Candidate, python: str) -> Values:
    """The values of a cell of the short form."""
    family = CPU if cell.target == CPU else SHORT_FAMILY
    target = "" if cell.target == CPU else cell.target
    values = {"python": python, "family": family, "toolkit": cell.toolkit, "target": target, "isa": cell.isa}
    return tuple((axis, value) for axis, value in values.items() if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A branch and values that the spec selects, before they are multiplied by packages.

    `gpu_on_branch` and `isa_on_gpu` say whether the spec names that pair explicitly. `path` is the entry in the spec
    that findings about the candidate point to. In the short form, `python` and `values` are '' and ().
    """

    branch: str
    toolkit: str
    target: str
    isa: str
    system: str
    gpu_on_branch: bool
    isa_on_gpu: bool
    path: Path_
    python: str = ""
    values: Values = ()


def candidates(spec: Spec, root: Path_, matrix: Matrix) -> Iterator[Candidate]:
    """Every combination of values that `matrix`, which is at `root`, selects, in the spec's order."""
    if matrix.is_open:
        yield from OpenMatrix(spec, root, matrix).candidates()
        return
    usual = [(system, isa) for system, isas in matrix.isas.items() for isa in isas]
    for branch in spec.branches.values():
        for axis in matrix.gpus:
            if not axis.branches or branch.name in axis.branches:
                listed = [one for one in branch.toolkits if not axis.toolkits or one in axis.toolkits]
                for toolkit in ("",) if axis.name == CPU else listed:
                    named = bool(axis.toolkits) or (bool(axis.branches) and len(branch.toolkits) == 1)
                    place = (*root, "gpus", axis.name)
                    yield from _of_axis(spec, place, axis, branch.name, toolkit, usual, named=named)


def _of_axis(
    spec: Spec,
    root: Path_,
    axis: GpuAxis,
    branch: str,
    toolkit: str,
    usual: Sequence[tuple[str, str]],
    *,
    named: bool,
) -> Iterator[Candidate]:
    own = [(spec.hardware.isa(isa).system, isa) for isa in axis.isas]
    found = [
        (system, isa, named, (*root, "isas", index) if own else root)
        for index, (system, isa) in enumerate(own or usual)
    ]
    taken = {isa for _, isa in own or usual}
    alone = named or len(spec.branches[branch].toolkits) <= 1
    also = [
        (spec.hardware.isa(isa).system, isa, alone, (*root, "also", branch, index))
        for index, isa in enumerate(axis.also.get(branch, ()))
        if isa not in taken
    ]
    for system, isa, gpu_on_branch, path in (*found, *also):
        yield Candidate(
            branch=branch,
            toolkit=toolkit,
            target=axis.name,
            isa=isa,
            system=system,
            gpu_on_branch=gpu_on_branch,
            isa_on_gpu=path != root,
            path=path,
        )


class OpenMatrix:
    """A matrix of the open form."""

    def __init__(self, spec: Spec, root: Path_, matrix: Matrix) -> None:
        self.spec, self.root, self.matrix = spec, root, matrix
        self.usual_system = first_system(spec, matrix)

    def candidates(self) -> Iterator[Candidate]:
        """Its combinations, branch by branch and row by row; one that several rows select comes once."""
        for branch in self.spec.branches:
            seen: set[Values] = set()
            for path, row in self.matrix.combinations:
                if branch in row.get("branch", (branch,)):
                    axes = [axis for axis in row if axis != "branch"]
                    for chosen in product(*(self._values(branch, axis, row[axis]) for axis in axes)):
                        values = tuple(pair for pairs in chosen for pair in pairs)
                        if (key := tuple(sorted(values))) not in seen:
                            seen.add(key)
                            yield self._candidate(branch, values, (*self.root, *path))

    def _values(self, branch: str, axis: str, values: Sequence[str]) -> list[Values]:
        if axis != "accelerator":
            return [((axis, value),) for value in values]
        every = (accelerator for text in values for accelerator in self._accelerators(branch, Accelerator.parse(text)))
        return [
            tuple(pair for pair in zip(PARTS, accelerator, strict=True) if pair[1])
            for accelerator in dict.fromkeys(every)
        ]

    def _accelerators(self, branch: str, named: Accelerator) -> Iterator[Accelerator]:
        """What `named` stands for: the toolkits and the targets that the spec lists for its family."""
        tables = self.spec.accelerator_tables(branch)
        rows = [rows[named.family] for rows in tables if named.family in rows]
        toolkits = next((row.toolkits for row in rows if row.toolkits), ())
        if named.family == SHORT_FAMILY:
            toolkits = toolkits or tuple(self.spec.branches[branch].toolkits)
        targets = next((row.targets for row in rows if row.targets), ())
        for toolkit in [named.toolkit] if named.toolkit else toolkits or [""]:
            for target in [named.target] if named.target else targets or [""]:
                yield Accelerator(family=named.family, toolkit=toolkit, target=target)

    def _candidate(self, branch: str, values: Values, path: Path_) -> Candidate:
        return Candidate(
            branch=branch,
            **machine_values(self.spec, dict(values), self.usual_system),
            gpu_on_branch=False,
            isa_on_gpu=False,
            path=path,
            values=values,
        )


def first_system(spec: Spec, matrix: Matrix) -> str:
    """The system that builds what is not for a platform: the first of the matrix."""
    named = (values["platform"][0] for _, values in matrix.combinations if "platform" in values)
    serves = spec.axes["platform"].serves if "platform" in spec.axes else {}
    name = next(named, "x86_64-linux")
    return serves.get(name, (name,))[0]


def machine_values(spec: Spec, values: Mapping[str, str], usual_system: str) -> dict[str, Any]:
    """What a cell with `values` needs of a machine; a platform that serves several is built on the first of them."""
    platform = values.get("platform", usual_system)
    serves = spec.axes["platform"].serves if "platform" in spec.axes else {}
    isa = values.get("isa", "")
    system = spec.hardware.isas[isa].system if isa in spec.hardware.isas else serves.get(platform, (platform,))[0]
    row = spec.hardware.systems.get(system)
    accelerator = Accelerator(**{part: values.get(part, "") for part in PARTS})
    return {
        "python": values.get("python", ""),
        "toolkit": accelerator.toolkit,
        "target": accelerator.label or NO_ACCELERATOR.label,
        "isa": isa or (row.baseline if row else ""),
        "system": system,
    }


def cells_of(candidate: Candidate, pythons: Sequence[str], packages: Sequence[Package]) -> Iterator[Cell]:
    """The cells of a candidate of the short form, one per Python, each with a variant of every one of `packages`."""
    target, isa, toolkit = candidate.target, candidate.isa, candidate.toolkit
    for python in pythons:
        suffix = cell_suffix(python=python, toolkit=toolkit, target=target, isa=isa)
        yield Cell(
            branch=candidate.branch,
            python=python,
            toolkit=toolkit,
            target=target,
            isa=isa,
            system=candidate.system,
            variants=tuple(
                Variant(name=variant_name(package.name, suffix), package=package.name) for package in packages
            ),
        )


EVERYWHERE = "any"
"""The suffix of a cell without a value on any axis."""


class OpenCells:
    """Makes the cells of packages that ignore axes, or are built for some cells only, and those of open matrices."""

    def __init__(self, spec: Spec, matrix: Matrix) -> None:
        self.spec = spec
        self.usual = first_system(spec, matrix) if matrix.is_open else ""

    @cached_property
    def grammar(self) -> Grammar:
        """How names are spelled."""
        return grammar_of(self.spec)

    def cells(self, candidate: Candidate, pythons: Sequence[str], packages: Sequence[Package]) -> Iterator[Cell]:
        """A cell for each package and, in the short form, each Python: what the package ignores is not in it."""
        every = [candidate.values] if candidate.values else [short_values(candidate, python) for python in pythons]
        for values in every:
            where = {"branch": candidate.branch, **dict(values)}
            for package in packages:
                if package.when is None or package.when.holds(where):
                    yield self._cell(candidate, values, package)

    def _cell(self, candidate: Candidate, values: Values, package: Package) -> Cell:
        ignored = {part for axis in package.ignores for part in (PARTS if axis == "accelerator" else (axis,))}
        if "family" in ignored:
            ignored |= set(PARTS)
        own = tuple(pair for pair in values if pair[0] not in ignored)
        implied = {"platform"} if "isa" in dict(own) and not self.spec.names else set()
        suffix = self.grammar.suffix({axis: value for axis, value in own if axis not in implied}) or EVERYWHERE
        usual = candidate.system if "isa" in ignored and "platform" not in ignored else self.usual or candidate.system
        return Cell(
            branch=candidate.branch,
            **machine_values(self.spec, dict(own), usual),
            variants=(Variant(name=variant_name(package.name, suffix), package=package.name),),
            named=suffix,
            values=own,
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


def open_values(spec: Spec, cell: Cell) -> dict[str, str]:
    """The values of an open spec by name: those of the axes, '' for one that `cell` lacks, and the settings."""
    if not spec.is_open:
        return {}
    axes = {axis.replace("_", "-"): cell.axes.get(axis, "") for axis in (*PARTS, "platform", *spec.axes)}
    return axes | {name: setting(spec, name, cell) for name in spec.settings}


def values_in(spec: Spec, cell: Cell, package: str, name: str) -> dict[str, str]:
    """All values of the variant `name` of `package` in `cell`, by name."""
    values = open_values(spec, cell) | variant_values(spec, cell.branch, package, name, cell)
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
    """How the names of an open matrix are spelled."""
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
                    python="",
                    toolkit="",
                    target=CPU,
                    isa=spec.hardware.systems[variant.system].baseline,
                    system=variant.system,
                    variants=(Variant(name=variant.name, package=package.name),),
                    listed=variant.name,
                )
