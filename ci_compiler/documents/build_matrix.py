"""`.github/BUILD_MATRIX.md`: the build matrix for readers, with every number computed from the plan.

The file is the same on every branch, so a link to a recipe names the branch (`../../../blob/BRANCH/...`: on GitHub,
three folders up from `.github` is the repository). A link to a workflow is relative. All text from the spec is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ci_compiler.documents import build_choice
from ci_compiler.documents.build_choice import NONE, code, codes, recalled_table
from ci_compiler.documents.matrix_parts import (
    FINDER,
    blob,
    holds,
    imported_only,
    link,
    listed_table,
    pool_table,
    suites,
    workflow,
)
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.releases import dnn_of
from ci_compiler.plan.routing import Route
from ci_compiler.spec.model import Branch, Spec, in_build_order
from ci_compiler.stages import Stage, TestPolicy
from ci_compiler.units import counted, markdown_table, markdown_text
from ci_compiler.variant import recipe_path
from ci_compiler.workflows.render import header

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan

PATH = ".github/BUILD_MATRIX.md"

TEMPLATE = Path(__file__).with_suffix(".md")
"""The document without its tables."""

_FAMILY = family_of(DEFAULT)


def text(plan: Plan) -> str:
    """The document."""
    if not all(cell.is_usual or cell.listed for cell in plan.judged.cells):
        from ci_compiler.documents import open_matrix  # most fleets do not need it

        return open_matrix.text(plan)
    spec, cells = plan.spec, plan.judged.cells
    parts = list(zip(cells, plan.routes, strict=True))
    blocks = {
        "overview": _overview(plan),
        "matrix": _matrix(plan),
        "tests": [
            *(block for stage in spec.stages if stage.is_test for block in _test(spec, stage, parts)),
            *build_choice.expected_table(plan),
        ],
        "left_out": _left_out(plan),
        "defaults": build_choice.defaults(plan),
        "without": build_choice.without(plan),
    }
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        {name: "\n\n".join(found) for name, found in blocks.items()},
        mark=header(spec)[0].replace("--", "‐‐"),
        example=next((cell for cell in cells if cell.target != CPU), cells[0]).variants[0].name,
        finder=FINDER if spec.pages else "",
        sources=" ".join(_sources(spec)),
        source="recipe" if spec.backend.has_recipes else "build script",
        gpus=build_choice.gpu_table(plan),
        isas=build_choice.isa_table(plan),
        costs=build_choice.costs(plan),
        pools=pool_table(spec, parts),
    )


# Branches.


def _sources(spec: Spec) -> Iterator[str]:
    """What builds the variants, and how a user installs them: recipes, or the commands of each package."""
    if spec.backend.has_recipes:
        yield f"Its recipe is `{recipe_path('NAME')}` on its branch."
    for package in spec.packages.values():
        if package.command:
            script, line = code(package.command.build), code(package.command.install)
            yield f"{code(package.name)} is built by {script} and installed by {line}."


def _variants(cells: Iterable[Cell]) -> int:
    return sum(len(cell.variants) for cell in cells)


def _overview(plan: Plan) -> Iterator[str]:
    spec, cells = plan.spec, plan.judged.cells
    here = [package for package in in_build_order(spec.packages) if package.repository is None]
    yield (
        f"**{counted(_variants(cells), 'variant')}** of {codes(package.name for package in here)}: "
        f"{counted(len(cells), 'cell')} (branch × Python × GPU × instruction set) on "
        f"{counted(len(spec.branches), 'branch', 'branches')}, built by {counted(len(plan.shards), 'workflow')}."
    )
    packages = [package.name for package in here]
    rows = [row for name in spec.branches for row in _branch_rows(plan, name, packages)]
    if len(rows) > 1:
        rows.append(["all", *[""] * (4 + len(packages)), len(cells), _variants(cells), len(plan.shards)])
    headers = ["branch", _FAMILY.toolkit, _FAMILY.dnn, "driver", "nixpkgs", *packages, "cells", "variants", "workflows"]
    yield markdown_table(headers, rows, right=3)
    yield from recalled_table(plan)


def _branch_rows(plan: Plan, name: str, packages: Iterable[str]) -> Iterator[list[object]]:
    """A row for each toolkit of a branch that has several, and one for what needs none; else one for the branch."""
    spec, branch = plan.spec, plan.spec.branches[name]
    several = len(branch.toolkits) > 1
    for toolkit in [*branch.toolkits, ""] if several else [next(iter(branch.toolkits), "")]:
        own = [cell for cell in plan.judged.cells if cell.branch == name and (cell.toolkit == toolkit or not several)]
        shards = sum(shard.branch == name and (shard.toolkit == toolkit or not several) for shard in plan.shards)
        rev = branch.pin(toolkit).nixpkgs
        pin = link(code(rev[:7]), f"https://github.com/NixOS/nixpkgs/tree/{rev}") if rev else NONE
        driver = f"{spec.hardware.toolkit(toolkit).lowest_driver} or newer" if toolkit else NONE
        versions = [branch.versions.get(package, NONE) for package in packages]
        if own:
            title = code(name) if branch.publish else f"{code(name)}, not published"
            alike = {(cell.toolkit, cell.target, variant.package): cell for cell in own for variant in cell.variants}
            dnn = sorted({dnn_of(spec, cell, package) for (_, _, package), cell in alike.items()} - {""})
            built_for = [toolkit or NONE, ", ".join(dnn) or NONE, driver, pin]
            yield [title, *built_for, *versions, len(own), _variants(own), shards]


# The matrix.


def _matrix(plan: Plan) -> Iterator[str]:
    for name, branch in plan.spec.branches.items():
        cells = [cell for cell in plan.judged.cells if cell.branch == name]
        counts = Counter(cell.target for cell in cells for _ in cell.variants)
        toolkits = f"{_FAMILY.toolkit} {', '.join(branch.toolkits)}: " if branch.toolkits else ""
        yield f"### {name}"
        yield (
            f"{toolkits}{counted(_variants(cells), 'variant')} in {counted(len(cells), 'cell')}, by GPU: "
            + ", ".join(f"{code(gpu)} {count:,}" for gpu, count in counts.items())
            + "."
        )
        for title, own in _sections(plan, branch, cells).items():
            if title:
                yield f"#### {title} on {name}"
            yield _grid(plan, own)
        yield from listed_table(plan, name)


def _sections(plan: Plan, branch: Branch, cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells of the matrix by what divides a branch's tables: Python and toolkit, each where there are several."""
    found: dict[str, list[Cell]] = {}
    pythons, toolkits = plan.spec.pythons, branch.toolkits
    for cell in cells:
        if not cell.listed:
            python = [f"Python {cell.python}"] if len(pythons) > 1 else []
            toolkit = [f"{_FAMILY.toolkit} {cell.toolkit}" if cell.toolkit else "CPU"] if len(toolkits) > 1 else []
            found.setdefault(", ".join([*python, *toolkit]), []).append(cell)
    return found


def _isas(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """The instruction sets of `cells`, in the order of the hardware tables."""
    held = {cell.isa for cell in cells}
    return [name for name in spec.hardware.isas if name in held]


def _grid(plan: Plan, cells: Sequence[Cell]) -> str:
    """The table GPU x ISA of cells that differ in nothing else, with the recipes of each."""
    at = {(cell.target, cell.isa): cell for cell in cells}
    isas = _isas(plan.spec, cells)
    own = [shard for shard in plan.shards if shard.branch == cells[0].branch]
    rows = []
    for gpu in dict.fromkeys(cell.target for cell in cells):
        of_gpu = [cell for cell in cells if cell.target == gpu]
        recipes = [_recipes(plan, at[gpu, isa]) if (gpu, isa) in at else NONE for isa in isas]
        workflows = [workflow(shard) for shard in own if shard.target in {gpu, ""} and holds(shard, of_gpu)]
        rows.append([code(gpu), *recipes, "<br>".join(workflows)])
    return markdown_table(["GPU", *map(code, isas), "workflow"], rows)


def _recipes(plan: Plan, cell: Cell) -> str:
    root = blob(cell.branch)
    return "<br>".join(
        link(variant.package, f"{root}/{plan.spec.packages[variant.package].source(variant.name)}")
        for variant in cell.variants
    )


# Tests.


def _test(spec: Spec, stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> Iterator[str]:
    """What a test stage covers: which pool tests which variants, and which variants no pool tests."""
    of_gpu = stage.needs_gpu
    wanted = [(cell, route) for cell, route in parts if cell.target != CPU or not of_gpu]
    if not wanted:
        return
    yield f"### {stage.name}"
    total = _variants(cell for cell, _ in wanted)
    if spec.tests[stage] is TestPolicy.NEVER:
        yield f"The spec switches it off: none of {counted(total, 'variant')} is tested."
        return
    tested = [(cell, route) for cell, route in wanted if stage in route.pools]
    done = _variants(cell for cell, _ in tested)
    how = ("test", "tested") if stage.proves else ("measure", "measured")
    said = f"{done:,} of {counted(total, 'variant')} {'is' if done == 1 else 'are'} {how[1]}"
    if of_gpu:
        others = [cell for cell, route in tested if route.pools[stage].gpu != cell.target]
        said += ", each on a GPU of its own architecture" if not others and tested else ""
        said += f", {_variants(others):,} of them on another GPU that runs their code" if others else ""
    untested = f"; {NONE} is what no pool can {how[0]} (`ci-compile explain NAME` tells why)"
    yield f"{said}{untested if done < total else ''}."
    yield from imported_only(spec, stage)
    isas = _isas(spec, [cell for cell, _ in wanted])
    if of_gpu:
        gpus = [gpu for gpu in spec.gpus if any(cell.target == gpu for cell, _ in wanted)]
        rows = [[code(gpu), *(_tester(stage, _of(wanted, isa, gpu)) for isa in isas)] for gpu in gpus]
        yield markdown_table(["GPU", *map(code, isas)], rows)
    else:
        own = {isa: _of(wanted, isa) for isa in isas}
        rows = [[code(isa), _tester(stage, own[isa]), f"{_variants(cell for cell, _ in own[isa]):,}"] for isa in isas]
        yield markdown_table(["instruction set", "pool", "variants"], rows, right=1)
    yield from suites(spec, stage, wanted)


def _of(parts: Iterable[tuple[Cell, Route]], isa: str, gpu: str = "") -> list[tuple[Cell, Route]]:
    """The parts with `isa` and, if it is given, `gpu`."""
    return [part for part in parts if part[0].isa == isa and gpu in {"", part[0].target}]


def _tester(stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> str:
    """The pools that test these cells; '' if there are no cells."""
    if not parts:
        return ""
    pools = dict.fromkeys(route.pools[stage].name for _, route in parts if stage in route.pools)
    missing = any(stage not in route.pools for _, route in parts)
    return ", ".join([*map(code, pools), *([NONE] if missing else [])])


# What is left out.


def _left_out(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    for left_out in plan.judged.left_out:
        groups.setdefault((left_out.target, left_out.branch, left_out.python, left_out.package, left_out.reason), {})[
            left_out.isa
        ] = None
    if groups:
        yield "What the spec selects and the fleet does not hold (`ci-compile variants --left-out` lists each):"
        rows = [
            [code(gpu), code(branch), codes(isas), python or "all", package or "all", markdown_text(reason)]
            for (gpu, branch, python, package, reason), isas in groups.items()
        ]
        yield markdown_table(["GPU", "branch", "instruction sets", "Python", "package", "why"], rows)
    else:
        yield "Nothing that the spec selects."
    others = [gpu for gpu in spec.hardware.gpus.values() if gpu.name not in spec.gpus]
    if others:
        names = ", ".join(f"{code(gpu.name)} ({gpu.summary})" for gpu in others)
        yield f"GPUs that are known and that the spec does not select: {names}."
    used = {cell.isa for cell in plan.judged.cells}
    unused = [isa for isa, row in spec.hardware.isas.items() if row.flags and isa not in used]
    if unused:
        yield f"Instruction sets that are known and that nothing is built for: {codes(unused)}."
