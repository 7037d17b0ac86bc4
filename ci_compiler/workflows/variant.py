"""`variant.yml`: the stages of one variant, called by `cell.yml`.

build -> cpu-test and gpu-test -> publish. A stage that no pool runs is passed no machine and shows as skipped. The
manifest and the log of a build reach the tests and publishing as one artifact. The closure travels through the binary
cache, or stays in the builder's store.

Each condition begins with `!cancelled()`. Without a status function GitHub adds `success()`, which looks at all earlier
jobs, the callers' included: a package that was skipped because it was not chosen would skip the stages of the packages
that need it (https://github.com/actions/runner/issues/491 and 2205).
"""

from __future__ import annotations

import json
from functools import lru_cache

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import is_imported_only, job_title
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import stages_of, waits_for
from ci_compiler.spec.model import Package, RunsOn, Spec
from ci_compiler.stages import Stage, StageKind
from ci_compiler.workflows.common import FORK_GUARD, expression, machine_input, runs_on
from ci_compiler.workflows.model import (
    READ,
    Concurrency,
    Input,
    Job,
    OnCall,
    Permissions,
    RunStep,
    Secret,
    Step,
    UsesStep,
    Workflow,
)
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.steps import checkout
from ci_compiler.workflows.writer import Node, Remarked

ATTEST = Permissions(
    contents="read",
    id_token=Remarked("write", "actions/attest signs with the run's identity"),
    attestations=Remarked("write", "actions/attest stores what it signed"),
    artifact_metadata=Remarked("write", "actions/attest records what it is of"),
)
"""What actions/attest needs (its README)."""

NAME = expression("inputs.name")
MANIFEST_FILE = "manifest.json"
"""The file that a build writes beside its log, and that the later stages read."""

MANIFEST = f"build-output/{MANIFEST_FILE}"
"""Its path in every job."""

RESULT = "result.json"
"""The file that a test writes beside its log, for the table at the end of a run."""

PUBLISHED = "published.json"
"""The file that publishing writes about its result, for the same table."""

BUILT = "needs.build.result == 'success'"
"""True after a build that succeeded."""


def workflow(spec: Spec) -> Workflow:
    """`variant.yml`."""
    makers = {StageKind.BUILD: _build, StageKind.TEST: _test, StageKind.PUBLISH: _publish}
    return Workflow(
        name="variant",
        on=[OnCall(inputs=_inputs(spec), secrets=secret_input(spec))],
        jobs={stage.name: makers[stage.kind](spec, stage) for stage in stages_of(spec)},
    )


def _inputs(spec: Spec) -> dict[str, Input]:
    return {
        "name": Input(description="The variant, as its recipe is called."),
        "branch": Input(description="The branch that it is built for."),
        "commit": Input(description="The commit that holds its recipe."),
        "publish": Input(description="Whether it may be published.", type="boolean"),
        "again": Input(description="Whether even what shows as published is.", type="boolean"),
        **machine_inputs(spec),
        **neighbour_inputs(spec),
        **title_inputs(spec),
    }


def title_inputs(spec: Spec) -> dict[str, Input]:
    """The inputs that name the jobs of stages that only import some package."""
    return {
        _title_input(stage): Input(description=f"The name of the job of {stage}.")
        for stage in stages_of(spec)
        if any(is_imported_only(spec, package, stage) for package in spec.packages.values())
    }


def titles(spec: Spec, package: Package) -> dict[str, str]:
    """The values of `title_inputs` for `package`."""
    named = {_title_input(stage): job_title(spec, package, stage) for stage in stages_of(spec)}
    return {name: named[name] for name in title_inputs(spec)}


def _title_input(stage: Stage) -> str:
    return f"{stage}-name"


def neighbour_inputs(spec: Spec) -> dict[str, Input]:
    """The inputs that name the other variant of each stage that takes two."""
    return {
        _neighbour_input(stage): Input(description=f"The other variant that {stage} takes.", required=False)
        for stage in stages_of(spec)
        if stage.neighbour
    }


def neighbours(cell: Cell, route: Route) -> dict[str, str]:
    """The values of `neighbour_inputs` for a cell, as suffixes; a stage that does not run has none."""
    return {_neighbour_input(stage): suffix for stage, suffix in route.beside(cell).items()}


def _neighbour_input(stage: Stage) -> str:
    return f"{stage}-beside"


def machine_inputs(spec: Spec) -> dict[str, Input]:
    """The inputs that state where each stage runs; a test that no pool runs is passed none."""
    return {
        machine_input(stage): Input(description=f"Where {stage} runs, as JSON for runs-on.", required=not stage.is_test)
        for stage in stages_of(spec)
    }


def machines(route: Route) -> dict[str, str]:
    """The values of `machine_inputs` for a cell; a stage that no pool runs has none."""
    return {machine_input(stage): _runs_on_json(pool.runs_on) for stage, pool in route.pools.items()}


@lru_cache(maxsize=1024)
def _runs_on_json(where: RunsOn) -> str:
    return json.dumps(runs_on(where))


def build_permissions(spec: Spec) -> Permissions:
    """What a build asks for, which is the most that any stage does: every caller must grant it."""
    return ATTEST if spec.attest else READ


def secret_input(spec: Spec) -> dict[str, Secret]:
    """The secret that a called workflow accepts from a caller that may publish.

    GitHub gives a called workflow's job the secrets of its environment only if the caller passes them by name:
    https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows
    """
    return {spec.backend.secret: Secret(description="What publishing needs, of the environment.")}


def secret_passed(spec: Spec) -> dict[str, str]:
    """The secret of `secret_input` as a caller passes it. In the called job its value is the environment's.

    Only the step that publishes receives it.
    """
    name = spec.backend.secret
    return {name: expression(f"secrets.{name}")}


def _job(
    spec: Spec,
    stage: Stage,
    condition: str,
    steps: list[Step],
    *,
    needs: list[str] | None = None,
    permissions: Permissions = READ,
    environment: str | None = None,
    concurrency: Concurrency | None = None,
) -> Job:
    title = _title_input(stage)
    return Job(
        name=expression(f"inputs.{title}") if title in title_inputs(spec) else stage.name,
        needs=needs,
        if_=expression(condition),
        runs_on=expression(f"fromJSON(inputs.{machine_input(stage)})"),
        timeout_minutes=spec.timeouts[stage],
        permissions=permissions,
        env={"NAME": NAME, "BRANCH": expression("inputs.branch")},
        environment=environment,
        concurrency=concurrency,
        steps=steps,
    )


def _build(spec: Spec, stage: Stage) -> Job:
    steps: list[Step] = [
        checkout(expression("inputs.commit")),
        RunStep(name="Prove that this machine can build it", run='ci-runner doctor --for build "$NAME"'),
        RunStep(name="Build", run='ci-runner build "$NAME" --branch "$BRANCH" --out build-output'),
        _keep("Keep the manifest and the log", "build", "build-output/"),
    ]
    if spec.attest:
        attested: dict[str, Node] = {"subject-path": MANIFEST}
        steps.append(UsesStep(name="Attest where it was built", uses=pinned("actions/attest"), with_=attested))
    return _job(spec, stage, f"!cancelled() && {FORK_GUARD}", steps, permissions=build_permissions(spec))


def _test(spec: Spec, stage: Stage) -> Job:
    waits = waits_for(spec, stage)
    passed = [_passed(other) for other in waits if other.is_test]
    condition = " && ".join(["!cancelled()", BUILT, f"inputs.{machine_input(stage)} != ''", FORK_GUARD, *passed])
    env = {"BESIDE": expression(f"inputs.{_neighbour_input(stage)}")} if stage.neighbour else None
    beside = ' --beside "$BESIDE"' if stage.neighbour else ""
    steps: list[Step] = [
        checkout(expression("inputs.commit")),
        FETCH_MANIFEST,
        RunStep(name="Prove that this machine can test it", run=f'ci-runner doctor --for {stage} "$NAME"'),
        RunStep(
            name="Verify the files" if spec.backend.uses_artifacts else "Fetch the closure",
            env=env,
            run=f"ci-runner fetch {MANIFEST}{beside}",
        ),
        RunStep(name="Test", env=env, run=stage.command.format(stage=stage, manifest=MANIFEST)),
        _keep("Keep the report", stage.name, "test-output/"),
    ]
    return _job(spec, stage, condition, steps, needs=[other.name for other in waits])


def _publish(spec: Spec, stage: Stage) -> Job:
    tests = [test for test in waits_for(spec, stage) if test.is_test]
    events = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
    on_branch = "github.ref == format('refs/heads/{0}', inputs.branch)"
    condition = " && ".join(["!cancelled()", "inputs.publish", events, on_branch, BUILT, *map(_passed, tests)])
    publish = RunStep(
        name="Publish",
        env={
            **secret_passed(spec),
            "COMMIT": expression("inputs.commit"),
            "AGAIN": expression("inputs.again && 'yes' || ''"),
        },
        run='ci-runner publish "$NAME" --branch "$BRANCH" --commit "$COMMIT" '
        f"--manifest {MANIFEST} --out publish-output ${{AGAIN:+--again}}",
    )
    keep = UsesStep(
        name="Keep what came of it",
        uses=pinned("actions/upload-artifact"),
        with_={"name": f"publish-{NAME}", "path": "publish-output/"},
    )
    return _job(
        spec,
        stage,
        condition,
        [checkout(expression("inputs.branch"), history=True, credentials=True), FETCH_MANIFEST, publish, keep],
        needs=["build", *(test.name for test in tests)],
        environment=spec.publish.environment,
        concurrency=Concurrency(group=f"publish-{expression('inputs.branch')}-{NAME}", cancel_in_progress=False),
    )


def _passed(test: Stage) -> str:
    """An expression that is true if `test` succeeded, or was skipped because no pool runs it."""
    skipped = f"needs.{test}.result == 'skipped' && inputs.{machine_input(test)} == ''"
    return f"(needs.{test}.result == 'success' || ({skipped}))"


def _keep(name: str, stage: str, path: str) -> UsesStep:
    """The step that uploads what `stage` left at `path`, also after a failure."""
    return UsesStep(
        name=name,
        if_=expression("!cancelled()"),
        uses=pinned("actions/upload-artifact"),
        with_={"name": f"{stage}-{NAME}", "path": path, "if-no-files-found": "ignore"},
    )


FETCH_MANIFEST = UsesStep(
    name="Fetch the manifest",
    uses=pinned("actions/download-artifact"),
    with_={"name": f"build-{NAME}", "path": "build-output"},
)
