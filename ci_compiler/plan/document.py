"""The plan as a public document: what `ci-compile plan --json` prints, and every other list of its rows in JSON.

`document.toml` declares each kind of row with its keys; the JSON Schema (`plan_schema`) and the order of the keys
follow from it. A reader needs nothing but the document: rows refer to one another by name. An incompatible change
raises `VERSION`; a new key does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.plan.joins import Build, builds
from ci_compiler.plan.matrix import Cell, Variant, version_in
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import LeftOut
from ci_compiler.plan.sharding import Shard, waits_for
from ci_compiler.plan.suites import bench_of, suites_of
from ci_compiler.register import url
from ci_compiler.spec.edges import GATHERS, NEEDS
from ci_compiler.spec.model import Package, Spec
from ci_compiler.stages import Stage, StageKind, TestPolicy, stages
from ci_compiler.variant import variant_name

VERSION = 2
"""The version of the document's format."""

Row = dict[str, Any]
"""A row as plain JSON."""

AXES = ("branch", "python", "family", "toolkit", "target", "isa", "system", "listed", "suffix", "axes")
"""The keys of a cell that the row of a variant has, too."""


def renamed() -> tuple[str, str]:
    """The first version of ci-compiler that writes this version of the document, and what its readers must change."""
    row = _rows()["renamed"]
    return row["since"], row["description"]


@cache
def _rows() -> Mapping[str, Any]:
    import tomllib  # most commands do not need it

    return tomllib.loads(Path(__file__).with_name("document.toml").read_text("utf-8"))


def plan_schema() -> Row:
    """The JSON Schema (draft 2020-12) of the document."""
    closed = {"type": "object", "additionalProperties": False}
    rows = {
        name: {"description": row["description"], **closed, "required": list(row["properties"]), **row}
        for name, row in _rows().items()
        if "properties" in row
    }
    known = {
        ("plan", "version"): {"const": VERSION},
        ("stage", "kind"): {"enum": list(StageKind)},
        ("stage", "policy"): {"enum": list(TestPolicy)},
    }
    for (name, key), rule in known.items():
        rows[name]["properties"] = rows[name]["properties"] | {key: rule | rows[name]["properties"][key]}
    root = rows.pop("plan") | {"title": "the plan of ci-compiler"}
    definitions = rows | {"stage-name": {"enum": [stage.name for stage in stages()]}}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | root | {"$defs": dict(sorted(definitions.items()))}


def document(plan: Plan, branch: str | None = None) -> Row:
    """The document of `plan`; with `branch`, its branches, shards and left-out rows are those of this branch."""
    spec, needs = plan.spec, Needs(plan.spec, plan.judged.cells)
    return _row(
        "plan",
        version=VERSION,
        spec=_row("spec", spec.document, spec, backend=spec.backend.name),
        branches=[
            _row("branch", other, toolkits=tuple(other.toolkits))
            for other in spec.branches.values()
            if branch in {None, other.name}
        ],
        packages=[
            _row("package", package, repository=package.repository.name if package.repository else "")
            for package in spec.packages.values()
        ],
        pools=[_row("pool", pool.runs_on, pool) for pool in spec.pools],
        stages=[_stage(spec, stage) for stage in spec.stages],
        shards=[_shard(needs, shard) for shard in plan.shards if branch in {None, shard.branch}],
        builds=[
            _row(
                "build",
                build,
                variants=tuple(variant.name for _, variant in build.variants),
                edges=_edges(needs, build),
            )
            for build in builds(plan.judged.cells)
            if branch in {None, build.branch}
        ],
        tests=[row for row in _tests(plan) if branch in {None, row["branch"]}],
        left_out=[
            left_out_row(spec, left_out) for left_out in plan.judged.left_out if branch in {None, left_out.branch}
        ],
        warnings=[
            _row("warning", finding, url=url(finding.code), place=str(finding.place)) for finding in plan.warnings
        ],
    )


def _tests(plan: Plan) -> Iterator[Row]:
    """Each test of each variant: a stage or a suite, and the pool that runs it."""
    for cell, route in zip(plan.judged.cells, plan.routes, strict=True):
        pools = {stage.name: pool for stage, pool in route.pools.items() if stage.is_test}
        for variant in cell.variants:
            suites = suites_of(plan.spec, cell, variant)
            ran = {f"suite {suite.name}": route.suites.get(bench_of(suite)) for suite in suites}
            for test, pool in {**pools, **ran}.items():
                if pool:
                    yield _row("test", name=test, variant=variant.name, branch=cell.branch, pool=pool.name)


def variant_row(needs: Needs, cell: Cell, variant: Variant) -> Row:
    """A variant together with the axes of its cell: an entry in a list of variants. `needs` has all cells."""
    return {**_variant(needs, cell, variant), **axes_row(cell)}


def axes_row(cell: Cell) -> Row:
    """The values of `cell` on the axes of the matrix, and the suffix of its variants' names."""
    return {axis: _plain(getattr(cell, axis)) for axis in AXES}


def route_row(route: Route) -> Row:
    """The pool of each stage, or why none runs it, in the order of the stages."""
    rows = {stage: pool.name for stage, pool in route.pools.items()} | {
        stage: _row("skipped", skipped=reason) for stage, reason in route.skipped.items()
    }
    return {stage.name: rows[stage] for stage in stages() if stage in rows}


def suites_row(route: Route) -> Row:
    """The pool of each job of test suites, or why none runs it."""
    skipped = {bench.job: _row("skipped", skipped=reason) for bench, reason in route.skipped_suites.items()}
    return {bench.job: pool.name for bench, pool in route.suites.items()} | skipped


def left_out_row(spec: Spec, left_out: LeftOut) -> Row:
    """The row of a part of the matrix that is left out."""
    return _row("left-out", left_out, url=url(left_out.code), place=str(spec.place(*left_out.path)))


def _row(kind: str, /, *sources: object, **own: Any) -> Row:
    """A row of this kind: each value is the one in `own`, else the attribute with the key's name that a source has."""
    names = {key: key.replace("-", "_") for key in _rows()[kind]["properties"]}
    found = {name: getattr(one, name) for one in sources for name in names.values() if hasattr(one, name)} | own
    return {key: _plain(found[name]) for key, name in names.items()}


def _plain(value: Any) -> Any:
    """A value of a row as plain JSON."""
    if isinstance(value, Stage):
        return value.name
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def _stage(spec: Spec, stage: Stage) -> Row:
    policy = spec.tests.get(stage, TestPolicy.REQUIRED)
    return _row("stage", stage, policy=policy, waits_for=waits_for(spec, stage), timeout=spec.timeouts[stage])


def _shard(needs: Needs, shard: Shard) -> Row:
    cells = [
        _row(
            "cell",
            cell,
            job=shard.job_name(cell),
            route=route_row(route),
            suites=suites_row(route),
            beside=route.neighbours,
            variants=[_variant(needs, cell, variant) for variant in cell.variants],
        )
        for cell, route in shard.cells
    ]
    return _row("shard", shard, cells=cells)


def _variant(needs: Needs, cell: Cell, variant: Variant) -> Row:
    spec = needs.spec
    package = spec.packages[variant.package]
    return _row(
        "variant",
        variant,
        version=version_in(spec, cell, variant),
        recipe=package.source(variant.name),
        needs=tuple(_needed(needs, cell, package)),
        gathers=tuple(link.variant.name for link in needs.links(cell, variant.package) if link.kind == GATHERS),
        build=cell.joined or variant.name,
    )


def _needed(needs: Needs, cell: Cell, package: Package) -> Iterator[str]:
    """The names of the variants that the one of `package` in `cell` needs, also those of other repositories."""
    elsewhere = (need for need in package.needs if needs.spec.packages[need].repository is not None)
    names = [link.variant.name for link in needs.links(cell, package.name) if link.kind == NEEDS]
    yield from dict.fromkeys([*names, *(variant_name(need, cell.suffix) for need in elsewhere if not cell.listed)])


def _edges(needs: Needs, build: Build) -> tuple[Row, ...]:
    rows: dict[tuple[str, str], Row] = {}
    for cell, variant in build.variants:
        for link in needs.links(cell, variant.package):
            made = link.cell.joined or link.variant.name
            if made != build.name:
                key = (link.kind, link.variant.name)
                rows[key] = _row("edge", kind=link.kind, variant=link.variant.name, build=made)
    return tuple(rows.values())
