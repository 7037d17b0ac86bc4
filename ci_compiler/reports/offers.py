"""The variants of one package, ranked, and which of them a machine can run.

A variant fits if its system is the machine's, the CPU runs its ISA, a GPU of the machine runs its code, and the driver
runs its toolkit and that GPU. Variants that fit are ranked by these criteria, in this order: a GPU variant before a
CPU-only one, the GPU's own architecture before a compatible one, the newest toolkit and version, the ISA that suits the
workload. Those that are alike in all this fit equally well: the ones with fewer tests that did not pass, or that no
pool runs, are first, then the newest Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ci_compiler.hardware import CPU, Gpu, Hardware
from ci_compiler.hardware.drivers import lowest_driver, too_new_driver
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell, Values, Variant, version_in
from ci_compiler.plan.needs import serves
from ci_compiler.spec.axes import AXES, PARTS
from ci_compiler.spec.model import Spec
from ci_compiler.units import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asks for. An empty `branch`, `python` or `toolkit` means any."""

    package: str
    workload: Workload = Workload.GENERAL
    branch: str = ""
    python: str = ""
    toolkit: str = ""

    def allow(self, offer: Offer) -> bool:
        """Whether `offer` has what is asked for; a CPU-only variant serves every toolkit."""
        same = self.branch in {"", offer.branch} and self.python in {"", offer.python, *offer.pythons}
        return same and (offer.target == CPU or self.toolkit in {"", offer.toolkit})


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the answer depends on in a machine, except for its driver.

    `gpu` is None if the machine has no GPU, or if the hardware tables lack its GPU (then `has_gpu` is true).
    """

    system: str
    isas: tuple[str, ...]
    gpu: Gpu | None = None
    has_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A variant on a branch. `driver` is the lowest one that runs it on the machine's GPU; 0 for a CPU-only variant.

    `values` are those of all axes, where the other fields leave some out. `pythons` are further ones that it serves,
    and `kit` is what sentences call its toolkit.
    """

    name: str
    package: str
    version: str
    branch: str
    toolkit: str
    python: str
    target: str
    isa: str
    system: str
    driver: int
    values: Values = ()
    pythons: tuple[str, ...] = ()
    kit: str = family_of(DEFAULT).toolkit

    def as_json(self) -> dict[str, Any]:
        """The offer as JSON; with its value on each axis if the other fields leave some out."""
        axes = {"axes": dict(self.values)} if self.values else {}
        return {key: value for key, value in asdict(self).items() if key not in _OWN} | axes


_OWN = {"values", "pythons", "kit"}


def recalled(spec: Spec, branch: str, variant: Variant) -> str:
    """Why `variant` is recalled on `branch`; '' if it is not."""
    recall = spec.recalls.get(variant.name)
    version = spec.branches[branch].versions.get(variant.package, "")
    return recall.because if recall and recall.concerns(branch, version) else ""


def offers(
    spec: Spec,
    cells: Iterable[Cell],
    package: str,
    gpu: Gpu | None,
    workload: Workload,
    lacks: Mapping[tuple[str, str], int] | None = None,
) -> list[Offer]:
    """The variants of `package`, best first, with the drivers that they need on `gpu` (None: on their own GPU).

    `lacks`: how many of its tests a variant lacks, by branch and name.
    """
    branches = {name: at for at, name in enumerate(branch_order(spec, package))}
    isas = {name: at for at, name in enumerate(isa_order(spec.hardware, workload))}
    pythons = {name: at for at, name in enumerate(python_order(spec))}
    levels = branch_levels(spec, [package])
    places = {axis: {name: at for at, name in enumerate(_best_first(spec, axis))} for axis in declared_axes(spec)}

    def rank(offer: Offer) -> tuple[object, ...]:
        major, minor = (0, 0) if offer.target == CPU else spec.hardware.gpu(offer.target).capability
        first, second = spec.hardware.toolkit(offer.toolkit).version if offer.toolkit else (0, 0)
        toolkit = -first, -second, levels[offer.branch]
        proof = (lacks or {}).get((offer.branch, offer.name), 0)
        axes = (places[axis].get(dict(offer.values).get(axis, ""), 0) for axis in places)
        fit = offer.target == CPU, -major, -minor, *toolkit, isas[offer.isa]
        return *fit, proof, branches[offer.branch], pythons.get(offer.python, 0), *axes

    found = (
        Offer(
            name=variant.name,
            package=package,
            version=version_in(spec, cell, variant),
            branch=cell.branch,
            toolkit=cell.toolkit,
            python=cell.python,
            target=cell.target,
            isa=cell.isa,
            system=cell.system,
            driver=needed_driver(spec, cell, gpu),
            **_further_fields(spec, cell),
        )
        for cell in cells
        for variant in cell.variants
        if variant.package == package and cell.listed in {"", package}
    )
    return sorted(found, key=rank)


def _further_fields(spec: Spec, cell: Cell) -> dict[str, Any]:
    """The fields of an offer that not all have."""
    row = spec.axes.get("python")
    served = (row.serves.get(cell.python, ()) if row else ()) if cell.python else tuple(spec.pythons)
    if cell.is_usual or cell.listed:
        return {"pythons": served if cell.python else ()}
    return {
        "values": (("branch", cell.branch), *cell.values),
        "pythons": served,
        "kit": spec.hardware.family(cell.family).kit,
    }


def declared_axes(spec: Spec) -> list[str]:
    """The axes that the spec declares beside the built-in ones."""
    return [name for name, row in spec.axes.items() if row.values and name not in {*AXES, *PARTS}]


def _best_first(spec: Spec, axis: str) -> list[str]:
    """The values of a declared axis: versions with the newest first, others in the order of the spec."""
    values = spec.axes[axis].values
    return sorted(values, key=numbers, reverse=True) if all(value[0].isdigit() for value in values) else list(values)


def needed_driver(spec: Spec, cell: Cell, gpu: Gpu | None) -> int:
    """The lowest driver that runs `cell` on `gpu` (None: the GPU of the cell); 0 for a CPU-only cell."""
    if cell.target == CPU:
        return 0
    if not cell.toolkit:
        return 0
    toolkit = spec.hardware.toolkit(cell.toolkit)
    return lowest_driver(toolkit, gpu or spec.hardware.gpu(cell.target))


def fits(spec: Spec, profile: Profile, one: Cell | Offer) -> bool:
    """Whether the machine runs `one` with a driver that is new enough."""
    return fits_cpu(spec, profile, one) and (one.target == CPU or runs_code(spec.hardware, profile, one.target))


def fits_cpu(spec: Spec, profile: Profile, one: Cell | Offer) -> bool:
    """Whether the system and the CPU of the machine run `one`."""
    values = dict(one.values)
    if "isa" in values or (isinstance(one, Offer) and not values):
        return one.system == profile.system and one.isa in profile.isas
    if "platform" in values:
        return serves(spec, "platform", values["platform"], profile.system)
    packages = {one.package} if isinstance(one, Offer) else {variant.package for variant in one.variants}
    return one.system == profile.system or all("platform" in spec.packages[name].ignores for name in packages)


def runs_with(profile: Profile, offer: Offer, driver: int) -> bool:
    """Whether `driver` (0: not known) runs `offer`, which fits the machine otherwise."""
    if not driver or offer.target == CPU:
        return True
    return offer.driver <= driver < (too_new_driver(profile.gpu) or driver + 1)


def runs_code(hardware: Hardware, profile: Profile, gpu: str) -> bool:
    """Whether the machine's GPU runs code built for `gpu`."""
    return gpu != CPU and profile.gpu is not None and profile.gpu.runs_code_of(hardware.gpu(gpu))


def isa_order(hardware: Hardware, workload: Workload) -> list[str]:
    """Every ISA, best first: the one for the workload, then by the number of ISAs that they include.

    An ISA for another workload ranks directly after the one that it extends: its builds only serve that workload.
    """
    special = {one.isa for one in Workload if one.isa}

    def less_wanted(name: str) -> tuple[bool, int]:
        depth = 2 * len(hardware.runs([name]))
        return name != workload.isa, -(depth - 3 if name in special else depth)

    return sorted(hardware.isas, key=less_wanted)


def branch_order(spec: Spec, package: str) -> list[str]:
    """The branches with `package`, newest first: by toolkit, by the package's version, then in the spec's order."""
    names = [name for name in spec.branches if spec.packages[package].on(name)]
    return sorted(names, key=lambda name: _newness(spec, package, name), reverse=True)


def _newness(spec: Spec, package: str, name: str) -> tuple[tuple[int, int], tuple[int, ...]]:
    """The newest toolkit of a branch, and its version of `package`."""
    branch = spec.branches[name]
    newest = max((spec.hardware.toolkit(toolkit).version for toolkit in branch.toolkits), default=(0, 0))
    return newest, numbers(branch.versions.get(package, ""))


def branch_levels(spec: Spec, packages: Sequence[str]) -> dict[str, int]:
    """The places of the branches with `packages`, newest first; those of one toolkit and versions share a place."""
    order = dict.fromkeys(name for package in packages for name in branch_order(spec, package))
    known: dict[object, int] = {}
    return {
        name: known.setdefault(tuple(_newness(spec, package, name) for package in packages), at)
        for at, name in enumerate(order)
    }


def python_order(spec: Spec) -> list[str]:
    """The Python versions of the matrix, newest first."""
    return sorted(spec.pythons, key=numbers, reverse=True)
