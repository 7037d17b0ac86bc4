"""The axes multiplied out: every cell that the spec selects, possible or not, and the variants of each cell.

A *cell* is a branch x Python x toolkit x GPU x ISA; its *variants* are the builds of its packages. `plan.rules` decides
whether a cell can exist. For that decision, a candidate records whether the spec names it explicitly. A variant that
fits no axis has a cell of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.record import record
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import GpuAxis, Matrix, Package, Spec
from ci_compiler.variant import cell_suffix, variant_name


class Variant(NamedTuple):
    """One package built for one cell; `name` is its recipe's file name and its attribute path in Flox."""

    name: str
    package: str


@record
class Cell:
    """A branch x Python (`3.13`) x toolkit (`12.8`) x GPU x ISA, on one Nix system, with its variants in build order.

    In a CPU cell, `gpu` is `cpu` and `cuda` is ''. The cell of a variant that fits no axis is a CPU cell that `listed`
    names; its `python` is '' and its `isa` the baseline of its system.
    """

    branch: str
    python: str
    toolkit: str
    target: str
    isa: str
    system: str
    variants: tuple[Variant, ...]
    listed: str = ""

    @property
    def suffix(self) -> str:
        """The common suffix of its variants' names: `python313-cuda12_8-sm90-avx2`; the whole name of a listed one."""
        return self.listed or cell_suffix(python=self.python, toolkit=self.toolkit, target=self.target, isa=self.isa)


@record
class Candidate:
    """A branch x toolkit x GPU x ISA that the spec selects, before it is multiplied by Python versions and packages.

    `gpu_on_branch` and `isa_on_gpu` say whether the spec names that pair explicitly. `path` is the entry in the spec
    that findings about the candidate point to. `python` is always ''.
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


def candidates(spec: Spec, root: Path_, matrix: Matrix) -> Iterator[Candidate]:
    """Every branch x GPU x toolkit x ISA that `matrix`, which is at `root`, selects, in the spec's order."""
    usual = [(system, isa) for system, isas in matrix.isas.items() for isa in isas]
    for branch in spec.branches.values():
        for axis in matrix.gpus:
            if not axis.branches or branch.name in axis.branches:
                listed = [one for one in branch.toolkits if not axis.toolkits or one in axis.toolkits]
                for cuda in ("",) if axis.name == CPU else listed:
                    named = bool(axis.toolkits) or (bool(axis.branches) and len(branch.toolkits) == 1)
                    place = (*root, "gpus", axis.name)
                    yield from _of_axis(spec, place, axis, branch.name, cuda, usual, named=named)


def _of_axis(
    spec: Spec,
    root: Path_,
    axis: GpuAxis,
    branch: str,
    cuda: str,
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
            toolkit=cuda,
            target=axis.name,
            isa=isa,
            system=system,
            gpu_on_branch=gpu_on_branch,
            isa_on_gpu=path != root,
            path=path,
        )


def cells_of(candidate: Candidate, pythons: Sequence[str], packages: Sequence[Package]) -> Iterator[Cell]:
    """The cells of one candidate, one per Python, each with a variant of every one of `packages`."""
    gpu, isa, cuda = candidate.target, candidate.isa, candidate.toolkit
    for python in pythons:
        suffix = cell_suffix(python=python, toolkit=cuda, target=gpu, isa=isa)
        yield Cell(
            branch=candidate.branch,
            python=python,
            toolkit=cuda,
            target=gpu,
            isa=isa,
            system=candidate.system,
            variants=tuple(Variant(name=variant_name(one.name, suffix), package=one.name) for one in packages),
        )


def listed_cells(spec: Spec) -> Iterator[Cell]:
    """The cells of the variants that fit no axis, branch by branch."""
    for branch in spec.branches:
        for package in spec.packages.values():
            for one in package.listed(branch):
                yield Cell(
                    branch=branch,
                    python="",
                    toolkit="",
                    target=CPU,
                    isa=spec.hardware.systems[one.system].baseline,
                    system=one.system,
                    variants=(Variant(name=one.name, package=package.name),),
                    listed=one.name,
                )
