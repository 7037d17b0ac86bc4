"""The jobs of one variant: those of a package in `cell.yml`, or those of a listed variant in `variant.yml`.

build -> cpu-test and gpu-test -> publish. A build waits for the builds that it needs and for nothing else of theirs.
Publishing waits for the tests of the variant and of everything that it needs. A stage that no pool runs is passed no
machine and shows as skipped. The manifest and the log of a build reach the tests and publishing as one artifact. The
closure travels through the binary cache, or stays in the builder's store.

Each condition begins with `!cancelled()`. Without a status function GitHub adds `success()`, which looks at all earlier
jobs, the callers' included: a package that was skipped because it was not chosen would skip the stages of the packages
that need it (https://github.com/actions/runner/issues/491 and 2205).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.proof import is_imported_only, job_title
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import stages_of, waits_for
from ci_compiler.spec.model import Package, RunsOn, Spec
from ci_compiler.stages import BUILD, Stage, StageKind
from ci_compiler.variant import variant_name
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

MANIFEST_FILE = "manifest.json"
"""The file that a build writes beside its log, and that the later stages read."""

MANIFEST = f"build-output/{MANIFEST_FILE}"
"""Its path in every job."""

RESULT = "result.json"
"""The file that a test writes beside its log, for the table at the end of a run."""

PUBLISHED = "published.json"
"""The file that publishing writes about its result, for the same table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the jobs of a called workflow are for: a package of the cell, or the variant that the caller names (None).

    `needs` are the packages of the cell that it needs, directly and transitively.
    """

    package: Package | None = None
    needs: tuple[Subject, ...] = ()

    @property
    def name(self) -> str:
        """The variant's name, as text with an expression."""
        return variant_name(self.package.name, expression("inputs.cell")) if self.package else expression("inputs.name")

    @property
    def chosen(self) -> str:
        """An expression that is true if the run builds the variant."""
        if self.package is None:
            return "true"
        return f"contains(fromJSON(inputs.chosen), format('{variant_name(self.package.name, '{0}')}', inputs.cell))"

    def job(self, stage: Stage) -> str:
        """The id of the job of `stage`. Stages have no underscore in their names, so that ids are unique."""
        return f"{self.package.name}_{stage}" if self.package else stage.name

    def title(self, spec: Spec, stage: Stage) -> str:
        """The name of the job of `stage`. On GitHub it follows the caller's: `3.13 avx2 / pytorch / build`."""
        if self.package:
            return f"{self.package.name} / {job_title(spec, self.package, stage)}"
        title = _title_input(stage)
        return expression(f"inputs.{title}") if title in title_inputs(spec) else stage.name

    def beside(self, stage: Stage) -> str:
        """The name of the other variant that `stage` takes."""
        other = expression(f"inputs.{_neighbour_input(stage)}")
        return variant_name(self.package.name, other) if self.package else other

    def succeeded(self, stage: Stage) -> str:
        """An expression that is true if the job of `stage` succeeded."""
        return f"needs.{self.job(stage)}.result == 'success'"

    def passed(self, test: Stage) -> str:
        """An expression that is true if `test` succeeded, or was skipped because no pool runs it."""
        skipped = f"needs.{self.job(test)}.result == 'skipped' && inputs.{_machine_input(test)} == ''"
        return f"({self.succeeded(test)} || ({skipped}))"


def workflow(spec: Spec) -> Workflow:
    """`variant.yml`."""
    return Workflow(
        name="variant",
        on={"workflow_call": {"inputs": _inputs(spec), "secrets": secret_input(spec)}},
        jobs=jobs(spec, Subject()),
    )


def jobs(spec: Spec, subject: Subject) -> dict[str, Job]:
    """The jobs of `subject` by id, one per stage."""
    makers = {StageKind.BUILD: _build, StageKind.TEST: _test, StageKind.PUBLISH: _publish}
    return {subject.job(stage): makers[stage.kind](spec, subject, stage) for stage in stages_of(spec)}


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "name": input_node("The variant, as its recipe is called."),
        "branch": input_node("The branch that it is built for."),
        "commit": input_node("The commit that holds its recipe."),
        "publish": input_node("Whether it may be published.", "boolean"),
        "again": input_node("Whether even what shows as published is.", "boolean"),
        **machine_inputs(spec),
        **neighbour_inputs(spec),
        **title_inputs(spec),
    }


def title_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that name the jobs of stages that only import some package."""
    return {
        _title_input(stage): input_node(f"The name of the job of {stage}.")
        for stage in stages_of(spec)
        if any(is_imported_only(spec, one, stage) for one in spec.packages.values() if spec.lists(one))
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


def _machine_input(stage: Stage) -> str:
    return f"{stage}-on"


def _neighbour_input(stage: Stage) -> str:
    return f"{stage}-beside"


def machine_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that state where each stage runs; a test that no pool runs is passed none."""
    return {
        _machine_input(stage): input_node(f"Where {stage} runs, as JSON for runs-on.", required=not stage.is_test)
        for stage in stages_of(spec)
    }


def machines(route: Route) -> dict[str, str]:
    """The values of `machine_inputs` for a cell; a stage that no pool runs has none."""
    return {_machine_input(stage): _runs_on_json(pool.runs_on) for stage, pool in route.pools.items()}


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


def _job(
    spec: Spec, subject: Subject, stage: Stage, *conditions: str, permissions: Permissions = READ, **more: Any
) -> Job:
    """The job of `stage`, which runs if the run was not cancelled and `conditions` hold. `more` are further fields."""
    return Job(
        name=subject.title(spec, stage),
        if_=expression(" && ".join(["!cancelled()", *conditions])),
        runs_on=expression(f"fromJSON(inputs.{_machine_input(stage)})"),
        timeout_minutes=spec.timeouts[stage],
        permissions=permissions,
        env={"NAME": subject.name, "BRANCH": expression("inputs.branch")},
        **more,
    )


def _build(spec: Spec, subject: Subject, stage: Stage) -> Job:
    steps: list[Step] = [
        checkout(expression("inputs.commit")),
        RunStep(name="Prove that this machine can build it", run='ci-runner doctor --for build "$NAME"'),
        RunStep(name="Build", run='ci-runner build "$NAME" --branch "$BRANCH" --out build-output'),
        _keep("Keep the manifest and the log", subject, stage, "build-output/"),
    ]
    if spec.attest:
        steps.append(action_step("Attest where it was built", "actions/attest", {"subject-path": MANIFEST}))
    chosen = [subject.chosen] if subject.package else []
    built = [f"({need.succeeded(stage)} || !{need.chosen})" for need in subject.needs]
    return _job(
        spec,
        subject,
        stage,
        *(*chosen, *built, FORK_GUARD),
        permissions=build_permissions(spec),
        needs=[need.job(stage) for need in subject.needs] or None,
        steps=steps,
    )


def _test(spec: Spec, subject: Subject, stage: Stage) -> Job:
    waits = waits_for(spec, stage)
    passed = [subject.passed(other) for other in waits if other.is_test]
    conditions = (subject.succeeded(BUILD), f"inputs.{_machine_input(stage)} != ''", FORK_GUARD, *passed)
    env = {"BESIDE": subject.beside(stage)} if stage.neighbour else None
    beside = ' --beside "$BESIDE"' if stage.neighbour else ""
    steps: list[Step] = [
        checkout(expression("inputs.commit")),
        _fetch_manifest(subject),
        RunStep(name="Prove that this machine can test it", run=f'ci-runner doctor --for {stage} "$NAME"'),
        RunStep(
            name="Verify the files" if spec.backend.uses_artifacts else "Fetch the closure",
            env=env,
            run=f"ci-runner fetch {MANIFEST}{beside}",
        ),
        RunStep(name="Test", env=env, run=stage.command.format(stage=stage, manifest=MANIFEST)),
        _keep("Keep the report", subject, stage, "test-output/"),
    ]
    return _job(spec, subject, stage, *conditions, needs=[subject.job(other) for other in waits], steps=steps)


def _publish(spec: Spec, subject: Subject, stage: Stage) -> Job:
    waits = waits_for(spec, stage)
    events = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
    on_branch = "github.ref == format('refs/heads/{0}', inputs.branch)"
    proved = [f"(!{need.chosen} || ({' && '.join(_proved(need, waits))}))" for need in subject.needs]
    publish = RunStep(
        name="Publish",
        env=secret_passed(spec)
        | {"COMMIT": expression("inputs.commit"), "AGAIN": expression("inputs.again && 'yes' || ''")},
        run='ci-runner publish "$NAME" --branch "$BRANCH" --commit "$COMMIT" '
        f"--manifest {MANIFEST} --out publish-output ${{AGAIN:+--again}}",
    )
    result: dict[str, Node] = {"name": f"publish-{subject.name}", "path": "publish-output/"}
    keep = action_step("Keep what came of it", "actions/upload-artifact", result)
    fetch = _fetch_manifest(subject)
    return _job(
        spec,
        subject,
        stage,
        *("inputs.publish", events, on_branch, *_proved(subject, waits), *proved),
        needs=[one.job(other) for one in (subject, *subject.needs) for other in waits],
        environment=spec.publish.environment,
        concurrency={
            "group": f"publish-{expression('inputs.branch')}-{subject.name}",
            "cancel-in-progress": False,
            "queue": "max",  # so that a newer one does not replace a pending one
        },
        steps=[checkout(expression("inputs.branch"), history=True, credentials=True), fetch, publish, keep],
    )


def _proved(subject: Subject, waits: tuple[Stage, ...]) -> Iterator[str]:
    """Expressions that are true if `subject` was built and passed the tests among `waits`."""
    return (subject.passed(stage) if stage.is_test else subject.succeeded(stage) for stage in waits)


def _keep(name: str, subject: Subject, stage: Stage, path: str) -> UsesStep:
    """The step that uploads what `stage` left at `path`, also after a failure."""
    files: dict[str, Node] = {"name": f"{stage}-{subject.name}", "path": path, "if-no-files-found": "ignore"}
    return action_step(name, "actions/upload-artifact", files, if_=expression("!cancelled()"))


def _fetch_manifest(subject: Subject) -> UsesStep:
    files: dict[str, Node] = {"name": f"{BUILD}-{subject.name}", "path": "build-output"}
    return action_step("Fetch the manifest", "actions/download-artifact", files)
