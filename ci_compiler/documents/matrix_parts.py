"""What both forms of BUILD_MATRIX.md have: links, pools, variants of no axis, and what tests prove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ci_compiler.documents.build_choice import NONE, code, codes
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import Proof, is_imported_only
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard
from ci_compiler.plan.suites import bench_of
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH, Stage
from ci_compiler.units import markdown_table
from ci_compiler.variant import recipe_path

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan

REPOSITORY = "../../.."
"""The repository on GitHub, from `.github` of a branch."""

FINDER = f"[The finder page]({REPOSITORY}/deployments/github-pages) chooses in the browser. "
"""GitHub's page about the deployments of Pages, which leads to the published one; its address is not known here."""


def link(shown: str, target: str) -> str:
    """A link."""
    return f"[{shown}]({target})"


def workflow(shard: Shard) -> str:
    """The links to a workflow."""
    file = f"{shard.name}.yml"
    run = link("run", f"{REPOSITORY}/actions/workflows/{file}")
    return f"{link(code(shard.name), f'workflows/{file}')} · {run}"


def blob(branch: str) -> str:
    """The address of a branch's files."""
    return f"{REPOSITORY}/blob/{branch}"


def holds(shard: Shard, cells: Iterable[Cell]) -> bool:
    """Whether a shard has any of `cells`."""
    suffixes = {cell.suffix for cell in cells}
    return any(cell.suffix in suffixes for cell, _ in shard.cells)


def listed_table(plan: Plan, branch: str) -> Iterator[str]:
    """The variants of a branch that fit no axis."""
    if listed := [cell for cell in plan.judged.cells if cell.listed and cell.branch == branch]:
        yield f"#### Variants of no axis on {branch}"
        yield markdown_table(["variant", "system", "workflow"], _listed_rows(plan, listed))


def _listed_rows(plan: Plan, cells: Iterable[Cell]) -> Iterator[list[str]]:
    for cell in cells:
        recipe = f"{blob(cell.branch)}/{recipe_path(cell.listed)}"
        held = [shard for shard in plan.shards if shard.branch == cell.branch and holds(shard, [cell])]
        yield [link(cell.listed, recipe), cell.system, "<br>".join(map(workflow, held))]


def pool_table(spec: Spec, parts: Sequence[tuple[Cell, Route]]) -> str:
    """The pools, and the number of variants for which they run each stage."""
    headers = ["pool", "machines", "system", "GPU", *(stage.name for stage in spec.stages)]
    return markdown_table(headers, _pool_rows(spec, parts), right=len(spec.stages))


def _pool_rows(spec: Spec, parts: Sequence[tuple[Cell, Route]]) -> Iterator[list[object]]:
    for pool in spec.pools:
        counts = [
            sum(len(cell.variants) for cell, route in parts if route.pools.get(stage) is pool) for stage in spec.stages
        ]
        shown = [f"{count:,}" if count else NONE for count in counts]
        title = spec.hardware.systems[pool.system].title
        gpus = f"{pool.gpus} × " if pool.gpus > 1 else ""
        gpu = pool.gpu or pool.accelerator
        yield [code(pool.name), pool.count, title, f"{gpus}{code(gpu)}" if gpu else NONE, *shown]


def imported_only(spec: Spec, stage: Stage) -> Iterator[str]:
    """Which packages a test only imports, and what publishing them therefore means."""
    names = [package.name for package in spec.packages.values() if is_imported_only(spec, package, stage)]
    if names:
        are = "are" if len(names) > 1 else "is"
        yield (
            f"{codes(names)} {are} **{Proof.IMPORTED_ONLY}**: the spec declares no `smoke` test, so the stage proves "
            f"no more than that {'they' if len(names) > 1 else 'it'} can be imported in the right version."
        )
    published = [package.name for package in spec.packages.values() if is_imported_only(spec, package, PUBLISH)]
    if names and published and stage in spec.publish.after:
        yield f"Publishing {codes(published)} waits for tests that prove no more than this."


def suites(spec: Spec, stage: Stage, wanted: Sequence[tuple[Cell, Route]]) -> Iterator[str]:
    """The test suites of a stage, which prove a package after its smoke test, and the pools that run them."""
    rows: list[list[object]] = []
    for package in (one for one in spec.packages.values() if one.suites):
        of_package = [
            (cell, variant, route)
            for cell, route in wanted
            for variant in cell.variants
            if variant.package == package.name
        ]
        for suite in package.suites.values():
            routes = [route for cell, variant, route in of_package if suite.runs_for(cell.branch, variant.name)]
            if suite.stage is stage and routes:
                pools = [route.suites.get(bench_of(suite)) for route in routes]
                ran = f"{sum(pool is not None for pool in pools):,} of {len(routes):,}"
                names = codes(pool.name for pool in pools if pool)
                gpus = suite.gpus if stage.needs_gpu else NONE
                rows.append([code(package.name), code(suite.name), names, gpus, suite.shards, suite.minutes, ran])
    if rows:
        yield "After the smoke test, these suites test a variant:"
        heads = ["package", "suite", "pool", "GPUs", "shards", "minutes of a shard", "variants"]
        yield markdown_table(heads, rows, right=4)
