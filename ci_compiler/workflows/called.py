"""What the called workflows take from their callers: inputs and permissions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from ci_compiler import __version__
from ci_compiler.backends.forms import CACHE_KEY
from ci_compiler.files import COMPILED_BY
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.proof import is_imported_only, job_title
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard, cell_packages, stages_of
from ci_compiler.plan.suites import bench_of, benches, has_rows, joined_legs, joined_packages, legs, suites_of
from ci_compiler.spec.model import Package, Pool, RunsOn, Spec
from ci_compiler.spec.publishers import GITHUB_RELEASE, RELEASE_TOKEN, TRUSTED
from ci_compiler.spec.versions import VARIABLE, decides_versions
from ci_compiler.stages import PUBLISH, Stage
from ci_compiler.workflows.common import (
    CELL,
    JOINED,
    REPORTED,
    SELECT,
    SELECTED,
    VARIANT,
    VERSIONS,
    expression,
    input_not_paused,
    runs_on,
    selected,
)
from ci_compiler.workflows.model import READ, Job, Permissions, input_node
from ci_compiler.workflows.writer import Node, Remarked

ATTEST: Permissions = READ | {
    "id-token": Remarked("write", "actions/attest signs with the run's identity"),
    "attestations": Remarked("write", "actions/attest stores what it signed"),
    "artifact-metadata": Remarked("write", "actions/attest records what it is of"),
}
"""What actions/attest needs (its README)."""


def called_file(cell: Cell) -> str:
    """The workflow that has the jobs of `cell`."""
    return JOINED if cell.joined else VARIANT if cell.called else CELL


def called_files(shards: Iterable[Shard]) -> frozenset[str]:
    """The workflows that those of `shards` call, and that of pull requests."""
    return frozenset(called_file(cell) for shard in shards for cell, _ in shard.cells)


def listed_packages(spec: Spec) -> Iterator[Package]:
    """The packages with a variant whose jobs are called by its name."""
    return filter(spec.lists, spec.packages.values())


def package_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that depend on the package alone: the names of jobs, and the legs of test suites."""
    suites = {
        bench.job: input_node(f"The shards of {bench.title}, as JSON.") for bench in benches(listed_packages(spec))
    }
    return title_inputs(spec) | suites


def package_values(spec: Spec, cell: Cell) -> dict[str, str]:
    """The values of `package_inputs` for the only variant of `cell`."""
    (variant,) = cell.variants
    suites = suites_of(spec, cell, variant)
    shards = {bench.job: json.dumps(legs(suites, bench)) for bench in benches(listed_packages(spec))}
    return titles(spec, spec.packages[variant.package]) | shards


def shard_inputs(spec: Spec) -> dict[str, Node]:
    """The input with the legs of the test suites of a cell, where these differ between cells."""
    said = "The shards of the test suites, by job, as JSON."
    return {SUITES: input_node(said)} if has_rows(cell_packages(spec)) else {}


def shard_values(spec: Spec, cell: Cell) -> dict[str, str]:
    """The values of `shard_inputs` for `cell`."""
    if not shard_inputs(spec):
        return {}
    found = dict[str, list[dict[str, str]]]()
    for variant in cell.variants:
        suites = suites_of(spec, cell, variant)
        found |= {bench.job_of(variant.package): legs(suites, bench) for bench in dict.fromkeys(map(bench_of, suites))}
    return {SUITES: json.dumps(found)}


def joined_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs with the legs of the test suites of a joined build."""
    return {bench.job: input_node(f"The shards of {bench.title}, as JSON.") for bench in benches(joined_packages(spec))}


def joined_values(spec: Spec, cells: Sequence[Cell]) -> dict[str, str]:
    """The values of `joined_inputs` for the build that makes all variants of `cells`."""
    return {bench.job: json.dumps(joined_legs(spec, cells, bench)) for bench in benches(joined_packages(spec))}


def title_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that name the jobs of stages that only import some package."""
    return {
        title_input(stage): input_node(f"The name of the job of {stage}.")
        for stage in stages_of(spec)
        if any(is_imported_only(spec, package, stage) for package in listed_packages(spec))
    }


def titles(spec: Spec, package: Package) -> dict[str, str]:
    """The values of `title_inputs` for `package`."""
    named = {title_input(stage): job_title(spec, package, stage) for stage in stages_of(spec)}
    return {name: named[name] for name in title_inputs(spec)}


def title_input(stage: Stage) -> str:
    """The input with the name of the job of `stage`."""
    return f"{stage}-name"


def _neighbour_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that name the other variant of each stage that takes two."""
    return {
        neighbour_input(stage): input_node(f"The other variant that {stage} takes.", required=False)
        for stage in stages_of(spec)
        if stage.neighbours
    }


def neighbours(route: Route) -> dict[str, str]:
    """The values of `_neighbour_inputs` for a cell, as suffixes; a stage that does not run has none."""
    return {neighbour_input(stage): suffix for stage, suffix in route.neighbours.items()}


def cell_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that every called workflow takes about its cell, besides its names."""
    return {
        SELECTED: input_node(_SELECTED),
        **({REPORTED: input_node(_REPORTED, required=False, default="{}")} if hands_files(spec) else {}),
        **({VERSIONS: input_node("The versions of the packages, as JSON.")} if decides_versions(spec) else {}),
        MACHINES: input_node("The pool of each stage and where it runs, as JSON."),
        **_neighbour_inputs(spec),
    }


_REPORTED = "The jobs before the caller with what they reported, as JSON."
_SELECTED = "The branch, the commit, the chosen names, and onto, which takes the place of the commit, as JSON."
"""What the input `SELECTED` has for the jobs of a cell. `onto` states where the recipes come from if the commit is one
for another branch (`sync.landing`).
"""


def versions_passed(spec: Spec) -> dict[str, str]:
    """The input with the versions that the selection decided on, where it does."""
    return {VERSIONS: expression(f"needs.{SELECT}.outputs.{VERSIONS}")} if decides_versions(spec) else {}


BY = {COMPILED_BY: __version__}
"""The variable with the version of the compiler."""


def environment(spec: Spec) -> dict[str, str]:
    """The variables of all jobs of a called workflow."""
    decided = {VARIABLE: expression(f"inputs.{VERSIONS}")} if decides_versions(spec) else {}
    return BY | decided


def route_values(*routes: Route) -> dict[str, str]:
    """The value of `MACHINES` for a cell, or for those of a joined build; a stage that no pool runs has none."""
    pools = {name: pool for route in routes for name, pool in _pools(route).items()}
    return {MACHINES: _json(tuple((name, pool.name, pool.runs_on) for name, pool in pools.items()))}


SUITES = "suites"
"""The input with the shards of test suites, by job."""

MACHINES = "machines"
"""The input with the machine of each stage, and of each bench by its `machine`, as JSON."""

MACHINE = "machine"
"""The input with the machine of the one job of a called workflow, as JSON."""


def machine(pool: Pool) -> str:
    """The value of `MACHINE` for a job on `pool`: the name of the pool, and what `runs-on` is."""
    return json.dumps(_machine(pool.name, pool.runs_on))


def _machine(name: str, where: RunsOn) -> dict[str, object]:
    return {"pool": name, "runs-on": runs_on(where)}


def pool_of(key: Stage | str) -> str:
    """The pool of a stage, or of the suites of a bench by its `machine`, as part of an expression; '' for none."""
    return f"fromJSON(inputs.{MACHINES})['{key}'].pool"


def runs_on_of(key: Stage | str) -> str:
    """The value of `runs-on` of a stage, or of the suites of a bench."""
    # Assumes `runs-on-json`.
    return expression(f"fromJSON(inputs.{MACHINES})['{key}'].runs-on")


def job_on(
    machine: Stage | str, title: str, name: str, *conditions: str, permissions: Permissions = READ, **more: Any
) -> Job:
    """The job `title` for the variant `name` on the machine of a stage, or of the suites of a bench by its `machine`.

    It runs if the run was not cancelled and `conditions` hold, and does not start while its pool or its branch is
    paused. `more` are further fields.
    """
    # Assumes `skipped-needs`.
    every = ["!cancelled()", *conditions, input_not_paused(selected("branch"), pool_of(machine))]
    return Job(
        name=title,
        if_=expression(" && ".join(every)),
        runs_on=runs_on_of(machine),
        permissions=permissions,
        env={"NAME": name, "BRANCH": expression(selected("branch"))},
        **more,
    )


def neighbour_input(stage: Stage) -> str:
    """The input with the other variant that `stage` takes."""
    return f"{stage}-beside"


def _pools(route: Route) -> dict[str, Pool]:
    """The pools of the jobs of a cell, by stage, or by the `machine` of a bench."""
    wide = {one.machine: pool for one, pool in route.suites.items() if one.is_own}
    return {stage.name: pool for stage, pool in route.pools.items() if stage is not PUBLISH} | wide


@lru_cache(maxsize=1024)
def _json(pools: tuple[tuple[str, str, RunsOn], ...]) -> str:
    return json.dumps({key: _machine(name, where) for key, name, where in pools})


def build_permissions(spec: Spec) -> Permissions:
    """What a build asks for, which is the most that any stage does: every caller must grant it."""
    # Assumes `called-permissions`, `called-identity`, `called-attestation`, `attestation`.
    return ATTEST if spec.attest else READ


def secret_passed(spec: Spec) -> dict[str, str]:
    """The publishing secrets, for the steps that may have them. Their values are those of the job's environment."""
    return {name: expression(f"secrets.{name}") for name in spec.publishing_secrets}


def publishing_permissions(spec: Spec) -> Permissions:
    """What the token of a job that publishes may do."""
    places = _places(spec)
    release: Permissions = {"contents": Remarked("write", "the release")} if GITHUB_RELEASE in places else {}
    trusted: Permissions = {"id-token": Remarked("write", "proves to the index where it comes from")}
    return READ | release | (trusted if TRUSTED in places else {})


def release_token(spec: Spec) -> dict[str, str]:
    """The token of the workflow, for the step that makes a release."""
    return {RELEASE_TOKEN: expression("github.token")} if GITHUB_RELEASE in _places(spec) else {}


def _places(spec: Spec) -> set[str]:
    """The kinds of ready publishers of the packages."""
    commands = (package.command for package in spec.packages.values())
    return {command.publisher.to for command in commands if command and command.publisher}


def record_key_passed(spec: Spec) -> dict[str, str]:
    """The key of the cache, for the step that publishes, where it signs the records of tests that passed."""
    return {CACHE_KEY: expression(f"secrets.{CACHE_KEY}")} if spec.cache and spec.backend.has_recipes else {}
