"""Cells grouped into workflow files: one shard per branch and GPU, split further only to meet GitHub's limits.

Where a branch has several toolkits, each has shards of its own. Variants that fit no axis share one. A shard with
too many jobs for one file is split by Python, then by ISA. It is split by axis and never by position, so that adding a
variant moves no other variant to another file. A cell is never split, so that a build and the builds that it needs stay
in one run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import family_of
from ci_compiler.plan.limits import limit
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs, hands_files, is_fetched
from ci_compiler.plan.routing import Route
from ci_compiler.plan.suites import suite_jobs, suites_of
from ci_compiler.spec.axes import PARTS, python_order
from ci_compiler.spec.model import Package, Pool, Spec, in_build_order
from ci_compiler.stages import BUILD, PUBLISH, Stage, StageKind, TestPolicy, stage_of, stages
from ci_compiler.variant import python_tag

FOLDER = ".github/workflows"
"""The folder of the workflows, from the root of the repository."""

OWN_JOBS = 2
"""The jobs of every shard besides those of its cells: the selection and the verdict."""

POOL_JOBS = 2
"""The further jobs of a shard for each pool that publishes its variants: the preflight and the publishing."""

ALL = "all"
"""The choice of the dispatch form that builds the whole shard."""

UNPUBLISHED = "unpublished"
"""The choice of the dispatch form that builds what is not published yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The cells of one workflow file with their routes. `name` is the file's name without `.yml`.

    `toolkit` is '' in a shard of CPU cells. `jobs` is the number of jobs of a run that builds everything, with called
    workflows expanded as GitHub counts them. `is_plain`: whether its cells differ in the Python and the ISA alone.
    """

    name: str
    title: str
    branch: str
    toolkit: str
    target: str
    jobs: int
    cells: tuple[tuple[Cell, Route], ...]
    key: tuple[str, ...] = ()
    is_plain: bool = False

    def job_id(self, cell: Cell) -> str:
        """The id of the job of one of its cells, without what all of them share: `python313-avx2`."""
        if self.is_plain:
            return f"{python_tag(cell.python)}-{cell.isa}"
        whole = cell.key.replace(".", "_")
        return f"cell-{whole}" if whole[:1].isdigit() else whole

    def job_name(self, cell: Cell) -> str:
        """The name of the job of one of its cells on GitHub, by which `status` recognizes it: `3.13 avx2`."""
        return f"{cell.python} {cell.isa}" if self.is_plain else cell.key

    @property
    def publish_pools(self) -> tuple[Pool, ...]:
        """The pools that publish its variants."""
        return tuple(dict.fromkeys(route.pools[PUBLISH] for _, route in self.cells if PUBLISH in route.pools))

    @property
    def path(self) -> str:
        """The path of its file, from the root of the repository."""
        return f"{FOLDER}/{self.name}.yml"

    @property
    def variants(self) -> list[str]:
        """The names of its variants, in the order of the cells."""
        return [variant.name for cell, _ in self.cells for variant in cell.variants]


def stages_of(spec: Spec) -> tuple[Stage, ...]:
    """The stages of which each variant has a job: those that the spec does not switch off, without publishing."""
    return tuple(
        stage
        for stage in stages()
        if stage.kind is not StageKind.PUBLISH and spec.tests.get(stage) is not TestPolicy.NEVER
    )


def cell_packages(spec: Spec) -> tuple[Package, ...]:
    """The packages that have jobs in the workflow of a cell, in build order."""
    on_axes = {package.name for _, _, packages in spec.matrices for package in packages}
    ordered = in_build_order(spec.packages)
    return tuple(package for package in ordered if package.name in on_axes and package.repository is None)


JobCount = Callable[[Cell], int]
"""The number of jobs of a cell as GitHub counts them: those of packages that it lacks are skipped, but count."""


def job_counter(spec: Spec) -> JobCount:
    """Counts the jobs of cells. What all cells share is computed once."""
    each, packages, listed = len(stages_of(spec)), cell_packages(spec), suite_jobs(spec)
    of_cell = len(packages) * each + sum(suite.shards for package in packages for suite in package.suites.values())

    def count(cell: Cell) -> int:
        if cell.joined:
            suites = (suite for variant in cell.variants for suite in suites_of(spec, cell, variant))
            return each * len(cell.variants) + sum(suite.shards for suite in suites)  # a job of its own for each test
        return each + listed(cell) if cell.called else of_cell

    return count


def waits_for(spec: Spec, stage: Stage) -> tuple[Stage, ...]:
    """The stages of the same variant that a job of `stage` waits for."""
    if stage.kind is StageKind.BUILD:
        return ()
    after = spec.publish.after if stage.kind is StageKind.PUBLISH else tuple(map(stage_of, stage.follows))
    return (BUILD, *(other for other in after if other in stages_of(spec)))


Part = tuple[Cell, Route]

_LISTED = "listed"
"""What the shards of variants that fit no axis have in the GPU's place."""

_MIXED = "mixed"
"""What the shard of variants for several accelerators has in the GPU's place."""

_LONGEST_START = 12
"""The most characters of a listed variant's name by which shards are split before each variant has its own."""


def shards(spec: Spec, cells: tuple[Cell, ...], routes: tuple[Route, ...]) -> tuple[Shard, ...]:
    """The shards of `cells`, in the spec's order. Raises InputError if one cell has too many jobs for a file."""
    groups: dict[tuple[str, str, str, str], list[Part]] = {}
    for part in zip(cells, routes, strict=True):
        cell = part[0]
        target = _LISTED if cell.listed else cell.target
        groups.setdefault((cell.branch, cell.family, cell.toolkit, target), []).append(part)
    groups = _with_needs_in_one_file(spec, groups)
    found: list[Shard] = []
    too_large: list[Finding] = []
    count = job_counter(spec)
    for (branch, _, _, target), parts in groups.items():
        made = _split(spec, count, branch, target, parts)
        found += made
        too_large += [_too_large(spec, shard) for shard in made if shard.jobs > limit("jobs").gate]
    if too_large:
        raise InputError(too_large)
    return tuple(found)


def _with_needs_in_one_file(
    spec: Spec, groups: dict[tuple[str, str, str, str], list[Part]]
) -> dict[tuple[str, str, str, str], list[Part]]:
    """The groups of a branch that get files from one another as one, since files reach the jobs of one run alone."""
    if not hands_files(spec):
        return groups
    needs = Needs(spec, [cell for parts in groups.values() for cell, _ in parts])
    of = {
        (cell.branch, variant.name): key
        for key, parts in groups.items()
        for cell, _ in parts
        for variant in cell.variants
    }
    mixed: set[tuple[str, str, str, str]] = set()
    for key, parts in groups.items():
        given = (needs.every(cell, variant.package) for cell, _ in parts for variant in cell.variants)
        files = {one.name for links in given for _, one in links if not is_fetched(spec, one.package)}
        if others := {of[key[0], name] for name in files} - {key}:
            mixed |= {key, *others}
    found: dict[tuple[str, str, str, str], list[Part]] = {}
    for key, parts in groups.items():
        found.setdefault((key[0], "", "", _MIXED) if key in mixed else key, []).extend(parts)
    return found


def _split(spec: Spec, count: JobCount, branch: str, target: str, parts: list[Part]) -> list[Shard]:
    """Shards within the limit, as far as cells allow.

    Listed variants take the coarsest split by their names. Others fill one shard after the other in the order of
    Pythons and, within one that is too large, of ISAs. A shard but the first has the name of what it begins with, so
    that a newer Python goes into the last shard or one of its own, and moves nothing.
    """
    if target == _LISTED:
        made: list[Shard] = []
        for key_of in _listed_splits():
            by_key = _grouped(parts, key_of)
            made = [_shard(spec, count, branch, target, key, tuple(group)) for key, group in by_key.items()]
            if all(shard.jobs <= limit("jobs").gate for shard in made):
                break
        return made

    def filled(groups: Iterable[tuple[tuple[str, ...], list[Part]]], first: tuple[str, ...]) -> Iterator[Shard]:
        key, held = first, list[Part]()
        for own, group in groups:
            if held and _shard(spec, count, branch, target, key, (*held, *group)).jobs > limit("jobs").gate:
                yield _shard(spec, count, branch, target, key, tuple(held))
                key, held = own, []
            held += group
        yield _shard(spec, count, branch, target, key, tuple(held))

    if (whole := _shard(spec, count, branch, target, (), tuple(parts))).jobs <= limit("jobs").gate:
        return [whole]
    together = _together(spec, [cell for cell, _ in parts])
    groups = _grouped(parts, lambda cell: (together[cell.key][0],))
    by_python = sorted(groups.items(), key=lambda item: python_order(*item[0]))
    pythons = [((python_tag(python),), group) for (python,), group in by_python]
    return [
        finer
        for shard in filled(pythons, ())
        for finer in (
            [shard]
            if shard.jobs <= limit("jobs").gate
            else filled(_grouped(shard.cells, lambda cell: together[cell.key][1]).items(), shard.key)
        )
    ]


def _together(spec: Spec, cells: Sequence[Cell]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each cell, by key: the first Python of those that need one another, and what their shard is called after."""
    needs = Needs(spec, cells)
    of = {cell.key: {cell.key} for cell in cells}
    for cell in cells:
        for other in needs.cells_before(cell):
            whole = of[cell.key] | of[other.key]
            of |= dict.fromkeys(whole, whole)
    pythons = {cell.key: cell.python for cell in reversed(cells)}
    places = {key: at for at, key in enumerate(pythons)}
    called = {cell.key: (python_tag(cell.python), cell.isa) if _is_plain(cell) else (cell.key,) for cell in cells}
    return {
        key: (min((pythons[one] for one in whole), key=python_order), called[max(whole, key=places.__getitem__)])
        for key, whole in of.items()
    }


def _is_plain(cell: Cell) -> bool:
    """Whether nothing but a Python and an ISA is beside its accelerator."""
    own = {axis for axis, _ in cell.values}
    return "family" in own and own - {*PARTS} == {"python", "isa"} and not (cell.joined or cell.alone)


def _grouped(parts: Iterable[Part], key_of: Callable[[Cell], tuple[str, ...]]) -> dict[tuple[str, ...], list[Part]]:
    found: dict[tuple[str, ...], list[Part]] = {}
    for part in parts:
        found.setdefault(key_of(part[0]), []).append(part)
    return found


def _listed_splits() -> Iterator[Callable[[Cell], tuple[str, ...]]]:
    """Splits of listed variants: by ever more characters that their names start with."""
    yield lambda _: ()
    for length in range(1, _LONGEST_START):
        yield lambda cell, length=length: (cell.listed[:length].rstrip("-.").lower(),)  # type: ignore[misc]
    yield lambda cell: (cell.key.replace(".", "_").lower(),)


def _shard(
    spec: Spec, count: JobCount, branch: str, target: str, key: tuple[str, ...], cells: tuple[Part, ...]
) -> Shard:
    cell = cells[0][0]
    pinned, mixed = tuple(spec.branches[branch].toolkits), target == _MIXED
    stated = cell.toolkit if cell.toolkit and pinned != (cell.toolkit,) else ""  # else it is that of the branch
    toolkit = [f"{cell.family}{stated.replace('.', '_')}"] if stated and not mixed else []
    words = [f"{family_of(cell.family).toolkit or cell.family} {stated}"] if stated and not mixed else []
    if mixed or (toolkit and target == cell.family):
        target = ""
    shown = "CPU" if target == CPU else target
    target = re.sub(r"[^A-Za-z0-9_.-]", "_", target)
    shard = Shard(
        name="-".join(filter(None, ("build", branch.replace("/", "-"), *toolkit, target, *key))),
        title=" ".join(filter(None, (branch, *words, shown, *key))),
        key=key,
        branch=branch,
        toolkit="" if mixed else cell.toolkit,
        target="" if mixed else cell.target,
        jobs=OWN_JOBS + sum(count(cell) for cell, _ in cells),
        cells=cells,
        is_plain=not mixed and all(_is_plain(one) for one, _ in cells),
    )
    publishing = len(shard.publish_pools) if spec.branches[branch].publish else 0
    return replace(shard, jobs=shard.jobs + POOL_JOBS * publishing)


def _too_large(spec: Spec, shard: Shard) -> Finding:
    what, advice = "packages of one cell", "split the packages between two specs"
    if hands_files(spec):
        what, advice = "variants that get files from one another", "declare `command.fetch` of what many of them need"
    message = (
        f"{shard.name}.yml would have {shard.jobs} jobs for the {len(shard.variants)} {what}; a file can have "
        f"{limit('jobs').gate}; {advice}"
    )
    return spec.finding(("packages",), Code.TOO_MANY_JOBS, message, key=True)
