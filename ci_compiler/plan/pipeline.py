"""From the spec to the compiled files: each step is a pure function of immutable values.

1. `spec.build`: YAML to a `Spec`, checked against the JSON Schema; every name in it is known.
2. `matrix`: the axes multiplied out to candidates.
3. `rules`: candidates sorted into cells that are built and cells that are left out, with reasons.
4. `routing`: a pool for every stage of every cell.
5. `sharding`: cells grouped into files within GitHub's limits. `job_graph` sorts the cells of each file so that a run
   ends sooner.
6. `workflows.render`: the text of every file.

Reading the spec and writing the files happen outside, in `spec.load` and `files.drift`.

Rows of suites that have values of the variants' axes are bound to the variants that they install. `serves` decides
that, as it does for needs: a row may ask for a Python or a toolkit for which nothing is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import with_cells_ordered
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs, serves
from ci_compiler.plan.proof import untested_findings
from ci_compiler.plan.routing import Route, route
from ci_compiler.plan.rules import Judged, errors_among, judge
from ci_compiler.plan.sharding import Shard, shards
from ci_compiler.spec.axes import AXES, PARTS, Accelerator
from ci_compiler.spec.model import Package, Spec
from ci_compiler.spec.open_references import target_findings
from ci_compiler.spec.suites import Suite

_Held = tuple[Cell, Variant]


def with_rows(spec: Spec, cells: Iterable[Cell]) -> tuple[Spec, tuple[Finding, ...]]:
    """`spec` with each row of a suite bound to the variants that it installs, and an error for each that none serves.

    A row that names no axis of variants, or just the target of the machine, runs for every variant.
    """
    if not any(package.suites for package in spec.packages.values()):
        return spec, ()
    if not any(installed(spec, suite) for package in spec.packages.values() for suite in package.suites.values()):
        return spec, ()
    needs, findings, packages = Needs(spec, cells), list[Finding](), {}
    for name, package in spec.packages.items():
        suites = {}
        for key, suite in package.suites.items():
            wanted = installed(spec, suite)
            found = _nearest(needs, package, suite, wanted) if wanted else []
            if wanted and (problem := _problem(needs, package, suite, wanted, found)):
                path = ("packages", name, "suites", suite.declared_as, "matrix")
                findings.append(spec.finding(path, Code.WRONG_TEST, problem))
            bound = frozenset((cell.branch, variant.name) for cell, variant in found)
            suites[key] = replace(suite, installs=bound) if wanted else suite
        packages[name] = replace(package, suites=suites)
    return replace(spec, packages=packages), tuple(findings)


def installed(spec: Spec, suite: Suite) -> Mapping[str, str]:
    """What the variant that `suite` installs must serve, by axis; {} for a suite that runs for every variant."""
    values = {axis: value for axis, value in suite.values.items() if axis in {*AXES, *PARTS, *spec.axes}}
    own = Accelerator.parse(values.pop("accelerator")) if "accelerator" in values else None
    if own and (values or own.toolkit):
        values |= {part: value for part, value in zip(PARTS, own, strict=True) if value}
    return values


def _held(needs: Needs, package: Package, suite: Suite) -> Iterator[_Held]:
    """The variants of `package` that the stage of `suite` runs for."""
    for branch in needs.spec.branches:
        for cell, variant in needs.holding(branch, package.name):
            if cell.target != CPU or not suite.stage.needs_gpu:
                yield cell, variant


def _nearest(needs: Needs, package: Package, suite: Suite, wanted: Mapping[str, str]) -> list[_Held]:
    """On each branch, the variants of `package` that serve `wanted`, and of those the ones with most equal values.

    Variants that differ only on the axes of `wanted` are interchangeable for it. Of those, the one that serves the
    fewest values is the nearest, then the first of the matrix. Others are results of their own, and each is tested.
    """
    spec, held = needs.spec, list(_held(needs, package, suite))
    able = [(cell, variant) for cell, variant in held if not _unserved(spec, cell, wanted)]
    most: dict[str, int] = {}
    for cell, _ in able:
        most[cell.branch] = max(_alike(cell, wanted), most.get(cell.branch, 0))
    nearest: dict[tuple[str, frozenset[tuple[str, str]]], _Held] = {}
    near = (held for held in able if _alike(held[0], wanted) == most[held[0].branch])
    for cell, variant in sorted(near, key=lambda held: _breadth(spec, held[0], wanted)):
        others = frozenset((axis, value) for axis, value in cell.conditions.items() if axis not in wanted)
        nearest.setdefault((cell.branch, others), (cell, variant))
    return list(nearest.values())


def _breadth(spec: Spec, cell: Cell, wanted: Mapping[str, str]) -> int:
    """How many values `cell` serves on the axes of `wanted`, of those that the spec and the hardware know."""
    count = 0
    for axis in wanted:
        row, value = spec.axes.get(axis), cell.conditions.get(axis, "")
        known = {served for values in row.serves.values() for served in values} if row else set[str]()
        count += sum(serves(spec, axis, value, served) for served in known.union(spec.hardware.gpus))
    return count


def _alike(cell: Cell, wanted: Mapping[str, str]) -> int:
    return sum(wanted.get(axis) == value for axis, value in cell.conditions.items())


def _unserved(spec: Spec, cell: Cell, wanted: Mapping[str, str]) -> list[str]:
    """The axes on which `cell` does not serve `wanted`."""
    values = cell.conditions
    return [axis for axis, value in wanted.items() if not serves(spec, axis, values.get(axis, ""), value)]


def _problem(needs: Needs, package: Package, suite: Suite, wanted: Mapping[str, str], found: Iterable[_Held]) -> str:
    shown = f"packages.{package.name}.suites.{suite.name}"
    if found:
        return ""
    row = ", ".join(f"{axis} {value}" for axis, value in wanted.items())
    held = [(_unserved(needs.spec, cell, wanted), cell, variant) for cell, variant in _held(needs, package, suite)]
    if not held:
        return f"{shown} has a row for {row}, and no variant of {package.name} is built that it could install"
    axes, cell, variant = min(held, key=lambda one: (len(one[0]), -_alike(one[1], wanted)))
    lacks = " and ".join(f"{axis} {cell.conditions[axis]} does not serve {wanted[axis]}" for axis in axes)
    return (
        f"{shown} has a row for {row}, which no variant of {package.name} serves; the nearest is {variant.name}, whose "
        f"{lacks} (`axes: {{{axes[0]}: {{serves: …}}}}` says what does)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All decisions about a spec: its cells, what is left out, the routes, the shards, and warnings."""

    spec: Spec
    judged: Judged
    routes: tuple[Route, ...]
    shards: tuple[Shard, ...]
    warnings: tuple[Finding, ...]


def plan(spec: Spec) -> Plan:
    """The plan for `spec`. Raises InputError with all errors of its matrix, routes and shards."""
    judged = judge(spec)
    spec, wrong_rows = with_rows(spec, judged.cells)
    routes, found = route(spec, judged.cells)
    findings = (*judged.findings, *wrong_rows, *found)
    if spec.expected_failures:
        from ci_compiler.plan.expected import unused_findings  # most specs expect none

        findings += tuple(unused_findings(spec, judged.cells, routes))
    findings += tuple(target_findings(spec))
    findings += tuple(untested_findings(spec, zip(judged.cells, routes, strict=True)))
    if not spec.backend.has_recipes:
        from ci_compiler.plan.addresses import address_findings  # recipes are published by name

        findings += tuple(address_findings(spec, zip(judged.cells, routes, strict=True)))
    if any(pool.hosted for pool in spec.pools):
        from ci_compiler.plan.hosted_rules import hosted_findings  # most specs have machines of their own

        findings += tuple(hosted_findings(spec, zip(judged.cells, routes, strict=True)))
    if errors := errors_among(findings):
        raise InputError(sorted(errors, key=lambda finding: finding.place))
    made = with_cells_ordered(spec, shards(spec, judged.cells, routes))
    return Plan(spec=spec, judged=judged, routes=routes, shards=made, warnings=findings)
