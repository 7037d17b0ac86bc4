"""What it saves to drop a value of an axis from the matrix, and what the users of its variants get instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ci_compiler.hardware import ALL, CPU, Version
from ci_compiler.plan.handed import HandedFiles
from ci_compiler.plan.job_graph import with_cells_ordered
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import in_profile, names_of_profile
from ci_compiler.plan.sharding import shards
from ci_compiler.reports.offers import Profile, fits
from ci_compiler.spec.axes import AXES, PARTS
from ci_compiler.spec.model import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """What the users of `variants` dropped variants, which are for `gpus`, get instead.

    `instead` has the values by which it differs; it is '' if no variant takes their place. `lost` says in words what
    these users lose.
    """

    gpus: tuple[str, ...]
    instead: str
    lost: str
    variants: int


def axis_values(plan: Plan) -> tuple[str, ...]:
    """The values of all axes that cells are built for: Python versions, toolkits, GPUs and ISAs."""
    found = (value for cell in plan.judged.cells for value in _values(cell))
    return tuple(dict.fromkeys(filter(None, found)))


def without(plan: Plan, value: str) -> Plan:
    """`plan` without the cells that have `value` on an axis: with the shards and routes of all others."""
    return _kept(plan, lambda cell: value not in _values(cell))


def of_profile(plan: Plan, profile: str) -> Plan:
    """`plan` with only what the profile builds, and what must be built with it; a pull request runs its tests alone.

    Raises InputError for a profile that the spec lacks.
    """
    spec, cells = plan.spec, plan.judged.cells
    handed = HandedFiles(spec, cells)
    names = {
        (branch, name)
        for branch in spec.branches
        for name in handed.built_as_well(branch, names_of_profile(plan, profile, branch))
    }
    made = _kept(plan, lambda cell: any((cell.branch, variant.name) in names for variant in cell.variants))
    shards = tuple(replace(shard, cells=in_profile(spec, shard, profile)) for shard in made.shards)
    return replace(made, shards=shards)


def _kept(plan: Plan, keeps: Callable[[Cell], bool]) -> Plan:
    kept = [(cell, route) for cell, route in zip(plan.judged.cells, plan.routes, strict=True) if keeps(cell)]
    cells, routes = tuple(cell for cell, _ in kept), tuple(route for _, route in kept)
    made = with_cells_ordered(plan.spec, shards(plan.spec, cells, routes))
    return replace(plan, judged=replace(plan.judged, cells=cells), routes=routes, shards=made)


def substitutes(plan: Plan, value: str) -> tuple[Substitute, ...]:
    """What the users of the variants with `value` get instead, the most variants first."""
    kept = [cell for cell in plan.judged.cells if value not in _values(cell)]
    by_user: dict[tuple[object, ...], list[Cell]] = {}
    for cell in kept:
        by_user.setdefault(_user(cell), []).append(cell)
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in plan.judged.cells:
        if value in _values(cell):
            best = _best(plan.spec, cell, by_user.get(_user(cell), ()))
            found.setdefault(_difference(plan.spec, cell, best), []).append(cell)
    rows = []
    for (instead, lost), cells in found.items():
        gpus, variants = tuple(dict.fromkeys(cell.target for cell in cells)), sum(len(cell.variants) for cell in cells)
        rows.append(Substitute(gpus=gpus, instead=instead, lost=lost, variants=variants))
    return tuple(sorted(rows, key=lambda row: -row.variants))


def _values(cell: Cell) -> tuple[str, ...]:
    return (cell.python, cell.toolkit, cell.target, cell.isa, *(value for _, value in cell.values))


def _user(cell: Cell) -> tuple[object, ...]:
    """What the cells share that the users of one may take in place of another."""
    fixed = tuple(pair for pair in cell.values if pair[0] not in {*AXES, *PARTS})
    return cell.branch, cell.python, cell.listed, fixed


def _best(spec: Spec, dropped: Cell, kept: Iterable[Cell]) -> Cell | None:
    """The cell of `kept` that every machine of `dropped` runs and that has the most of what it has.

    Its toolkit is the same or an earlier one, so that it needs no newer driver. Code for the GPU comes first, then the
    nearest toolkit, then the ISA that includes most.
    """
    hardware = spec.hardware
    gpu = None if dropped.target in {CPU, ALL.name} else hardware.gpu(dropped.target)
    isas = hardware.runs([dropped.isa], dropped.system)
    machine = Profile(system=dropped.system, isas=tuple(isas), gpu=gpu)

    def toolkit(cell: Cell) -> Version:
        return hardware.toolkit(cell.toolkit).version if cell.toolkit else Version(0, 0)

    def rank(cell: Cell) -> tuple[object, ...]:
        capability = Version(0, 0) if cell.target == CPU else hardware.gpu(cell.target).capability
        return cell.target != CPU, capability, toolkit(cell), len(hardware.runs([cell.isa], cell.system))

    packages = {variant.package for variant in dropped.variants}
    usable = [
        cell
        for cell in kept
        if packages <= {variant.package for variant in cell.variants}
        and fits(spec, machine, cell)
        and toolkit(cell) <= toolkit(dropped)
    ]
    return max(usable, key=rank, default=None)


def _difference(spec: Spec, dropped: Cell, best: Cell | None) -> tuple[str, str]:
    """The values of `best` on the axes where it differs from `dropped`, and what is lost, in words."""
    if best is None:
        return "", "everything: no other variant of the branch runs there"
    pairs = [(dropped.target, best.target), (dropped.toolkit, best.toolkit), (dropped.isa, best.isa)]
    lost = []
    if dropped.target != best.target:
        lost.append("the GPU" if best.target == CPU else f"code for {dropped.target} itself")
    elif dropped.toolkit != best.toolkit:
        lost.append(f"{spec.hardware.family(dropped.family).kit} {dropped.toolkit}")
    if flags := set(_flags(spec, dropped.isa)) - set(_flags(spec, best.isa)):
        lost.append(f"instructions: {' '.join(sorted(flags))}")
    return " ".join(other for one, other in pairs if other not in {"", one}), "; ".join(lost)


def _flags(spec: Spec, isa: str) -> Iterable[str]:
    """The flags of /proc/cpuinfo that prove the ISA and those that it includes."""
    return (flag for name in spec.hardware.runs([isa]) for flag in spec.hardware.isa(name).cpuinfo)
