"""The axes multiplied out: every cell that the spec selects, possible or not, and the variants of each cell.

A *cell* is a branch x Python x toolkit x GPU x ISA; its *variants* are the builds of its packages. `plan.rules` decides
whether a cell can exist. For that decision, a candidate records whether the spec names it explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ci_compiler.hardware import CPU
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import GpuAxis, Package, Spec
from ci_compiler.variant import cell_suffix, variant_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One package built for one cell; `name` is its recipe's file name and its attribute path in Flox."""

    name: str
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A branch x Python (`3.13`) x toolkit (`12.8`) x GPU x ISA, on one Nix system, with its variants in build order.

    In a CPU cell, `gpu` is `cpu` and `cuda` is ''.
    """

    branch: str
    python: str
    cuda: str
    gpu: str
    isa: str
    system: str
    variants: tuple[Variant, ...]

    @property
    def suffix(self) -> str:
        """The common suffix of its variants' names: `python313-cuda12_8-sm90-avx2`."""
        return cell_suffix(python=self.python, cuda=self.cuda, gpu=self.gpu, isa=self.isa)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A branch x GPU x ISA that the spec selects, before it is multiplied by Python versions and packages.

    `gpu_on_branch` and `isa_on_gpu` say whether the spec names that pair explicitly. `path` is the entry in the spec
    that findings about the candidate point to.
    """

    branch: str
    gpu: str
    isa: str
    system: str
    gpu_on_branch: bool
    isa_on_gpu: bool
    path: Path_


def candidates(spec: Spec) -> Iterator[Candidate]:
    """Every branch x GPU x ISA that the spec selects, in the spec's order."""
    usual = [(system, isa) for system, isas in spec.matrix.isas.items() for isa in isas]
    for branch in spec.branches:
        for axis in spec.matrix.gpus:
            if not axis.branches or branch in axis.branches:
                yield from _of_axis(spec, branch, axis, usual)


def _of_axis(spec: Spec, branch: str, axis: GpuAxis, usual: list[tuple[str, str]]) -> Iterator[Candidate]:
    root: Path_ = ("matrix", "gpus", axis.name)
    own = [(spec.hardware.isa(isa).system, isa) for isa in axis.isas]
    for index, (system, isa) in enumerate(own or usual):
        yield Candidate(
            branch=branch,
            gpu=axis.name,
            isa=isa,
            system=system,
            gpu_on_branch=bool(axis.branches),
            isa_on_gpu=bool(own),
            path=(*root, "isas", index) if own else root,
        )
    taken = {isa for _, isa in own or usual}
    for index, isa in enumerate(axis.also.get(branch, ())):
        if isa not in taken:
            system = spec.hardware.isa(isa).system
            path = (*root, "also", branch, index)
            named = {"gpu_on_branch": True, "isa_on_gpu": True}
            yield Candidate(branch=branch, gpu=axis.name, isa=isa, system=system, path=path, **named)


def cells_of(spec: Spec, candidate: Candidate, packages: tuple[Package, ...]) -> Iterator[Cell]:
    """The cells of one candidate, one per Python, each with a variant of every package of its branch."""
    gpu, isa = candidate.gpu, candidate.isa
    cuda = "" if gpu == CPU else spec.branches[candidate.branch].cuda
    for python in spec.matrix.pythons:
        suffix = cell_suffix(python=python, cuda=cuda, gpu=gpu, isa=isa)
        yield Cell(
            branch=candidate.branch,
            python=python,
            cuda=cuda,
            gpu=gpu,
            isa=isa,
            system=candidate.system,
            variants=tuple(Variant(name=variant_name(one.name, suffix), package=one.name) for one in packages),
        )
