"""All about one variant: why it is built or left out, where it is built and tested, and how to start it.

The answers come from the plan; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ci_compiler.errors import Place, nearest
from ci_compiler.hardware import CPU, UnknownHardwareError
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import LeftOut
from ci_compiler.plan.sharding import Shard, job_id
from ci_compiler.spec.model import Spec
from ci_compiler.stages import Stage, stages
from ci_compiler.variant import EXAMPLE, VariantName


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVariant:
    """A variant that is built, on one of its branches; `recipe` is the path of its recipe or build script."""

    variant: Variant
    recipe: str
    cell: Cell
    route: Route
    shard: Shard
    version: str
    selected_by: Place

    @property
    def workflow(self) -> str:
        """Its shard's file."""
        return self.shard.path

    @property
    def job(self) -> str:
        """The job of its cell in that file, and its own job in `cell.yml`."""
        return f"{job_id(self.cell)} / {self.variant.package}"

    @property
    def dispatch(self) -> str:
        """The command that starts its build."""
        return f"gh workflow run {self.shard.name}.yml --ref {self.cell.branch} -f variant={self.variant.name}"

    def stages(self) -> Iterator[tuple[Stage, str]]:
        """Each stage with the pool that runs it, or why none does."""
        for stage in stages():
            if stage in self.route.pools:
                pool = self.route.pools[stage]
                yield stage, f"{pool.name} ({pool.runs_on})"
            elif stage in self.route.skipped:
                yield stage, f"not run: {self.route.skipped[stage]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentVariant:
    """A variant that is not built: the reason, and the place in the spec that causes it."""

    reason: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a variant is built, or why it is not; `unknown` says what is wrong with a name that no variant can have."""

    name: str
    built: tuple[BuiltVariant, ...]
    absent: tuple[AbsentVariant, ...]
    unknown: str


def explain(plan: Plan, name: str) -> Explanation:
    """What the plan says about the variant `name`."""
    built = tuple(_built(plan, name))
    if built:
        return Explanation(name=name, built=built, absent=(), unknown="")
    wanted = VariantName.parse(name)
    if wanted is None:
        names = {variant.name for cell in plan.judged.cells for variant in cell.variants}
        problem = f"{name!r} is not a variant's name ({EXAMPLE}){nearest(name, names)}"
    else:
        problem = _unknown(plan.spec, wanted)
    absent = () if problem or wanted is None else tuple(_absent(plan, wanted))
    return Explanation(name=name, built=(), absent=absent, unknown=problem)


def _built(plan: Plan, name: str) -> Iterator[BuiltVariant]:
    for shard in plan.shards:
        for cell, route in shard.cells:
            for variant in cell.variants:
                if variant.name == name:
                    yield BuiltVariant(
                        variant=variant,
                        recipe=plan.spec.packages[variant.package].source(variant.name),
                        cell=cell,
                        route=route,
                        shard=shard,
                        version=plan.spec.branches[cell.branch].versions[variant.package],
                        selected_by=_selected_by(plan.spec, cell),
                    )


def _selected_by(spec: Spec, cell: Cell) -> Place:
    """The most specific place in the spec that selects `cell`: an ISA listed under the GPU, else the GPU."""
    axis = next(axis for axis in spec.matrix.gpus if axis.name == cell.gpu)
    root = ("matrix", "gpus", cell.gpu)
    if cell.isa in axis.isas:
        return spec.place(*root, "isas", axis.isas.index(cell.isa))
    also = axis.also.get(cell.branch, ())
    return (
        spec.place(*root, "also", cell.branch, also.index(cell.isa))
        if cell.isa in also
        else spec.place(*root, key=True)
    )


def _unknown(spec: Spec, wanted: VariantName) -> str:
    """Which part of the name `wanted` is unknown, with the right spelling or similar names; '' if all are known."""
    right = wanted.spelled(spec.hardware)
    if right != wanted:
        return f"'{wanted}' is not a Flox attribute path; write {right}"
    if wanted.package not in spec.packages:
        return f"unknown package {wanted.package!r}{nearest(wanted.package, spec.packages)}"
    try:
        spec.hardware.isa(wanted.isa)
        if wanted.gpu != CPU:
            spec.hardware.gpu(wanted.gpu)
    except UnknownHardwareError as error:
        return str(error)
    toolkits = {branch.cuda for branch in spec.branches.values()}
    if wanted.cuda not in {"", *toolkits}:
        return f"no branch builds with CUDA {wanted.cuda}{nearest(wanted.cuda, toolkits)}"
    return ""


def _absent(plan: Plan, wanted: VariantName) -> Iterator[AbsentVariant]:
    spec = plan.spec
    for branch in spec.branches.values():
        if wanted.cuda not in {"", branch.cuda}:
            continue
        out = next((one for one in plan.judged.left_out if _is(one, branch.name, wanted)), None)
        if out is not None:
            yield AbsentVariant(
                reason=f"left out on {branch.name}: {out.reason} ({out.code})", place=spec.place(*out.path)
            )
        else:
            yield _not_selected(spec, branch.name, wanted)


def _is(one: LeftOut, branch: str, wanted: VariantName) -> bool:
    same = (one.branch, one.gpu, one.isa) == (branch, wanted.gpu, wanted.isa)
    return same and one.python in {"", wanted.python} and one.package in {"", wanted.package}


def _not_selected(spec: Spec, branch: str, wanted: VariantName) -> AbsentVariant:
    """The first axis of the spec that does not have the variant's value."""
    gpu, python = wanted.gpu, wanted.python
    if python not in spec.matrix.pythons:
        return AbsentVariant(reason=f"Python {python} is not in the matrix", place=spec.place("matrix", "python"))
    axis = next((axis for axis in spec.matrix.gpus if axis.name == gpu), None)
    if axis is None:
        return AbsentVariant(reason=f"{gpu} is not in the matrix", place=spec.place("matrix", "gpus"))
    place = spec.place("matrix", "gpus", gpu, key=True)
    if axis.branches and branch not in axis.branches:
        return AbsentVariant(reason=f"{gpu} is not selected on {branch}", place=place)
    return AbsentVariant(reason=f"{wanted.isa} is not selected for {gpu} on {branch}", place=place)
