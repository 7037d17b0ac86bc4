"""`.github/BUILD_MATRIX.md` of variants with any axes, families of accelerators and platforms.

Each accelerator has a table. Where an axis has many values, they are its columns; else each variant has a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ci_compiler.documents import build_choice, matrix_parts
from ci_compiler.documents.build_choice import NONE, code, codes
from ci_compiler.hardware.families import NONE as NO_FAMILY
from ci_compiler.plan.matrix import Cell, Variant, grammar_of
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.routing import Route
from ci_compiler.reports.install import install, shared_suffixes
from ci_compiler.spec.axes import PARTS
from ci_compiler.spec.model import Spec, in_build_order
from ci_compiler.stages import TestPolicy
from ci_compiler.units import counted, markdown_table, markdown_text
from ci_compiler.workflows.render import header

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan

TEMPLATE = Path(__file__).with_suffix(".md")
"""The document without its tables."""

_COLUMNS = 3
"""From so many values on, those of an axis may be the columns of a table."""

_FEW = 12
"""Up to so many variants, each has a row."""

Held = tuple[Cell, Variant]


def text(plan: Plan) -> str:
    """The document."""
    spec = plan.spec
    parts = list(zip(plan.judged.cells, plan.routes, strict=True))
    blocks = {
        "overview": _overview(plan),
        "axes": _axes(plan),
        "install": _install(plan),
        "variants": _variants(plan),
        "tests": _tests(plan, parts),
        "left_out": _left_out(plan),
    }
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        {name: "\n\n".join(found) for name, found in blocks.items()},
        mark=header(spec)[0].replace("--", "‐‐"),
        finder=matrix_parts.FINDER if spec.pages else "",
        costs=build_choice.costs(plan, gpu="an accelerator"),
        pools=matrix_parts.pool_table(spec, parts),
    )


def _held(plan: Plan) -> list[Held]:
    return [(cell, variant) for cell in plan.judged.cells for variant in cell.variants]


def _overview(plan: Plan) -> Iterator[str]:
    spec, held = plan.spec, _held(plan)
    here = [package.name for package in in_build_order(spec.packages) if package.repository is None]
    counts = counted(len(held), "variant"), counted(len(plan.shards), "workflow")
    branches = counted(len(spec.branches), "branch", "branches")
    yield f"**{counts[0]}** of {codes(here)} on {branches}, built by {counts[1]}."
    rows = [
        [
            code(name) if branch.publish else f"{code(name)}, not published",
            *(branch.versions.get(package, NONE) for package in here),
            sum(cell.branch == name for cell, _ in held),
            sum(shard.branch == name for shard in plan.shards),
        ]
        for name, branch in spec.branches.items()
    ]
    yield markdown_table(["branch", *here, "variants", "workflows"], rows, right=2)
    yield from build_choice.recalled_table(plan)


# Axes and names.


def title(axis: str) -> str:
    """An axis as a heading."""
    return "Python" if axis == "python" else axis


def accelerator(spec: Spec, axes: Mapping[str, str]) -> str:
    """The family and toolkit of a cell in words; '' if they are no part of it."""
    family = axes.get("family", "")
    return f"{spec.hardware.family(family).title if family else ''} {axes.get('toolkit', '')}".strip()


def _axes(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    grammar = grammar_of(spec)
    found: dict[str, dict[str, str]] = {}
    for cell in plan.judged.cells:
        axes = cell.axes
        parts = " ".join(axes[part] for part in PARTS if part in axes)
        for axis, tag in grammar.spellings(axes).items():
            found.setdefault(axis, {})[parts if axis == "accelerator" else axes[axis]] = tag
    rows = [[title(axis), codes(found[axis]), codes(found[axis].values())] for axis in grammar.axes if axis in found]
    yield markdown_table(["axis", "values", "in names"], rows)
    example = _held(plan)[0][1].name
    yield (
        f"A variant is named {code('-'.join(('PACKAGE', *grammar.parts)))}, without the parts that it has no value "
        f"for, as {code(example)}."
    )
    for axis, row in spec.axes.items():
        for value, others in row.serves.items():
            yield f"{code(value)} ({title(axis)}) serves {codes(others)}."
    if spec.settings:
        settings = [
            [code(name), code(row.value), markdown_text(str(row.when)) if row.when else "always"]
            for name, several in spec.settings.items()
            for row in several
        ]
        yield "These settings differ between variants without naming them; the first that applies counts:"
        yield markdown_table(["setting", "value", "when"], settings)


# How variants are installed.


def _install(plan: Plan) -> Iterator[str]:
    """How each package is built and installed; the commands are those of its first variant that is not recalled."""
    spec, shared = plan.spec, shared_suffixes(plan.judged.cells)
    needs = Needs(spec, plan.judged.cells)
    rows = []
    for package in in_build_order(spec.packages):
        own = [(cell, one) for cell, one in _held(plan) if one.package == package.name and one.name not in spec.recalls]
        if own:
            cell, one = own[0]
            lines = "<br>".join(map(code, install(needs, shared, cell, {package.name: one.name})))
            rows.append([code(package.name), code(package.source(one.name)), code(one.name), lines or NONE])
    yield markdown_table(["package", "built by", "for example", "installed by"], rows)


# The variants.


def _variants(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    for branch in spec.branches:
        sections: dict[str, list[Held]] = {}
        for cell, one in _held(plan):
            if cell.branch == branch and not cell.listed:
                sections.setdefault(accelerator(spec, cell.axes) or "For every accelerator", []).append((cell, one))
        for heading, held in sections.items():
            yield f"### {heading} on {branch}"
            suffixes = {cell.suffix for cell, _ in held}
            own = [shard for shard in plan.shards if shard.branch == branch]
            built = [shard for shard in own if any(cell.suffix in suffixes for cell, _ in shard.cells)]
            yield f"{counted(len(held), 'variant')}, built by {', '.join(map(matrix_parts.workflow, built))}."
            yield _table(plan, held)
        yield from matrix_parts.listed_table(plan, branch)


def _table(plan: Plan, held: Sequence[Held]) -> str:
    """The variants of one accelerator by the axes in which they differ."""
    values: dict[str, dict[str, None]] = {}
    for cell, one in held:
        for axis in ("package", *_own(held)):
            values.setdefault(axis, {})[one.package if axis == "package" else cell.axes.get(axis, "")] = None
    differ = [axis for axis, among in values.items() if len(among) > 1 or axis == "platform"]
    wide = max((axis for axis in differ if axis != "package"), key=lambda axis: len(values[axis]), default="")
    if not wide or len(values[wide]) < _COLUMNS or len(held) <= _FEW:
        return _rows(plan, held, differ)
    down = [axis for axis in differ if axis != wide]
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for cell, one in held:
        key = tuple(one.package if axis == "package" else cell.axes.get(axis, "") for axis in down)
        found.setdefault(key, {})[cell.axes.get(wide, "")] = _linked(plan, cell, one, one.package, hint=True)
    rows = [[*map(_shown, key), *(row.get(value, NONE) for value in values[wide])] for key, row in found.items()]
    return markdown_table([*map(title, down), *(f"{title(wide)} {value or NONE}" for value in values[wide])], rows)


def _own(held: Iterable[Held]) -> list[str]:
    """The axes of variants of one accelerator, in the order of their names."""
    every = dict.fromkeys(axis for cell, _ in held for axis in cell.axes)
    return [axis for axis in every if axis not in {"branch", "family", "toolkit"}]


def _rows(plan: Plan, held: Iterable[Held], differ: Sequence[str]) -> str:
    """A row for each variant."""
    rows = [
        [
            _linked(plan, cell, one, one.name),
            *(_shown(cell.axes.get(axis, "")) for axis in differ if axis != "package"),
        ]
        for cell, one in held
    ]
    return markdown_table(["variant", *(title(axis) for axis in differ if axis != "package")], rows)


def _shown(value: str) -> str:
    return code(value) if value else NONE


def _linked(plan: Plan, cell: Cell, one: Variant, shown: str, *, hint: bool = False) -> str:
    """A link to what builds a variant; with `hint`, the variant's name is shown over it."""
    target = f"{matrix_parts.blob(cell.branch)}/{plan.spec.packages[one.package].source(one.name)}"
    return matrix_parts.link(shown, f'{target} "{one.name}"' if hint else target)


# Tests.


def _tests(plan: Plan, parts: Sequence[tuple[Cell, Route]]) -> Iterator[str]:
    """What each test stage covers, by accelerator, and why the rest is published all the same."""
    spec = plan.spec
    for stage in (one for one in spec.stages if one.is_test):
        wanted = [(cell, route) for cell, route in parts if not stage.needs_gpu or cell.family not in {NO_FAMILY, ""}]
        if not wanted:
            continue
        yield f"### {stage.name}"
        if spec.tests[stage] is TestPolicy.NEVER:
            yield "The spec switches it off."
            continue
        rows = []
        groups: dict[str, list[tuple[Cell, Route]]] = {}
        for cell, route in wanted:
            groups.setdefault(accelerator(spec, cell.axes) or NONE, []).append((cell, route))
        for heading, among in groups.items():
            pools = [route.pools[stage].name for _, route in among if stage in route.pools]
            done = sum(len(cell.variants) for cell, route in among if stage in route.pools)
            rows.append([heading, codes(pools), f"{done:,} of {sum(len(cell.variants) for cell, _ in among):,}"])
        yield markdown_table(["accelerator", "pools", "variants tested"], rows, right=1)
        if any(stage in route.pools for _, route in wanted):
            yield from matrix_parts.imported_only(spec, stage)
        yield from matrix_parts.suites(spec, stage, wanted)
    yield from _untested(spec)
    yield from build_choice.expected_table(plan)


def _untested(spec: Spec) -> Iterator[str]:
    """Why packages are published without a test."""
    rows = [
        [code(package.name), code(pattern), markdown_text(reason)]
        for package in spec.packages.values()
        for pattern, reason in package.untested
    ]
    if rows:
        yield "These variants are published without a test where no pool tests them:"
        yield markdown_table(["package", "variants", "why"], rows)


# What is left out.


def _left_out(plan: Plan) -> Iterator[str]:
    """Each reason, with the number of variants and the values to which it is limited."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for left_out in plan.judged.left_out:
        groups.setdefault((left_out.package, left_out.reason), []).append(left_out.axes)
    if not groups:
        yield "Nothing that the spec selects."
        return
    every = [*(cell.axes for cell in plan.judged.cells), *(axes for several in groups.values() for axes in several)]
    yield "What the spec selects and the fleet does not hold (`ci-compile variants --left-out` lists each):"
    rows = []
    for (package, reason), several in groups.items():
        where = []
        for axis in dict.fromkeys(axis for axes in several for axis in axes):
            values = dict.fromkeys(axes.get(axis, "") for axes in several)
            if set(values) != {axes.get(axis, "") for axes in every}:
                where.append(f"{title(axis)} {codes(filter(None, values))}")
        rows.append([package or "all", "; ".join(where) or "all", markdown_text(reason), len(several)])
    yield markdown_table(["package", "where", "why", "variants"], rows, right=1)
