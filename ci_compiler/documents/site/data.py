"""The data of the finder page: the plan, the answers and the hardware tables as one JSON value, which its scripts read.

Cells, routes and what is left out are rows of the plan's document (`plan.document`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ci_compiler.documents.site.tables import Rows, Tables
from ci_compiler.hardware import Hardware, products
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.machine import missing_flags
from ci_compiler.hardware.pasted import forms, tools
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.document import axes_row, left_out_row, route_row
from ci_compiler.plan.expected import as_row, expected_failures
from ci_compiler.plan.matrix import Cell, version_in
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.proof import is_imported_only
from ci_compiler.plan.releases import dnn_of
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.recipes.work_arounds import switched_off
from ci_compiler.reports import reasons
from ci_compiler.reports.evidence import Proofs, proofs
from ci_compiler.reports.install import install, shared_suffixes, verify, whole
from ci_compiler.reports.offers import needed_driver, python_order, recalled
from ci_compiler.reports.select import rarest
from ci_compiler.spec.model import Package, Spec, in_build_order
from ci_compiler.stages import stages, stages_that_test
from ci_compiler.variant import RECIPES

if TYPE_CHECKING:
    from ci_compiler.github.benchmarks import LastBenchmark  # PyGithub is slow to import
    from ci_compiler.github.status import LastBuild
    from ci_compiler.plan.records import Key, Records

_SENTENCES = (
    "where-branch", "where-python", "need-branch", "need-python", "need-isa", "isa-undecided", "isa-portable",
    "whole-lacks", "and",
)  # fmt: skip
"""Sentences that mention what the user asks for, so the tables cannot contain them filled in."""


def data(
    plan: Plan,
    repository: str = "",
    lasts: Iterable[LastBuild] = (),
    measured: Iterable[LastBenchmark] = (),
    records: Records | None = None,
    sboms: Mapping[Key, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The page's data: `repository` is the `OWNER/NAME` on GitHub for its links, the others as in `page`."""
    spec = plan.spec
    known = proofs(spec, plan.judged.cells, plan.routes, records)
    return {
        "repository": repository,
        "recipes": RECIPES,
        "workflows": FOLDER,
        "stages": [stage.name for stage in spec.stages],
        **_hardware(spec.hardware),
        "workloads": {workload.value: workload.label for workload in Workload},
        "names": products.as_data(spec.hardware),
        "tools": {name: form for name, form in tools().items() if name not in {"source", "no-driver"}}
        | {"gpu": forms(spec.hardware)}
        | {"arm-cpu": spec.hardware.systems["aarch64-linux"].undecided},
        "about": dict(zip(("text", "url"), spec.backend.about, strict=True)),
        "family": {"toolkit": family_of(DEFAULT).toolkit, "dnn": family_of(DEFAULT).dnn},
        "lead": rarest(spec, plan.judged.cells),
        "branch_order": list(spec.branches),
        "branches": {
            name: {"toolkits": list(branch.toolkits), "versions": dict(branch.versions)}
            for name, branch in spec.branches.items()
        },
        "packages": {
            package.name: {
                "title": package.title,
                "here": package.repository is None,
                **({"script": package.command.build} if package.command else {}),
                **({"imported_only": only} if (only := _imported_only(spec, package)) else {}),
            }
            for package in in_build_order(spec.packages)
        },
        "pythons": python_order(spec),
        "axis": list(spec.gpus),
        **_cells(plan, lasts, measured, known, sboms),
        "pools": {pool.name: str(pool.runs_on) for pool in spec.pools},
        "left_out": list(_left_out(plan)),
        "sentences": {key: reasons.say(key) for key in _SENTENCES},
        **Tables(spec, plan.judged.cells, known).as_data(),
    }


def _imported_only(spec: Spec, package: Package) -> list[str]:
    """The stages that prove of `package` only that it can be imported."""
    return [stage.name for stage in stages() if is_imported_only(spec, package, stage)]


def _hardware(hardware: Hardware) -> dict[str, Any]:
    return {
        "systems": {system.name: system.title for system in hardware.systems.values()},
        "gpuless": [system for system in hardware.systems if not hardware.gpus_of(system)],
        "undecided": sorted(hardware.runs(system.undecided for system in hardware.systems.values())),
        "aliases": dict(hardware.aliases),
        "isas": {
            isa.name: {
                "title": isa.title,
                "system": isa.system,
                "flags": list(missing_flags(hardware, isa.name, ())),
                "cpus": isa.cpus,
                "runs": sorted(hardware.runs([isa.name])),
            }
            for isa in hardware.isas.values()
        },
        "gpus": {
            gpu.name: {"architecture": gpu.architecture, "summary": gpu.summary, "products": list(gpu.products)}
            for gpu in products.known_gpus(hardware).values()
        },
    }


def _cells(
    plan: Plan,
    lasts: Iterable[LastBuild],
    measured: Iterable[LastBenchmark],
    known: Proofs,
    sboms: Mapping[Key, str],
) -> dict[str, Any]:
    """The cells, and the rows that they share: their routes and their commands."""
    shards = {(cell.branch, cell.suffix): shard.name for shard in plan.shards for cell, _ in shard.cells}
    shared, needs = shared_suffixes(plan.judged.cells), Needs(plan.spec, plan.judged.cells)
    routes, installs, verified, without, dnn = Rows(), Rows(), Rows(), Rows(), Rows()
    gains = {
        (benchmark.cell.branch, benchmark.variant.name): _gain(benchmark)
        for benchmark in measured
        if benchmark.result.gains
    }
    proved = Rows()
    runs, last = Rows(), {(build.cell.branch, build.variant.name): _last(build) for build in lasts if build.stages}
    cells = [
        {
            **{axis: value for axis, value in axes_row(cell).items() if axis != "axes" or _has_more(cell)},
            "packages": [variant.package for variant in cell.variants],
            "driver": needed_driver(plan.spec, cell, None),
            "install": installs.index(_installs(needs, cell, shared)),
            "verify": verified.index(_verified(plan.spec, cell)),
            **({"without": without.index(lacks)} if any((lacks := _lacks(plan.spec, cell)).values()) else {}),
            **_held("versions", _local_versions(plan.spec, cell)),
            **_held("recalled", _recalls(plan.spec, cell)),
            **_held("expected", _expected(plan.spec, cell)),
            **({"dnn": dnn.index(has)} if any((has := _dnn(plan.spec, cell)).values()) else {}),
            **_held("last", {package: runs.index(row) for package, row in _known(cell, last).items()}),
            **_held("measured", _known(cell, gains)),
            **_held("sboms", _known(cell, sboms)),
            "shard": shards[cell.branch, cell.suffix],
            "route": routes.index(route_row(route)),
            "evidence": _evidence(proved, cell, known),
            "tested": _tested(cell, known),
        }
        for cell, route in zip(plan.judged.cells, plan.routes, strict=True)
    ]
    tables = {"routes": routes, "installs": installs, "verify": verified, "lasts": runs}
    tables |= {"without": without, "dnn": dnn, "evidence": proved}
    return {"cells": cells, **{name: table.rows for name, table in tables.items()}}


def _evidence(rows: Rows, cell: Cell, known: Proofs) -> int | dict[str, int]:
    """The row of what tests say of the packages of `cell`: by package where it differs."""
    own = {variant.package: known[cell.branch, variant.name] for variant in cell.variants}
    at = {
        package: rows.index({"tests": one.verdict, "tested": one.tested, "untested": one.untested})
        for package, one in own.items()
    }
    return at if len(set(at.values())) > 1 else next(iter(at.values()))


def _tested(cell: Cell, known: Proofs) -> list[str]:
    """The test stages that all variants of `cell` passed or, without a history, that a pool runs."""
    own = [known[cell.branch, variant.name].stages for variant in cell.variants]
    return [stage.name for stage in stages_that_test() if all(stage.name in names for names in own)]


def _left_out(plan: Plan) -> Iterator[dict[str, Any]]:
    """What is left out; with the values of all axes, where the other fields leave some out."""
    for left_out in plan.judged.left_out:
        row = left_out_row(plan.spec, left_out)
        axes = row.pop("axes")
        yield row | ({"axes": axes, "opened": True} if not left_out.is_usual else {})


def _has_more(cell: Cell) -> bool:
    """Whether the page says the values of `cell` axis by axis."""
    return not (cell.is_usual or cell.listed)


def _held(key: str, value: object) -> dict[str, object]:
    """An entry of a cell, which is left out if it is empty."""
    return {key: value} if value else {}


def _known(cell: Cell, rows: Mapping[Key, Any]) -> dict[str, Any]:
    """The row of each package of the cell that has one."""
    return {variant.package: row for variant in cell.variants if (row := rows.get((cell.branch, variant.name)))}


def _last(one: LastBuild) -> dict[str, Any]:
    """The last result of a variant: of each stage that ran, with the run and its start."""
    return {"result": one.result.value, "stages": dict(one.stages), "run": one.url, "started": one.started}


def _gain(one: LastBenchmark) -> dict[str, str]:
    """What a benchmark found, in words, with the machine, the run and its start."""
    return {"says": str(one.result), "machine": one.result.machine, "run": one.url, "started": one.started}


def _lacks(spec: Spec, cell: Cell) -> dict[str, tuple[str, ...]]:
    """What is switched off in each package of `cell`."""
    return {variant.package: switched_off(spec, cell, variant.package) for variant in cell.variants}


def _recalls(spec: Spec, cell: Cell) -> dict[str, str]:
    """Why each recalled package of `cell` must not be installed."""
    return {variant.package: because for variant in cell.variants if (because := recalled(spec, cell.branch, variant))}


def _expected(spec: Spec, cell: Cell) -> dict[str, list[dict[str, str]]]:
    """The test stages of each package of `cell` that are expected to fail."""
    found = {variant.package: expected_failures(spec, variant.name, cell.branch).values() for variant in cell.variants}
    return {package: list(map(as_row, entries)) for package, entries in found.items() if entries}


def _dnn(spec: Spec, cell: Cell) -> dict[str, str]:
    """The version of the vendor's library for neural networks in each package of `cell`."""
    return {variant.package: dnn_of(spec, cell, variant.package) for variant in cell.variants}


def _local_versions(spec: Spec, cell: Cell) -> dict[str, str]:
    """The versions of the packages of `cell` that have a local part, and so are not those of the branch."""
    found = {variant.package: version_in(spec, cell, variant) for variant in cell.variants}
    return {
        name: version for name, version in found.items() if version != spec.branches[cell.branch].versions.get(name, "")
    }


def _installs(needs: Needs, cell: Cell, shared: set[str]) -> dict[str, str]:
    """The commands that install each package of `cell`, and all (''), with `{suffix}` in place of its suffix."""
    return {
        package: "\n".join(install(needs, shared, cell, names)).replace(cell.suffix, "{suffix}")
        for package, names in _choices(needs.spec, cell).items()
    }


def _verified(spec: Spec, cell: Cell) -> dict[str, str]:
    """The commands that prove that each package of `cell`, and all (''), work, as `_installs` has them."""
    return {
        package: "\n".join(verify(spec, cell, names)).replace(cell.suffix, "{suffix}")
        for package, names in _choices(spec, cell).items()
    }


def _choices(spec: Spec, cell: Cell) -> dict[str, dict[str, str]]:
    """What users may install of `cell`: each package, and all of them (''), as names by package."""
    return {variant.package: {variant.package: variant.name} for variant in cell.variants} | {"": whole(spec, cell)}
