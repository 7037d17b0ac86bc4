"""All that the page knows: the plan and the tables as one JSON value, which the page's scripts read."""

from __future__ import annotations

from typing import Any

from ci_compiler.hardware import Hardware, products
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.reports.install import cache_options, with_needs
from ci_compiler.reports.select import branch_order, isa_order, python_order, sentences
from ci_compiler.spec.model import TESTS, RunsOn, Spec, Stage, in_build_order
from ci_compiler.variant import RECIPES


def data(plan: Plan, repository: str = "") -> dict[str, Any]:
    """The page's data. `repository` is the `OWNER/NAME` on GitHub that its links lead to; '' for no links."""
    spec = plan.spec
    routes = _Routes()
    shards = {(cell.branch, cell.suffix): shard.name for shard in plan.shards for cell, _ in shard.cells}
    parts = zip(plan.judged.cells, plan.routes, strict=True)
    return {
        "repository": repository,
        "spec": spec.document.file,
        "owner": spec.owner,
        "backend": spec.backend.value,
        "cache": cache_options(spec),
        "recipes": RECIPES,
        "workflows": FOLDER,
        "stages": [stage.value for stage in Stage],
        **_hardware(spec.hardware),
        "workloads": {
            one.value: {"title": one.label, "words": one.words, "isa": one.isa, "order": isa_order(spec.hardware, one)}
            for one in Workload
        },
        "sentences": dict(sentences()),
        "names": products.as_data(),
        "branch_order": list(spec.branches),
        "branches": {name: _branch(spec, name) for name in spec.branches},
        "package_order": [package.name for package in in_build_order(spec.packages)],
        "packages": {
            name: {"title": package.title, "here": package.repository is None, "with_needs": with_needs(spec, name)}
            for name, package in spec.packages.items()
        },
        "newest": {name: branch_order(spec, name) for name in spec.packages},
        "pythons": python_order(spec),
        "axis": [axis.name for axis in spec.matrix.gpus],
        "cells": [_cell(cell, route, shards[cell.branch, cell.suffix], routes) for cell, route in parts],
        "routes": routes.rows,
        "left_out": [
            {"branch": one.branch, "gpu": one.gpu, "isa": one.isa, "python": one.python, "package": one.package}
            | {"reason": one.reason}
            for one in plan.judged.left_out
        ],
    }


def _hardware(hardware: Hardware) -> dict[str, Any]:
    return {
        "systems": {system.name: system.title for system in hardware.systems.values()},
        "aliases": dict(hardware.aliases),
        "isas": {
            isa.name: {
                "title": isa.title,
                "system": isa.system,
                "cpuinfo": list(isa.cpuinfo),
                "cpus": isa.cpus,
                "runs": sorted(hardware.runs([isa.name])),
            }
            for isa in hardware.isas.values()
        },
        "gpus": {
            gpu.name: {
                "name": gpu.name,
                "capability": list(gpu.capability),
                "architecture": gpu.architecture,
                "summary": gpu.summary,
                "products": list(gpu.products),
                "systems": list(gpu.systems),
                "driver": gpu.driver,
                "runs": [other.name for other in hardware.gpus.values() if gpu.runs_cubin_of(other)],
            }
            for gpu in hardware.gpus.values()
        },
    }


def _branch(spec: Spec, name: str) -> dict[str, Any]:
    branch = spec.branches[name]
    return {
        "cuda": branch.cuda,
        "driver": spec.hardware.toolkit(branch.cuda).lowest_driver,
        "nixpkgs": branch.nixpkgs,
        "versions": dict(branch.versions),
    }


def _cell(cell: Cell, route: Route, shard: str, routes: _Routes) -> dict[str, Any]:
    return {
        "branch": cell.branch,
        "python": cell.python,
        "gpu": cell.gpu,
        "isa": cell.isa,
        "suffix": cell.suffix,
        "packages": [variant.package for variant in cell.variants],
        "shard": shard,
        "route": routes.index(route),
        "tested": [stage.value for stage in TESTS if stage in route.pools],
    }


class _Routes:
    """The ways of the cells, each once, since most go the same: the pool of each stage, or why none runs it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, dict[str, str]]] = []
        self._known: dict[int, int] = {}

    def index(self, route: Route) -> int:
        """Where the row of `route` stands."""
        if id(route) not in self._known:
            self._known[id(route)] = len(self.rows)
            ran = {
                stage.value: {"pool": pool.name, "labels": _labels(pool.runs_on)} for stage, pool in route.pools.items()
            }
            self.rows.append(ran | {stage.value: {"reason": reason} for stage, reason in route.skipped.items()})
        return self._known[id(route)]


def _labels(where: RunsOn) -> str:
    return where.scale_set or ", ".join(where.labels) or where.group
