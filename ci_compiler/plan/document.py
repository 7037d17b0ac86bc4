"""The plan as a public document: what `ci-compile plan --json` prints, and every other list of its rows in JSON.

Each class declares one kind of row; the JSON Schema (`plan_schema`) and the JSON (`as_json`) follow from the
declarations. A reader needs nothing but the document: rows refer to one another by name. An incompatible change raises
`VERSION`; a new key does not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import LeftOut
from ci_compiler.plan.sharding import Shard, job_name, waits_for
from ci_compiler.register import url
from ci_compiler.spec.declare import declared, form, key, keys_of
from ci_compiler.spec.model import Spec
from ci_compiler.spec.schema import schema_of
from ci_compiler.stages import Stage, StageKind, TestPolicy, stages
from ci_compiler.variant import variant_name

VERSION: Literal[1] = 1
"""The version of the document's format."""

StageName = Annotated[Stage, form("stage-name")]


@declared("spec")
class SpecRow:
    """The spec that the plan is made from."""

    file: str = key("Its path, as findings show it.")
    owner: str = key("FloxHub organisation (or user) that the variants are published to.")
    backend: str = key("What builds and publishes the variants.")


@declared("branch")
class BranchRow:
    """A git branch that carries recipes."""

    name: str = key("Its name.")
    cuda: str = key("CUDA toolkit of its GPU variants: `12.8`.")
    nixpkgs: str = key("The nixpkgs commit that its recipes are pinned to.")
    versions: Mapping[str, str] = key("The version of each package.")


@declared("package")
class PackageRow:
    """A package."""

    name: str = key("Its name, with which the names of its variants begin.")
    title: str = key("Its name in documents.")
    repository: str = key("The other repository that builds it; empty if its variants are part of this plan.")


@declared("pool")
class PoolRow:
    """A pool of like machines, and how a job addresses them: by labels, in a group or not, or by a scale set."""

    name: str = key("Its name.")
    labels: tuple[str, ...] = key("The labels of its runners.")
    group: str = key("The group of its runners, or empty.")
    scale_set: str = key("The name of a runner scale set, in place of labels and group, or empty.")
    system: str = key("Nix system of its machines.")
    stages: tuple[StageName, ...] = key("The stages that it may run.")
    cpu: tuple[str, ...] = key("Instruction sets that its CPUs have, beside those that these include.")
    gpu: str = key("Architecture of its GPUs, or empty.")
    count: int = key("Number of machines.")
    cores: int = key("Cores of a machine.")
    memory: int = key("Memory of a machine, in GB.")
    disk: int = key("Disk of a machine, in GB.")


@declared("stage")
class StageRow:
    """A stage of every variant."""

    name: StageName = key("Its name, in routes and in the names of jobs.")
    kind: StageKind = key("What it does to a variant.")
    policy: TestPolicy = key("What happens where no pool can run it; `never`: the spec switches it off.")
    needs_gpu: bool = key("Whether it needs a GPU that runs the variant's code; a CPU cell then has no such stage.")
    needs_isa: bool = key("Whether it needs a CPU that has the variant's instruction set.")
    waits_for: tuple[StageName, ...] = key("The stages of the same variant that it waits for, where they run.")
    timeout: int = key("Minutes after which GitHub ends its job.")


@declared("variant")
class VariantRow:
    """A package built for one cell."""

    name: str = key("Its name, which is unique on its branch.")
    package: str = key("The package.")
    version: str = key("The package's version on the branch.")
    recipe: str = key("The path of its recipe, from the root of the repository.")
    needs: tuple[str, ...] = key("The variants that it is built with; those of another repository are not in the plan.")


@declared("skipped")
class SkippedRow:
    """A stage that applies to a cell and is not run."""

    skipped: str = key("The reason.")


@declared("axes")
class AxesRow:
    """The values of a cell on the axes of the matrix."""

    branch: str = key("The branch.")
    python: str = key("The Python version: `3.13`.")
    cuda: str = key("The CUDA toolkit: `12.8`; empty in a CPU cell.")
    gpu: str = key("The GPU architecture; `cpu` in a CPU cell.")
    isa: str = key("The instruction set of the CPU.")
    system: str = key("The Nix system.")
    suffix: str = key("What the names of the cell's variants share: `python313-cuda12_8-sm90-avx2`.")


@declared("cell")
class CellRow(AxesRow):
    """A branch, Python, toolkit, GPU and instruction set, for which every package of the branch is built."""

    job: str = key("Its job in a run of the shard; a stage's job is called `JOB / PACKAGE / STAGE`.")
    route: Mapping[StageName, str | SkippedRow] = key(
        "The pool that runs each stage, or why none does. A stage that does not apply to the cell is absent."
    )
    beside: Mapping[StageName, str] = key(
        "For each stage that takes another variant on the same machine: the suffix of that variant's cell."
    )
    variants: tuple[VariantRow, ...] = key("Its variants, each after those that it needs.")


@declared("shard")
class ShardRow:
    """A workflow file with the cells that it builds."""

    name: str = key("Its name.")
    path: str = key("The path of the file, from the root of the repository.")
    branch: str = key("The branch that it builds.")
    gpu: str = key("The GPU architecture of its cells, or `cpu`.")
    jobs: int = key("The jobs of a run that builds everything, as GitHub counts them.")
    cells: tuple[CellRow, ...] = key("Its cells, in the order of the file.")


@declared("left-out")
class LeftOutRow:
    """A part of the matrix that is selected and not built."""

    branch: str = key("The branch.")
    gpu: str = key("The GPU architecture, or `cpu`.")
    isa: str = key("The instruction set.")
    python: str = key("The Python version; empty for all.")
    package: str = key("The package; empty for all.")
    code: str = key("The code of the rule.")
    url: str = key("The address of the code's documentation.")
    reason: str = key("Why it is not built.")
    place: str = key("The place in the spec that selects or excludes it: `FILE:LINE:COLUMN`.")


@declared("warning")
class WarningRow:
    """A finding about the spec that is not an error."""

    code: str = key("Its code.")
    url: str = key("The address of the code's documentation.")
    message: str = key("What is wrong, and what is right.")
    place: str = key("Its place in the spec: `FILE:LINE:COLUMN`.")


@declared(title="the plan of ci-compiler")
class PlanDocument:
    """The plan of a spec: which variants are built, in which workflow files and on which pools of machines."""

    version: Literal[1] = key("The version of this format. New keys do not raise it.")
    spec: SpecRow = key()
    branches: tuple[BranchRow, ...] = key("The branches, in the order of the spec.")
    packages: tuple[PackageRow, ...] = key("The packages, in the order of the spec.")
    pools: tuple[PoolRow, ...] = key("The pools, in the order of the spec.")
    stages: tuple[StageRow, ...] = key("The stages, in the order in which they run.")
    shards: tuple[ShardRow, ...] = key("The workflow files. Each variant is in exactly one.")
    left_out: tuple[LeftOutRow, ...] = key("The parts of the matrix that are not built.")
    warnings: tuple[WarningRow, ...] = key("The findings that are not errors.")


def document(plan: Plan, branch: str | None = None) -> PlanDocument:
    """The document of `plan`; with `branch`, its branches, shards and left-out rows are those of this branch."""
    spec = plan.spec
    return PlanDocument(
        version=VERSION,
        spec=SpecRow(file=spec.document.file, owner=spec.owner, backend=spec.backend.name),
        branches=tuple(
            BranchRow(**_taken(BranchRow, one)) for one in spec.branches.values() if branch in {None, one.name}
        ),
        packages=tuple(
            PackageRow(name=one.name, title=one.title, repository=one.repository.name if one.repository else "")
            for one in spec.packages.values()
        ),
        pools=tuple(PoolRow(**_taken(PoolRow, one.runs_on, one)) for one in spec.pools),
        stages=tuple(_stage(spec, stage) for stage in stages()),
        shards=tuple(_shard(spec, shard) for shard in plan.shards if branch in {None, shard.branch}),
        left_out=tuple(left_out_row(spec, one) for one in plan.judged.left_out if branch in {None, one.branch}),
        warnings=tuple(map(_warning, plan.warnings)),
    )


def plan_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    return schema_of(PlanDocument)


def as_json(value: Any) -> Any:
    """A row, or a value in one, as plain JSON."""
    if isinstance(value, Stage):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        cls: Any = type(value)
        return {one.name: as_json(getattr(value, one.field)) for one in keys_of(cls)}
    if isinstance(value, Mapping):
        return {as_json(name): as_json(item) for name, item in value.items()}
    return list(map(as_json, value)) if isinstance(value, tuple) else value


# The rows.


def variant_json(spec: Spec, cell: Cell, variant: Variant) -> dict[str, Any]:
    """A variant together with the axes of its cell, as plain JSON: an entry in a list of variants."""
    return {**as_json(_variant(spec, cell, variant)), **as_json(axes_row(cell))}


def axes_row(cell: Cell) -> AxesRow:
    """The axes of `cell`."""
    return AxesRow(**_taken(AxesRow, cell))


def route_rows(route: Route) -> dict[Stage, str | SkippedRow]:
    """The pool of each stage, or why none runs it, in the order of the stages."""
    skipped = {stage: SkippedRow(skipped=reason) for stage, reason in route.skipped.items()}
    rows: dict[Stage, str | SkippedRow] = {stage: pool.name for stage, pool in route.pools.items()} | skipped
    return {stage: rows[stage] for stage in stages() if stage in rows}


def left_out_row(spec: Spec, one: LeftOut) -> LeftOutRow:
    """The row of a part of the matrix that is left out."""
    return LeftOutRow(**_taken(LeftOutRow, one), url=url(one.code), place=str(spec.place(*one.path)))


def _warning(one: Finding) -> WarningRow:
    return WarningRow(code=one.code.value, url=url(one.code), message=one.message, place=str(one.place))


def _taken(row: type, *sources: object) -> dict[str, Any]:
    """The fields of `row` that `sources` have under the same names."""
    names = [one.field for one in keys_of(row)]
    return {name: getattr(source, name) for source in sources for name in names if hasattr(source, name)}


def _stage(spec: Spec, stage: Stage) -> StageRow:
    return StageRow(
        name=stage,
        kind=stage.kind,
        policy=spec.tests.get(stage, TestPolicy.REQUIRED),
        needs_gpu=stage.needs_gpu,
        needs_isa=stage.needs_isa,
        waits_for=waits_for(spec, stage),
        timeout=spec.timeouts[stage],
    )


def _shard(spec: Spec, shard: Shard) -> ShardRow:
    return ShardRow(
        name=shard.name,
        path=shard.path,
        branch=shard.branch,
        gpu=shard.gpu,
        jobs=shard.jobs,
        cells=tuple(_cells(spec, shard.cells)),
    )


def _cells(spec: Spec, cells: Iterable[tuple[Cell, Route]]) -> Iterable[CellRow]:
    for cell, route in cells:
        yield CellRow(
            **_taken(AxesRow, cell),
            job=job_name(cell),
            route=route_rows(route),
            beside=route.beside(cell),
            variants=tuple(_variant(spec, cell, variant) for variant in cell.variants),
        )


def _variant(spec: Spec, cell: Cell, variant: Variant) -> VariantRow:
    return VariantRow(
        name=variant.name,
        package=variant.package,
        version=spec.branches[cell.branch].versions[variant.package],
        recipe=spec.packages[variant.package].source(variant.name),
        needs=tuple(variant_name(need, cell.suffix) for need in spec.packages[variant.package].needs),
    )
