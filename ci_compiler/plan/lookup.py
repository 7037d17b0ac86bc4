"""All about one variant: why it is built or left out, where it is built and tested, and how to start it.

The answers come from the plan; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ci_compiler.errors import Place, nearest
from ci_compiler.hardware import CPU, UnknownHardwareError
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.plan.matrix import Cell, Variant, candidates, version_in
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import LeftOut
from ci_compiler.plan.sharding import Shard
from ci_compiler.plan.suites import bench_of, suites_of
from ci_compiler.plan.unbuilt import SelectedVariants
from ci_compiler.spec.model import Branch, Spec
from ci_compiler.stages import stages
from ci_compiler.units import counted
from ci_compiler.variant import EXAMPLE, VariantName, variant_name


class BuiltVariant(NamedTuple):
    """A variant that is built, on one of its branches."""

    variant: Variant
    cell: Cell
    route: Route
    shard: Shard
    spec: Spec

    @property
    def version(self) -> str:
        """The package's version on the branch; '' if the spec does not state it."""
        return version_in(self.spec, self.cell, self.variant)

    @property
    def selected_by(self) -> Place:
        """The most specific place in the spec that selects it: an ISA that is listed for the GPU, else the row."""
        spec, cell = self.spec, self.cell
        if cell.listed:
            return spec.place("packages", self.variant.package, "variants", cell.listed, key=True)
        path, matrix = spec.axes_of(self.variant.package)
        own = (one for one in candidates(spec, path, matrix) if one.branch == cell.branch)
        return spec.place(*next(one.path for one in own if {*cell.values} <= {*one.values}), key=True)

    @property
    def recipe(self) -> str:
        """The path of its recipe, or of its build script."""
        return self.spec.packages[self.variant.package].source(self.variant.name)

    @property
    def job(self) -> str:
        """The job of its cell in that file, and the package that its jobs in `cell.yml` are named after."""
        alone = self.cell.called or self.cell.joined
        job = self.shard.job_id(self.cell)
        return job if alone else f"{job} / {self.variant.package}"

    @property
    def dispatch(self) -> str:
        """The command that starts its build."""
        return f"gh workflow run {self.shard.name}.yml --ref {self.cell.branch} -f variant={self.variant.name}"

    def stages(self) -> Iterator[tuple[str, str]]:
        """Each stage and each test suite with the pool that runs it, or why none does."""
        for stage in stages():
            if stage in self.route.pools:
                pool = self.route.pools[stage]
                beside = self.route.neighbours.get(stage, "")
                with_ = f", beside {variant_name(self.variant.package, beside)}" if beside else ""
                yield stage.name, f"{pool.name} ({pool.runs_on}){with_}"
            elif stage in self.route.skipped:
                yield stage.name, f"not run: {self.route.skipped[stage]}"
        for suite in suites_of(self.spec, self.cell, self.variant):
            bench = bench_of(suite)
            if bench in self.route.suites:
                yield f"suite {suite.name}", f"{self.route.suites[bench].name}, {counted(suite.shards, 'shard')}"
            elif bench in self.route.skipped_suites:
                yield f"suite {suite.name}", f"not run: {self.route.skipped_suites[bench]}"


class AbsentVariant(NamedTuple):
    """A variant that is not built: the reason, and the place in the spec that causes it."""

    reason: str
    place: Place


class Explanation(NamedTuple):
    """Where a variant is built, or why it is not; `unknown` says what is wrong with a name that no variant can have.

    `kind` is what the spec declares by that name instead: a package, a branch or a pool.
    """

    name: str
    built: tuple[BuiltVariant, ...] = ()
    absent: tuple[AbsentVariant, ...] = ()
    unknown: str = ""
    kind: str = ""


def explain(plan: Plan, name: str) -> Explanation:
    """What the plan says about the variant `name`."""
    if built := tuple(built_variants(plan, name)):
        return Explanation(name=name, built=built)
    spec = plan.spec
    declared = {"package": spec.packages, "branch": spec.branches, "pool": [pool.name for pool in spec.pools]}
    if kind := next((kind for kind, names in declared.items() if name in names), ""):
        problem = f"{name!r} is a {kind}, and no variant; `ci-compile variants` lists the names of variants"
        return Explanation(name=name, unknown=problem, kind=kind)
    wanted = VariantName.parse(name)
    selection = SelectedVariants(plan.spec, plan.judged)
    if selection.every and not selection.has_usual_names(wanted.package if wanted else ""):
        return _not_in(selection, name)
    if wanted is None:
        names = {variant.name for cell in plan.judged.cells for variant in cell.variants}
        near = nearest(name, names, only_near=True) or "; `ci-compile variants` lists them"
        problem = f"{name!r} is not a variant's name ({EXAMPLE}){near}"
        return Explanation(name=name, unknown=problem)
    if problem := _unknown(plan.spec, wanted):
        return Explanation(name=name, unknown=problem)
    return Explanation(name=name, absent=tuple(_absent(plan, wanted)))


def _not_in(selection: SelectedVariants, name: str) -> Explanation:
    """Why the matrices do not build `name`."""
    absent = list(selection.absent(name))
    problem = "" if absent else selection.unknown(name)
    if not absent and not problem:
        absent = [selection.unselected(name)]
    return Explanation(name=name, absent=tuple(AbsentVariant(*one) for one in absent), unknown=problem)


def built_variants(plan: Plan, name: str = "") -> Iterator[BuiltVariant]:
    """The variants of the plan, by shard, cell and package; with `name`, those on each branch that has it."""
    for shard in plan.shards:
        for cell, route in shard.cells:
            for variant in cell.variants:
                if name in {"", variant.name}:
                    yield BuiltVariant(variant=variant, cell=cell, route=route, shard=shard, spec=plan.spec)


def _unknown(spec: Spec, wanted: VariantName) -> str:
    """Which part of the name `wanted` is unknown, with the right spelling or similar names; '' if all are known."""
    right = wanted.spelled(spec.hardware)
    if right != wanted:
        return f"'{wanted}' is not a Flox attribute path; write {right}"
    if wanted.package not in spec.packages:
        return f"unknown package {wanted.package!r}{nearest(wanted.package, spec.packages)}"
    try:
        spec.hardware.isa(wanted.isa)
        if wanted.target != CPU:
            spec.hardware.gpu(wanted.target)
    except UnknownHardwareError as error:
        return str(error)
    if wanted.toolkit not in {"", *spec.toolkits}:
        kit = family_of(DEFAULT).toolkit
        return f"no branch builds with {kit} {wanted.toolkit}{nearest(wanted.toolkit, spec.toolkits)}"
    return ""


def _absent(plan: Plan, wanted: VariantName) -> Iterator[AbsentVariant]:
    spec = plan.spec
    for branch in spec.branches.values():
        if wanted.toolkit not in {"", *branch.toolkits}:
            continue
        out = next((left_out for left_out in plan.judged.left_out if _is(left_out, branch.name, wanted)), None)
        if out is not None:
            reason = f"left out on {branch.name}: {out.reason} ({out.code})"
            yield AbsentVariant(reason=reason, place=spec.place(*out.path))
        else:
            yield _not_selected(spec, branch, wanted)


def _is(one: LeftOut, branch: str, wanted: VariantName) -> bool:
    same = (one.branch, one.toolkit, one.target, one.isa) == (branch, wanted.toolkit, wanted.target, wanted.isa)
    return same and one.python in {"", wanted.python} and one.package in {"", wanted.package}


def _not_selected(spec: Spec, branch: Branch, wanted: VariantName) -> AbsentVariant:
    """The first axis of the spec that does not have the variant's value."""
    if spec.packages[wanted.package].matrix is None and spec.matrix is None:
        return AbsentVariant(reason=f"{wanted.package} has no matrix", place=spec.place("packages", wanted.package))
    path, matrix = spec.axes_of(wanted.package)
    every = list(candidates(spec, path, matrix))
    here = [one for one in every if one.branch == branch.name]
    if wanted.python not in {one.python for one in here}:
        place = spec.place(*(here or every)[0].row, "python")
        return AbsentVariant(reason=f"Python {wanted.python} is not in the matrix", place=place)
    gpu = wanted.target
    of_gpu = [one for one in every if one.target == gpu]
    if not of_gpu:
        return AbsentVariant(reason=f"{gpu} is not in the matrix", place=spec.place(*path, "rows"))
    place = spec.place(*of_gpu[0].row, key=True)
    if not any(one.branch == branch.name for one in of_gpu):
        return AbsentVariant(reason=f"{gpu} is not selected on {branch.name}", place=place)
    if wanted.toolkit not in {one.toolkit for one in of_gpu if one.branch == branch.name}:
        reason = f"{gpu} is not selected for {family_of(DEFAULT).toolkit} {wanted.toolkit}"
        return AbsentVariant(reason=reason, place=place)
    return AbsentVariant(reason=f"{wanted.isa} is not selected for {gpu} on {branch.name}", place=place)
