"""`.github/BUILD_MATRIX.md`: the build matrix for readers, with every number computed from the plan.

The file is the same on every branch, so a link to a recipe names the branch (`../../../blob/BRANCH/...`: on GitHub,
three folders up from `.github` is the repository). A link to a workflow is relative. All text from the spec is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ci_compiler.hardware import CPU
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import Proof, is_imported_only
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.model import Spec, in_build_order
from ci_compiler.stages import PUBLISH, Stage, TestPolicy, stages, stages_that_test
from ci_compiler.units import markdown_table, markdown_text
from ci_compiler.variant import recipe_path
from ci_compiler.workflows.render import header

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan

PATH = ".github/BUILD_MATRIX.md"
_REPOSITORY = "../../.."
_NONE = "–"


def text(plan: Plan) -> str:
    """The document."""
    mark = header(plan.spec)[0].replace("--", "‐‐")
    blocks = [
        f"<!-- {mark} -->",
        "# Build matrix",
        *_overview(plan),
        *_choosing(plan),
        *_matrix(plan),
        *_tests(plan),
        *_left_out(plan),
    ]
    return "\n\n".join(blocks) + "\n"


# Markdown.


def _code(name: str) -> str:
    return f"`{name}`"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(map(_code, dict.fromkeys(names))) or _NONE


def _link(shown: str, target: str) -> str:
    return f"[{shown}]({target})"


def _count(number: int, thing: str, several: str = "") -> str:
    return f"{number:,} {thing if number == 1 else several or f'{thing}s'}"


# Branches.


def _variants(cells: Iterable[Cell]) -> int:
    return sum(len(cell.variants) for cell in cells)


def _overview(plan: Plan) -> Iterator[str]:
    spec, cells = plan.spec, plan.judged.cells
    here = [package for package in in_build_order(spec.packages) if package.repository is None]
    yield (
        f"**{_count(_variants(cells), 'variant')}** of {_codes(package.name for package in here)}: "
        f"{_count(len(cells), 'cell')} (branch × Python × GPU × instruction set) on "
        f"{_count(len(spec.branches), 'branch', 'branches')}, built by {_count(len(plan.shards), 'workflow')}."
    )
    packages = [package.name for package in here]
    rows = []
    for name, branch in spec.branches.items():
        own = [cell for cell in cells if cell.branch == name]
        pin = _pin(branch.nixpkgs)
        versions = [branch.versions.get(package, _NONE) for package in packages]
        shards = sum(shard.branch == name for shard in plan.shards)
        cuda, drivers = (
            ", ".join(branch.toolkits),
            [spec.hardware.toolkit(one).lowest_driver for one in branch.toolkits],
        )
        driver = f"{min(drivers)} or newer" if drivers else _NONE
        rows.append([_code(name), cuda or _NONE, driver, pin, *versions, len(own), _variants(own), shards])
    if len(rows) > 1:
        rows.append(["all", *[""] * (3 + len(packages)), len(cells), _variants(cells), len(plan.shards)])
    headers = ["branch", "CUDA", "driver", "nixpkgs", *packages, "cells", "variants", "workflows"]
    yield markdown_table(headers, rows, right=3)
    example = next((cell for cell in cells if cell.gpu != CPU), cells[0]).variants[0].name
    yield (
        f"A variant is named by its package, Python, CUDA toolkit, GPU and instruction set, as `{example}`. "
        f"{' '.join(_sources(spec))} One for the CPU alone has the same name on every branch, and "
        "is told apart by its version."
    )


def _pin(nixpkgs: str) -> str:
    return _link(_code(nixpkgs[:7]), f"https://github.com/NixOS/nixpkgs/tree/{nixpkgs}") if nixpkgs else _NONE


def _sources(spec: Spec) -> Iterator[str]:
    """What builds the variants, and how a user installs them: recipes, or the commands of each package."""
    if spec.backend.has_recipes:
        yield f"Its recipe is `{recipe_path('NAME')}` on its branch."
    for package in spec.packages.values():
        if package.command:
            script, line = _code(package.command.build), _code(package.command.install)
            yield f"{_code(package.name)} is built by {script} and installed by {line}."


# Choosing.


def _choosing(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    yield "## How to choose"
    yield (
        "`ci-compile select` chooses for the machine it runs on, or for another: "
        '`ci-compile select --gpu "RTX 4090" --cpu "Ryzen 9 7950X" --driver 580`. By hand:'
    )
    yield (
        "1. **GPU**: take its own architecture. Where none is built for it, one of the same major number and a lower "
        "minor one runs as well (a build for sm80 on sm86)."
    )
    yield markdown_table(["GPU", "architecture", "products", "hosts", "driver", "built on"], _gpu_rows(plan))
    yield (
        "2. **Branch**: the newest whose CUDA the driver runs (`nvidia-smi` tells the driver, the tables above what "
        "each branch and GPU needs)."
    )
    yield (
        "3. **Instruction set**: one that the CPU has all flags of (`lscpu` tells them), and for the work at hand: "
        f"{_code('avx512')} for general work rather than those that serve BF16 or INT8 alone."
    )
    used = [isa for isa in spec.hardware.isas.values() if any(cell.isa == isa.name for cell in plan.judged.cells)]
    special = {one.isa: one.words for one in Workload if one.isa}
    yield markdown_table(
        ["instruction set", "CPUs", "flags that prove it", "for"],
        [[_code(isa.name), isa.cpus, _codes(isa.cpuinfo), special.get(isa.name, "general work")] for isa in used],
    )


def _gpu_rows(plan: Plan) -> Iterator[list[str]]:
    for name in plan.spec.gpus:
        on = dict.fromkeys(cell.branch for cell in plan.judged.cells if cell.gpu == name)
        if name == CPU:
            yield [_code(CPU), _NONE, "machines without an NVIDIA GPU", "all", _NONE, _codes(on)]
            continue
        gpu = plan.spec.hardware.gpu(name)
        hosts = ", ".join(plan.spec.hardware.systems[system].title for system in gpu.systems)
        driver = f"{gpu.driver} or newer" if gpu.driver else "the branch's"
        yield [_code(gpu.name), gpu.architecture, gpu.summary, hosts, driver, _codes(on)]


# The matrix.


def _matrix(plan: Plan) -> Iterator[str]:
    yield "## Matrix"
    source = "recipe" if plan.spec.backend.has_recipes else "build script"
    yield (
        f"A package's name leads to its {source}, a workflow's to its file, and `run` to the page that dispatches it "
        "(choose the branch there)."
    )
    for name, branch in plan.spec.branches.items():
        cells = [cell for cell in plan.judged.cells if cell.branch == name]
        yield f"### {name}"
        yield (
            f"CUDA {', '.join(branch.toolkits)}: {_count(_variants(cells), 'variant')} in "
            f"{_count(len(cells), 'cell')}, by GPU: "
            + ", ".join(f"{_code(gpu)} {count:,}" for gpu, count in _by_gpu(cells).items())
            + "."
        )
        for python in plan.spec.pythons:
            own = [cell for cell in cells if cell.python == python]
            if own and len(plan.spec.pythons) > 1:
                yield f"#### Python {python} on {name}"
            if own:
                yield _grid(plan, own)


def _by_gpu(cells: Iterable[Cell]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for cell in cells:
        counts[cell.gpu] += len(cell.variants)
    return counts


def _isas(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """The instruction sets of `cells`, in the order of the hardware tables."""
    held = {cell.isa for cell in cells}
    return [name for name in spec.hardware.isas if name in held]


def _grid(plan: Plan, cells: Sequence[Cell]) -> str:
    """The table GPU x ISA for one branch and Python, with the recipes of each cell."""
    at = {(cell.gpu, cell.isa): cell for cell in cells}
    isas = _isas(plan.spec, cells)
    branch, python = cells[0].branch, cells[0].python
    own = [shard for shard in plan.shards if shard.branch == branch]
    rows = []
    for gpu in dict.fromkeys(cell.gpu for cell in cells):
        of_gpu = [shard for shard in own if shard.gpu == gpu and _holds(shard, python)]
        recipes = [_recipes(plan, at[gpu, isa]) if (gpu, isa) in at else _NONE for isa in isas]
        rows.append([_code(gpu), *recipes, "<br>".join(map(_workflow, of_gpu))])
    return markdown_table(["GPU", *map(_code, isas), "workflow"], rows)


def _holds(shard: Shard, python: str) -> bool:
    return any(cell.python == python for cell, _ in shard.cells)


def _recipes(plan: Plan, cell: Cell) -> str:
    root = f"{_REPOSITORY}/blob/{cell.branch}"
    return "<br>".join(
        _link(variant.package, f"{root}/{plan.spec.packages[variant.package].source(variant.name)}")
        for variant in cell.variants
    )


def _workflow(shard: Shard) -> str:
    file = f"{shard.name}.yml"
    run = _link("run", f"{_REPOSITORY}/actions/workflows/{file}")
    return f"{_link(_code(shard.name), f'workflows/{file}')} · {run}"


# Tests.


def _tests(plan: Plan) -> Iterator[str]:
    parts = list(zip(plan.judged.cells, plan.routes, strict=True))
    yield "## What is tested where"
    yield markdown_table(
        ["pool", "machines", "system", "GPU", *(stage.name for stage in stages())],
        _pool_rows(plan.spec, parts),
        right=len(stages()),
    )
    yield "The numbers are variants. A machine of the pool runs the stage for each of them."
    for stage in stages_that_test():
        yield from _test(plan.spec, stage, parts)


def _pool_rows(spec: Spec, parts: Sequence[tuple[Cell, Route]]) -> Iterator[list[object]]:
    for pool in spec.pools:
        counts = [
            sum(len(cell.variants) for cell, route in parts if route.pools.get(stage) == pool) for stage in stages()
        ]
        shown = [f"{count:,}" if count else _NONE for count in counts]
        title = spec.hardware.systems[pool.system].title
        yield [_code(pool.name), pool.count, title, _code(pool.gpu) if pool.gpu else _NONE, *shown]


def _test(spec: Spec, stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> Iterator[str]:
    """What a test stage covers: which pool tests which variants, and which variants no pool tests."""
    of_gpu = stage.needs_gpu
    wanted = [(cell, route) for cell, route in parts if cell.gpu != CPU or not of_gpu]
    if not wanted:
        return
    yield f"### {stage.name}"
    if spec.tests[stage] is TestPolicy.NEVER:
        yield f"The spec switches it off: none of {_count(_variants(cell for cell, _ in wanted), 'variant')} is tested."
        return
    tested = [(cell, route) for cell, route in wanted if stage in route.pools]
    done, total = _variants(cell for cell, _ in tested), _variants(cell for cell, _ in wanted)
    said = f"{done:,} of {_count(total, 'variant')} {'is' if done == 1 else 'are'} tested"
    if of_gpu:
        others = [cell for cell, route in tested if route.pools[stage].gpu != cell.gpu]
        said += ", each on a GPU of its own architecture" if not others and tested else ""
        said += f", {_variants(others):,} of them on another GPU that runs their code" if others else ""
    untested = f"; {_NONE} is what no pool can test (`ci-compile explain NAME` tells why)"
    yield f"{said}{untested if done < total else ''}."
    yield from _imported_only(spec, stage)
    yield _gpu_grid(spec, stage, wanted) if of_gpu else _isa_rows(spec, stage, wanted)


def _imported_only(spec: Spec, stage: Stage) -> Iterator[str]:
    """Which packages a test only imports, and what publishing them therefore means."""
    names = [package.name for package in spec.packages.values() if is_imported_only(spec, package, stage)]
    if names:
        are = "are" if len(names) > 1 else "is"
        yield (
            f"{_codes(names)} {are} **{Proof.IMPORTED_ONLY}**: the spec declares no `smoke` test, so the stage proves "
            f"no more than that {'they' if len(names) > 1 else 'it'} can be imported in the right version."
        )
    published = [package.name for package in spec.packages.values() if is_imported_only(spec, package, PUBLISH)]
    if names and published and stage in spec.publish.after:
        yield f"Publishing {_codes(published)} waits for tests that prove no more than this."


def _gpu_grid(spec: Spec, stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> str:
    """The pools that run gpu-test, by GPU and ISA."""
    isas = _isas(spec, [cell for cell, _ in parts])
    rows = []
    for name in spec.gpus:
        own = [(cell, route) for cell, route in parts if cell.gpu == name]
        pools = [_tester(stage, [part for part in own if part[0].isa == isa]) for isa in isas]
        if own:
            rows.append([_code(name), *pools])
    return markdown_table(["GPU", *map(_code, isas)], rows)


def _isa_rows(spec: Spec, stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> str:
    """The pools that run cpu-test, by ISA; the GPU of a cell is irrelevant to them."""
    rows = []
    for isa in _isas(spec, [cell for cell, _ in parts]):
        own = [(cell, route) for cell, route in parts if cell.isa == isa]
        rows.append([_code(isa), _tester(stage, own), f"{_variants(cell for cell, _ in own):,}"])
    return markdown_table(["instruction set", "pool", "variants"], rows, right=1)


def _tester(stage: Stage, parts: Sequence[tuple[Cell, Route]]) -> str:
    """The pools that test these cells; '' if there are no cells."""
    if not parts:
        return ""
    pools = dict.fromkeys(route.pools[stage].name for _, route in parts if stage in route.pools)
    missing = any(stage not in route.pools for _, route in parts)
    return ", ".join([*map(_code, pools), *([_NONE] if missing else [])])


# What is left out.


def _left_out(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    yield "## What is left out"
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    for one in plan.judged.left_out:
        groups.setdefault((one.gpu, one.branch, one.python, one.package, one.reason), []).append(one.isa)
    if groups:
        yield "What the spec selects and the fleet does not hold (`ci-compile variants --left-out` lists each):"
        yield markdown_table(
            ["GPU", "branch", "instruction sets", "Python", "package", "why"],
            [
                [_code(gpu), _code(branch), _codes(isas), python or "all", package or "all", markdown_text(reason)]
                for (gpu, branch, python, package, reason), isas in groups.items()
            ],
        )
    else:
        yield "Nothing that the spec selects."
    others = [gpu for gpu in spec.hardware.gpus.values() if gpu.name not in spec.gpus]
    if others:
        names = ", ".join(f"{_code(gpu.name)} ({gpu.summary})" for gpu in others)
        yield f"GPUs that are known and that the spec does not select: {names}."
    used = {cell.isa for cell in plan.judged.cells}
    unused = [isa for isa, row in spec.hardware.isas.items() if row.flags and isa not in used]
    if unused:
        yield f"Instruction sets that are known and that nothing is built for: {_codes(unused)}."
