"""All about one variant: why it exists or may not, where it is built and tested, how to start it.

The answers come from the plan; nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ci_compiler.errors import Place, nearest
from ci_compiler.hardware import CPU, UnknownHardwareError
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import LeftOut
from ci_compiler.plan.sharding import FOLDER, Shard, job_id
from ci_compiler.spec.model import Spec, Stage
from ci_compiler.variant import RECIPES

_NAME = re.compile(
    r"(?P<package>[A-Za-z0-9_]+)-python3(?P<python>\d+)-(?:cpu|cuda(?P<cuda>\d+_\d+)-(?P<gpu>[^-]+))-(?P<isa>[^-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVariant:
    """A variant that the fleet holds, on one of its branches."""

    variant: Variant
    cell: Cell
    route: Route
    shard: Shard
    version: str
    selected_by: Place

    @property
    def recipe(self) -> str:
        """Its recipe's path."""
        return f"{RECIPES}/{self.variant.name}.nix"

    @property
    def workflow(self) -> str:
        """Its shard's file."""
        return f"{FOLDER}/{self.shard.name}.yml"

    @property
    def job(self) -> str:
        """The job of its cell in that file, and its own in `cell.yml`."""
        return f"{job_id(self.cell)} / {self.variant.package}"

    @property
    def dispatch(self) -> str:
        """The command that starts it."""
        return f"gh workflow run {self.shard.name}.yml --ref {self.cell.branch} -f variant={self.variant.name}"

    def stages(self) -> Iterator[tuple[Stage, str]]:
        """Each stage with the pool that runs it, or why none does."""
        for stage in Stage:
            if stage in self.route.pools:
                pool = self.route.pools[stage]
                where = pool.runs_on.scale_set or ", ".join(pool.runs_on.labels) or pool.runs_on.group
                yield stage, f"{pool.name} ({where})"
            elif stage in self.route.skipped:
                yield stage, f"not run: {self.route.skipped[stage]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentVariant:
    """A variant that the fleet does not hold: why, and the spec's place that says so."""

    reason: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What there is to say of a name: where it is built, or why it is not; neither where the name is none."""

    name: str
    built: tuple[BuiltVariant, ...]
    absent: tuple[AbsentVariant, ...]
    unknown: str


def explain(plan: Plan, name: str) -> Explanation:
    """What the plan knows of the variant `name`."""
    built = tuple(_built(plan, name))
    if built:
        return Explanation(name=name, built=built, absent=(), unknown="")
    parts = _NAME.fullmatch(name)
    problem = _unknown(plan, name, parts)
    absent = () if problem or parts is None else tuple(_absent(plan, parts))
    return Explanation(name=name, built=(), absent=absent, unknown=problem)


def _built(plan: Plan, name: str) -> Iterator[BuiltVariant]:
    for shard in plan.shards:
        for cell, route in shard.cells:
            for variant in cell.variants:
                if variant.name == name:
                    yield BuiltVariant(
                        variant=variant,
                        cell=cell,
                        route=route,
                        shard=shard,
                        version=plan.spec.branches[cell.branch].versions[variant.package],
                        selected_by=_selected_by(plan.spec, cell),
                    )


def _selected_by(spec: Spec, cell: Cell) -> Place:
    """The spec's most particular place that selects `cell`: an ISA of the GPU's own, else the GPU."""
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


def _unknown(plan: Plan, name: str, parts: re.Match[str] | None) -> str:
    """Why `name` is no variant's name at all; '' where it is one."""
    spec = plan.spec
    right = name
    for alias, isa in spec.hardware.aliases.items():
        right = right.removesuffix(alias) + isa if right.endswith(f"-{alias}") else right
    if right != name:
        return f"{name!r} is no name that a Flox attribute path can hold; write {right}"
    names = {variant.name for cell in plan.judged.cells for variant in cell.variants}
    if parts is None:
        return f"{name!r} is not a variant's name (PACKAGE-python313-cuda12_8-sm90-avx2){nearest(name, names)}"
    if parts["package"] not in spec.packages:
        return f"unknown package {parts['package']!r}{nearest(parts['package'], spec.packages)}"
    try:
        spec.hardware.isa(parts["isa"])
        if parts["gpu"] is not None:
            spec.hardware.gpu(parts["gpu"])
    except UnknownHardwareError as error:
        return str(error)
    toolkits = {branch.cuda.replace(".", "_") for branch in spec.branches.values()}
    if parts["cuda"] is not None and parts["cuda"] not in toolkits:
        return f"no branch builds with CUDA {parts['cuda'].replace('_', '.')}{nearest(parts['cuda'], toolkits)}"
    return ""


def _absent(plan: Plan, parts: re.Match[str]) -> Iterator[AbsentVariant]:
    spec = plan.spec
    gpu, python = parts["gpu"] or CPU, f"3.{parts['python']}"
    for branch in spec.branches.values():
        if parts["cuda"] not in {None, branch.cuda.replace(".", "_")}:
            continue
        out = next((one for one in plan.judged.left_out if _is(one, branch.name, gpu, parts, python)), None)
        if out is not None:
            yield AbsentVariant(
                reason=f"left out on {branch.name}: {out.reason} ({out.code})", place=spec.place(*out.path)
            )
        else:
            yield _not_selected(spec, branch.name, gpu, parts["isa"], python)


def _is(one: LeftOut, branch: str, gpu: str, parts: re.Match[str], python: str) -> bool:
    same = (one.branch, one.gpu, one.isa) == (branch, gpu, parts["isa"])
    return same and one.python in {"", python} and one.package in {"", parts["package"]}


def _not_selected(spec: Spec, branch: str, gpu: str, isa: str, python: str) -> AbsentVariant:
    """The first axis of the spec that does not hold the variant's value."""
    if python not in spec.matrix.pythons:
        return AbsentVariant(reason=f"Python {python} is not in the matrix", place=spec.place("matrix", "python"))
    axis = next((axis for axis in spec.matrix.gpus if axis.name == gpu), None)
    if axis is None:
        return AbsentVariant(reason=f"{gpu} is not in the matrix", place=spec.place("matrix", "gpus"))
    place = spec.place("matrix", "gpus", gpu, key=True)
    if axis.branches and branch not in axis.branches:
        return AbsentVariant(reason=f"{gpu} is not selected on {branch}", place=place)
    return AbsentVariant(reason=f"{isa} is not selected for {gpu} on {branch}", place=place)
