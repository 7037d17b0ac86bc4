"""The text of an adopted spec, laid out as a person would write it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ci_compiler.adoption.axes import entry_of
from ci_compiler.adoption.guesses import Declared
from ci_compiler.adoption.spec_yaml import entry, flow
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Exclusion, Matrix, Pool
from ci_compiler.spec.schema import ADDRESS
from ci_compiler.stages import BUILD, PUBLISH

OWNER = "my-org"
GUESSED = "guessed"
UNTESTED = "no pool states its CPU (`cpu`)"
"""Why the variants of an adopted spec are not tested, until somebody states what the machines are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchText:
    """A branch: its keys in the spec, and remarks on some of them."""

    name: str
    row: Mapping[str, object]
    remarks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageText:
    """A package: its keys in the spec but for the matrix, its own matrix if it has one, and a remark."""

    name: str
    row: Mapping[str, object]
    matrix: Matrix | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecText:
    """What an adopted spec states. `systems` are those that need a build pool."""

    branches: Sequence[BranchText]
    packages: Sequence[PackageText]
    matrix: Matrix | None
    systems: Sequence[str]
    declared: Declared
    hardware: Hardware

    def __str__(self) -> str:
        """The YAML."""
        lines = [
            f"# yaml-language-server: $schema={ADDRESS}",
            "# Made from existing recipes by `ci-compile adopt`. It is yours now: edit it; what it states is built.",
            "version: 1",
            f"owner: {OWNER}  # guessed: the FloxHub organisation that the variants are published to",
            "",
            "branches:",
            *(line for one in self.branches for line in _branch(one)),
            "",
            *self._hardware(),
            "packages:",
            *(line for one in self.packages for line in self._package(one)),
            "",
            *self._matrix(),
            "runners:  # guessed: recipes do not state your machines; `ci-runner labels` shows the labels of one.",
            "  # A variant is tested where a pool has its ISA (`cpu`) and its GPU (`gpu`).",
            f"  # Variants with an ISA are untested: {UNTESTED}.",
            *(line for system in self.systems for line in _pool(system, self.hardware)),
        ]
        return "\n".join(lines) + "\n"

    def _hardware(self) -> Iterator[str]:
        if self.declared:
            yield "hardware:  # guessed from the recipes' names and texts: the tables do not know it"
            for table, rows in self.declared.items():
                yield from entry(table, rows, "  ", block=True)
            yield ""

    def _package(self, package: PackageText) -> Iterator[str]:
        row: dict[str, object] = dict(package.row)
        if package.matrix is not None:
            axes: dict[str, object] = {
                "python": package.matrix.pythons,
                "isas": package.matrix.isas,
                "gpus": {axis.name: entry_of(axis) for axis in package.matrix.gpus},
                "exclude": [_exclusion(one) for one in package.matrix.exclude],
            }
            row["matrix"] = {key: value for key, value in axes.items() if value}
        yield from entry(package.name, row, "  ", package.remark)

    def _matrix(self) -> Iterator[str]:
        if self.matrix is not None:
            yield "matrix:  # a variant is a package x branch x Python x toolkit x GPU x ISA"
            yield from _axes(self.matrix, self.hardware)
            yield ""


def _branch(branch: BranchText) -> Iterator[str]:
    head = f"  {flow(branch.name)}:"
    if not branch.row:
        yield f"{head} {{}}"
        return
    yield head
    for key, value in branch.row.items():
        yield from entry(key, value, "    ", branch.remarks.get(key, ""))


def _axes(matrix: Matrix, hardware: Hardware) -> Iterator[str]:
    if matrix.pythons:
        yield from entry("python", matrix.pythons, "  ")
    yield from entry("isas", matrix.isas, "  ", block=True)
    yield "  gpus:"
    for axis in matrix.gpus:
        about = "" if axis.name == CPU else hardware.gpu(axis.name).summary
        yield from entry(axis.name, entry_of(axis), "    ", about)
    if matrix.exclude:
        yield from entry("exclude", [_exclusion(one) for one in matrix.exclude], "  ", block=True)


def _exclusion(one: Exclusion) -> dict[str, object]:
    return {"variants": one.pattern, **({"branches": one.branches} if one.branches else {}), "because": one.because}


def _pool(system: str, hardware: Hardware) -> Iterator[str]:
    """A build pool of the same size as the bundled stack's."""
    known = hardware.systems[system]
    pool = _bundled_pool(system)
    linux, label = known.os == "Linux", known.label.lower()
    row = {
        "runs-on": ["self-hosted", "linux" if linux else known.os, label, "nix-builder"],
        "cpu": [],
        **{key: getattr(pool, key) for key in ("cores", "memory", "disk")},
    }
    name = label if linux else known.os.lower()
    yield from entry(f"{name}-builder", row, "  ")
    publisher = {"runs-on": [*row["runs-on"][:-1], "nix-publisher"], "stages": [PUBLISH.name]}
    yield from entry(f"{name}-publisher", publisher, "  ")


def _bundled_pool(system: str) -> Pool:
    """The bundled stack's build pool for `system`, else its first."""
    pools = [pool for pool in bundled_spec().pools if BUILD in pool.stages]
    return next((pool for pool in pools if pool.system == system), pools[0])
