"""The part of BUILD_MATRIX.md that helps to choose: GPUs, instruction sets, defaults, costs, what is switched off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ci_compiler.hardware import ALL, CPU, Gpu
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.needs import Needs
from ci_compiler.recipes.work_arounds import switched_off
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.finder import Finder
from ci_compiler.reports.install import install, shared_suffixes
from ci_compiler.reports.offers import Profile, Wishes
from ci_compiler.reports.reasons import is_undecided
from ci_compiler.spec.model import Package, in_build_order
from ci_compiler.units import markdown_table, markdown_text

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan

NONE = "–"


def code(name: str) -> str:
    """`name` as code."""
    return f"`{name}`"


def codes(names: Iterable[str]) -> str:
    """`names` as code, each once; a dash for none."""
    return ", ".join(map(code, dict.fromkeys(names))) or NONE


def gpu_table(plan: Plan) -> str:
    """The GPUs of the spec, and where they are built."""
    headers = ["GPU", "architecture", "products", "hosts", "driver", "adds", "built on"]
    return markdown_table(headers, _gpu_rows(plan))


def isa_table(plan: Plan) -> str:
    """The instruction sets that something is built for, and what each is good and not good for."""
    return markdown_table(["instruction set", "CPUs", "flags that prove it", "good for", "not for"], _isa_rows(plan))


def _isa_rows(plan: Plan) -> Iterator[list[str]]:
    special = {workload.isa: workload.words for workload in Workload if workload.isa}
    for isa in plan.spec.hardware.isas.values():
        if any(cell.isa == isa.name for cell in plan.judged.cells):
            good = markdown_text(isa.good_for or special.get(isa.name, "general work"))
            yield [code(isa.name), isa.cpus, codes(isa.cpuinfo), good, markdown_text(isa.not_for) or NONE]


def _gpu_rows(plan: Plan) -> Iterator[list[str]]:
    for name in plan.spec.gpus:
        on = dict.fromkeys(cell.branch for cell in plan.judged.cells if cell.target == name)
        if name == CPU:
            users = f"machines without an {family_of(DEFAULT).vendor} GPU"
            yield [code(CPU), NONE, users, "all", NONE, NONE, codes(on)]
            continue
        gpu = plan.spec.hardware.gpu(name)
        hosts = ", ".join(plan.spec.hardware.systems[system].title for system in gpu.systems)
        adds = markdown_text(gpu.adds) or NONE
        yield [code(gpu.name), gpu.architecture, gpu.summary, hosts, _driver(gpu), adds, codes(on)]


def _driver(gpu: Gpu) -> str:
    """The drivers that run `gpu`."""
    lowest = f"{gpu.driver} or newer" if gpu.driver else "the branch's minimum"
    return f"{lowest}; last driver branch: {gpu.last_driver}" if gpu.last_driver else lowest


# Defaults and their installation.


def defaults(plan: Plan) -> Iterator[str]:
    """What to install if the CPU is not known: by system and GPU, what `select` answers if almost every CPU runs it."""
    here = [
        package for package in in_build_order(plan.spec.packages) if package.repository is None and not package.system
    ]
    if rows := [row for package in here[:1] for row in _default_rows(plan, package)]:
        yield "If you do not know the CPU, take these: almost every server and desktop of the last ten years runs them."
        yield markdown_table(["CPUs", "instruction set", "GPU", "branch", "tests", "install"], rows)


def _default_rows(plan: Plan, package: Package) -> Iterator[list[str]]:
    hardware, cells = plan.spec.hardware, plan.judged.cells
    known = proofs(plan.spec, cells, plan.routes, package=package.name)
    shared, finder = shared_suffixes(cells), Finder(plan.spec, cells, package.name, known)
    wishes = Wishes(package=package.name)
    for system in hardware.systems.values():
        for name in (one for one in plan.spec.gpus if one != ALL.name):
            gpu = None if name == CPU else hardware.gpu(name)
            if gpu and system.name not in gpu.systems:
                continue
            profile = finder.unknown_cpu(Profile(system=system.name, isas=(), gpu=gpu, has_gpu=gpu is not None), wishes)
            offer = next(iter(finder.fitting(profile, Workload.GENERAL)), None)
            if offer and offer.target == name and is_undecided(hardware, offer):
                cell = next(one for one in cells if one.branch == offer.branch and offer.name in dict(one.variants))
                lines = install(Needs(plan.spec, cells), shared, cell, {package.name: offer.name})
                says = known[offer.branch, offer.name].verdict
                yield [system.title, *map(code, (offer.isa, name, offer.branch)), says, "<br>".join(map(code, lines))]


# What builds cost, and what they lack.


def costs(plan: Plan, gpu: str = "") -> str:
    """What a build of each package takes."""
    rows = []
    for package in in_build_order(plan.spec.packages):
        if package.repository is None:
            minutes = [package.minutes.get(kind, NONE) for kind in ("gpu", "cpu")]
            compilers = f"{package.jobs} of {package.memory_per_job} GB"
            rows.append([code(package.name), *minutes, f"{package.disk} GB", f"{package.memory} GB", compilers])
    on_gpu = f"minutes with {gpu or family_of(DEFAULT).toolkit}"
    headers = ["package", on_gpu, "minutes without", "disk", "memory", "compilers"]
    return markdown_table(headers, rows, right=3)


def without(plan: Plan) -> Iterator[str]:
    """What compiled recipes switch off, and in which variants."""
    found: dict[str, list[tuple[str, str]]] = {}
    for cell in plan.judged.cells:
        for variant in cell.variants:
            for text in switched_off(plan.spec, cell, variant.package):
                found.setdefault(text, []).append((cell.target, cell.isa))
    if not found:
        yield "Nothing."
        return
    rows = [
        [markdown_text(text), codes(gpu for gpu, _ in cells), codes(isa for _, isa in cells), len(cells)]
        for text, cells in found.items()
    ]
    yield markdown_table(["without", "GPU", "instruction sets", "variants"], rows, right=1)


def recalled_table(plan: Plan) -> Iterator[str]:
    """What must not be installed, and what to install instead."""
    if not plan.spec.recalls:
        return
    from ci_compiler.reports.recalls import recalled_variants  # most specs recall nothing

    rows = []
    for recall in recalled_variants(plan):
        instead = f"{code(recall.instead.name)} ({recall.instead.branch})" if recall.instead else NONE
        rows.append([code(recall.name), recall.branch, recall.version, markdown_text(recall.because), instead])
    if rows:
        yield "**Recalled.** These variants were published and turned out wrong; do not install them:"
        yield markdown_table(["variant", "branch", "version", "why", "instead"], rows)


def expected_table(plan: Plan) -> Iterator[str]:
    """Which test stages are expected to fail, in how many variants, why and for how long."""
    if not plan.spec.expected_failures:
        return
    built = [(cell.branch, variant.name) for cell in plan.judged.cells for variant in cell.variants]
    rows = [
        [
            code(failure.pattern),
            codes(failure.branches) if failure.branches else "all",
            failure.stage.name,
            markdown_text(failure.because),
            failure.until,
            failure.issue or NONE,
            sum(failure.concerns(name, branch, failure.stage) for branch, name in built),
        ]
        for failure in plan.spec.expected_failures
    ]
    yield "### Expected failures"
    yield "These tests fail for known reasons. Their variants are not published until they pass."
    yield markdown_table(["variants", "branch", "stage", "why", "until", "issue", "number"], rows, right=1)
