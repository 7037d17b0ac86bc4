"""`variant.yml`: the stages of one variant, called by `cell.yml`.

build -> cpu-test and gpu-test -> publish. A stage that no pool runs is passed no machine and shows as skipped. Test
suites follow the test of their stage, in a matrix job for each kind of machine that they need. The
manifest and the log of a build reach the tests and publishing as one artifact. The closure travels through the binary
cache, or stays in the builder's store.

Each condition begins with `!cancelled()`. Without a status function GitHub adds `success()`, which looks at all earlier
jobs, the callers' included: a package that was skipped because it was not chosen would skip the stages of the packages
that need it (https://github.com/actions/runner/issues/491 and 2205).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import is_imported_only, job_title
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import stages_of, waits_for
from ci_compiler.plan.suites import Bench, benches, legs, longest_minutes
from ci_compiler.spec.model import Package, RunsOn, Spec
from ci_compiler.stages import Stage, StageKind
from ci_compiler.workflows.common import FORK_GUARD, expression, runs_on
from ci_compiler.workflows.model import (
    READ,
    Job,
    Permissions,
    RunStep,
    Step,
    UsesStep,
    Workflow,
    action_step,
    input_node,
)
from ci_compiler.workflows.steps import checkout
from ci_compiler.workflows.writer import Node, Remarked

ATTEST: Permissions = READ | {
    "id-token": Remarked("write", "actions/attest signs with the run's identity"),
    "attestations": Remarked("write", "actions/attest stores what it signed"),
    "artifact-metadata": Remarked("write", "actions/attest records what it is of"),
}
"""What actions/attest needs (its README)."""

NAME = expression("inputs.name")
MANIFEST_FILE = "manifest.json"
"""The file that a build writes beside its log, and that the later stages read."""

MANIFEST = f"build-output/{MANIFEST_FILE}"
"""Its path in every job."""

RESULT = "result.json"
"""The file that a test writes beside its log, for the table at the end of a run."""

SUITE_RESULT = "suite.json"
"""The file that a test suite writes beside its log, for the same table."""

PUBLISHED = "published.json"
"""The file that publishing writes about its result, for the same table."""

BUILT = "needs.build.result == 'success'"
"""True after a build that succeeded."""


def workflow(spec: Spec) -> Workflow:
    """`variant.yml`."""
    makers = {StageKind.BUILD: _build, StageKind.TEST: _test, StageKind.PUBLISH: _publish}
    return Workflow(
        name="variant",
        on={"workflow_call": {"inputs": _inputs(spec), "secrets": secret_input(spec)}},
        jobs={
            name: job
            for stage in stages_of(spec)
            for name, job in ((stage.name, makers[stage.kind](spec, stage)), *_suites(spec, stage))
        },
    )


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "name": input_node("The variant, as its recipe is called."),
        "branch": input_node("The branch that it is built for."),
        "commit": input_node("The commit that holds its recipe."),
        "publish": input_node("Whether it may be published.", "boolean"),
        "again": input_node("Whether even what shows as published is.", "boolean"),
        **machine_inputs(spec),
        **neighbour_inputs(spec),
        **package_inputs(spec),
    }


def package_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that depend on the package alone: the names of jobs, and the legs of test suites."""
    suites = {one.job: input_node(f"The shards of {one.title}, as JSON.") for one in benches(spec.packages.values())}
    return title_inputs(spec) | suites


def package_values(spec: Spec, package: Package) -> dict[str, str]:
    """The values of `package_inputs` for `package`."""
    suites = {one.job: json.dumps(legs(package, one)) for one in benches(spec.packages.values())}
    return titles(spec, package) | suites


def title_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that name the jobs of stages that only import some package."""
    return {
        _title_input(stage): input_node(f"The name of the job of {stage}.")
        for stage in stages_of(spec)
        if any(is_imported_only(spec, package, stage) for package in spec.packages.values())
    }


def titles(spec: Spec, package: Package) -> dict[str, str]:
    """The values of `title_inputs` for `package`."""
    named = {_title_input(stage): job_title(spec, package, stage) for stage in stages_of(spec)}
    return {name: named[name] for name in title_inputs(spec)}


def _title_input(stage: Stage) -> str:
    return f"{stage}-name"


def neighbour_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that name the other variant of each stage that takes two."""
    return {
        _neighbour_input(stage): input_node(f"The other variant that {stage} takes.", required=False)
        for stage in stages_of(spec)
        if stage.neighbour
    }


def neighbours(cell: Cell, route: Route) -> dict[str, str]:
    """The values of `neighbour_inputs` for a cell, as suffixes; a stage that does not run has none."""
    return {_neighbour_input(stage): suffix for stage, suffix in route.beside(cell).items()}


def _machine_input(stage: Stage | str) -> str:
    return f"{stage}-on"


def _neighbour_input(stage: Stage) -> str:
    return f"{stage}-beside"


def machine_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that state where each stage runs; a test that no pool runs is passed none."""
    stages: dict[str, Node] = {
        _machine_input(stage): input_node(f"Where {stage} runs, as JSON for runs-on.", required=not stage.is_test)
        for stage in stages_of(spec)
    }
    suites: dict[str, Node] = {
        _machine_input(one.machine): input_node(f"Where {one.title} run, as JSON for runs-on.", required=False)
        for one in benches(spec.packages.values())
        if one.gpus > 1
    }
    return stages | suites


def machines(route: Route) -> dict[str, str]:
    """The values of `machine_inputs` for a cell; a stage that no pool runs has none."""
    wide = {one.machine: pool for one, pool in route.suites.items() if one.gpus > 1}
    pools = {stage.name: pool for stage, pool in route.pools.items()} | wide
    return {_machine_input(name): _runs_on_json(pool.runs_on) for name, pool in pools.items()}


@lru_cache(maxsize=1024)
def _runs_on_json(where: RunsOn) -> str:
    return json.dumps(runs_on(where))


def build_permissions(spec: Spec) -> Permissions:
    """What a build asks for, which is the most that any stage does: every caller must grant it."""
    return ATTEST if spec.attest else READ


def secret_input(spec: Spec) -> dict[str, Node]:
    """The secret that a called workflow accepts from a caller that may publish.

    GitHub gives a called workflow's job the secrets of its environment only if the caller passes them by name:
    https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows
    """
    return {spec.backend.secret: {"description": "What publishing needs, of the environment.", "required": False}}


def secret_passed(spec: Spec) -> dict[str, str]:
    """The secret of `secret_input` as a caller passes it. In the called job its value is the environment's.

    Only the step that publishes receives it.
    """
    name = spec.backend.secret
    return {name: expression(f"secrets.{name}")}


def _job(spec: Spec, stage: Stage, *conditions: str, permissions: Permissions = READ, **more: Any) -> Job:
    """The job of `stage`, which runs if the run was not cancelled and `conditions` hold. `more` are further fields."""
    title = _title_input(stage)
    return Job(
        name=expression(f"inputs.{title}") if title in title_inputs(spec) else stage.name,
        if_=expression(" && ".join(["!cancelled()", *conditions])),
        runs_on=expression(f"fromJSON(inputs.{_machine_input(stage)})"),
        timeout_minutes=spec.timeouts[stage],
        permissions=permissions,
        env={"NAME": NAME, "BRANCH": expression("inputs.branch")},
        **more,
    )


def _build(spec: Spec, stage: Stage) -> Job:
    steps: list[Step] = [
        checkout(expression("inputs.commit")),
        RunStep(name="Prove that this machine can build it", run='ci-runner doctor --for build "$NAME"'),
        RunStep(name="Build", run='ci-runner build "$NAME" --branch "$BRANCH" --out build-output'),
        _keep("Keep the manifest and the log", "build", "build-output/"),
    ]
    if spec.attest:
        steps.append(action_step("Attest where it was built", "actions/attest", {"subject-path": MANIFEST}))
    return _job(spec, stage, FORK_GUARD, permissions=build_permissions(spec), steps=steps)


def _test(spec: Spec, stage: Stage) -> Job:
    waits = waits_for(spec, stage)
    passed = [_passed(other) for other in waits if other.is_test]
    conditions = (BUILT, f"inputs.{_machine_input(stage)} != ''", FORK_GUARD, *passed)
    env = {"BESIDE": expression(f"inputs.{_neighbour_input(stage)}")} if stage.neighbour else None
    steps: list[Step] = [
        *_before_test(spec, stage, env),
        RunStep(name="Test", env=env, run=stage.command.format(stage=stage, manifest=MANIFEST)),
        _keep("Keep the report", stage.name, "test-output/"),
    ]
    return _job(spec, stage, *conditions, needs=[other.name for other in waits], steps=steps)


def _before_test(spec: Spec, stage: Stage, env: Mapping[str, str] | None = None) -> Iterator[Step]:
    """The steps that bring what was built to a machine that tests it; `env` names the second variant, if any."""
    yield checkout(expression("inputs.commit"))
    yield FETCH_MANIFEST
    yield RunStep(name="Prove that this machine can test it", run=f'ci-runner doctor --for {stage} "$NAME"')
    yield RunStep(
        name="Verify the files" if spec.backend.uses_artifacts else "Fetch the closure",
        env=env,
        run=f"ci-runner fetch {MANIFEST}" + (' --beside "$BESIDE"' if env else ""),
    )


def _suites(spec: Spec, stage: Stage) -> Iterator[tuple[str, Job]]:
    """The jobs of the test suites of `stage`, by id: one leg for each shard of a suite of the package."""
    for bench in benches(spec.packages.values()):
        if bench.stage is stage:
            yield bench.job, _suite_job(spec, bench)


def _suite_job(spec: Spec, bench: Bench) -> Job:
    stage, machine = bench.stage, f"inputs.{_machine_input(bench.machine)}"
    test = RunStep(
        name="Run the suite",
        env={"SUITE": expression("matrix.suite"), "SHARD": expression("matrix.shard")},
        run=f'ci-runner suite "$NAME" --suite "$SUITE" --shard "$SHARD" --manifest {MANIFEST} --out test-output',
    )
    keep = _keep("Keep the report", f"{bench.job}-{expression('strategy.job-index')}", "test-output/")
    conditions = (f"needs.{stage}.result == 'success'", f"inputs.{bench.job} != '[]'", f"{machine} != ''", FORK_GUARD)
    return Job(
        name=bench.title,
        needs=["build", stage.name],
        if_=expression(" && ".join(["!cancelled()", *conditions])),
        strategy={"fail-fast": False, "matrix": {"include": expression(f"fromJSON(inputs.{bench.job})")}},
        runs_on=expression(f"fromJSON({machine})"),
        timeout_minutes=longest_minutes(spec, bench),
        permissions=READ,
        env={"NAME": NAME, "BRANCH": expression("inputs.branch")},
        steps=[*_before_test(spec, stage), test, keep],
    )


def _publish(spec: Spec, stage: Stage) -> Job:
    tests = [test for test in waits_for(spec, stage) if test.is_test]
    suites = [one for one in benches(spec.packages.values()) if one.stage in tests]
    events = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
    on_branch = "github.ref == format('refs/heads/{0}', inputs.branch)"
    publish = RunStep(
        name="Publish",
        env=secret_passed(spec)
        | {"COMMIT": expression("inputs.commit"), "AGAIN": expression("inputs.again && 'yes' || ''")},
        run='ci-runner publish "$NAME" --branch "$BRANCH" --commit "$COMMIT" '
        f"--manifest {MANIFEST} --out publish-output ${{AGAIN:+--again}}",
    )
    result: dict[str, Node] = {"name": f"publish-{NAME}", "path": "publish-output/"}
    keep = action_step("Keep what came of it", "actions/upload-artifact", result)
    return _job(
        spec,
        stage,
        *("inputs.publish", events, on_branch, BUILT, *map(_passed, tests), *map(_suites_passed, suites)),
        needs=["build", *(test.name for test in tests), *(one.job for one in suites)],
        environment=spec.publish.environment,
        concurrency={"group": f"publish-{expression('inputs.branch')}-{NAME}", "cancel-in-progress": False},
        steps=[checkout(expression("inputs.branch"), history=True, credentials=True), FETCH_MANIFEST, publish, keep],
    )


def _passed(test: Stage) -> str:
    """An expression that is true if `test` succeeded, or was skipped because no pool runs it."""
    skipped = f"needs.{test}.result == 'skipped' && inputs.{_machine_input(test)} == ''"
    return f"(needs.{test}.result == 'success' || ({skipped}))"


def _suites_passed(bench: Bench) -> str:
    """An expression that is true if the suites of `bench` succeeded, if there are none, or if no pool runs them."""
    absent = f"inputs.{bench.job} == '[]' || inputs.{_machine_input(bench.machine)} == ''"
    return f"(needs.{bench.job}.result == 'success' || (needs.{bench.job}.result == 'skipped' && ({absent})))"


def _keep(name: str, stage: str, path: str) -> UsesStep:
    """The step that uploads what `stage` left at `path`, also after a failure."""
    files: dict[str, Node] = {"name": f"{stage}-{NAME}", "path": path, "if-no-files-found": "ignore"}
    return action_step(name, "actions/upload-artifact", files, if_=expression("!cancelled()"))


FETCH_MANIFEST = action_step(
    "Fetch the manifest", "actions/download-artifact", {"name": f"build-{NAME}", "path": "build-output"}
)
