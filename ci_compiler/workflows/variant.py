"""The jobs of one variant: those of a package in `cell.yml`, or those of a listed variant in `variant.yml`.

build -> cpu-test and gpu-test. A build waits for the builds that it needs and for no other job. A stage that no pool
runs is passed no machine and shows as skipped. Test suites follow the test of their stage, in a matrix job for each
kind of machine that they need. The manifest and the log of a build reach the tests and publishing as one artifact. The
closure travels through the binary cache, or stays in the builder's store. One job of the shard publishes (`shard`).

Each condition begins with `!cancelled()`. Without a status function GitHub adds `success()`, which looks at all earlier
jobs, the callers' included: a package that was skipped because it was not chosen would skip the stages of the packages
that need it (https://github.com/actions/runner/issues/491 and 2205).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.proof import job_title
from ci_compiler.plan.sharding import stages_of, waits_for
from ci_compiler.plan.suites import Bench, benches, has_rows, legs, longest_minutes
from ci_compiler.spec.model import Package, Spec
from ci_compiler.stages import BUILD, Stage, StageKind
from ci_compiler.variant import variant_name
from ci_compiler.workflows.artifacts import BESIDE_MANIFEST, MANIFEST, SBOM, SBOM_TYPE, SUBJECTS, artifact_expression
from ci_compiler.workflows.called import (
    SUITES,
    build_permissions,
    cell_inputs,
    environment,
    job_on,
    listed_packages,
    neighbour_input,
    package_inputs,
    pool_of,
    title_input,
    title_inputs,
)
from ci_compiler.workflows.common import (
    FORK_GUARD,
    RUN_GUARD,
    expression,
    for_each,
    left_out,
    result_of,
    selected,
)
from ci_compiler.workflows.model import (
    Job,
    RunStep,
    Step,
    UsesStep,
    Workflow,
    action_step,
    input_node,
)
from ci_compiler.workflows.steps import (
    NEEDS_OPTION,
    NOTE_NOT_BUILT,
    before_test,
    build_step,
    build_steps,
    suite_step,
    upload,
)
from ci_compiler.workflows.writer import Node

TEST_STEP = "Test"
"""The name of the step that tests, in the job of a test stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledSubject:
    """What the jobs of a called workflow are for: a package of the cell, or the variant that the caller names (None).

    `needs` are the packages of the cell that it needs, directly and transitively.
    """

    package: Package | None = None
    needs: tuple[CalledSubject, ...] = ()

    @property
    def name(self) -> str:
        """The variant's name, as text with an expression."""
        return variant_name(self.package.name, expression("inputs.cell")) if self.package else expression("inputs.name")

    @property
    def chosen(self) -> str:
        """An expression that is true if the run builds the variant."""
        if self.package is None:
            return "true"
        name = f"format('{variant_name(self.package.name, '{0}')}', inputs.cell)"
        return f"contains(fromJSON({selected('chosen')}), {name})"

    def job(self, stage: Stage) -> str:
        """The id of the job of `stage`. Stages have no underscore in their names, so that ids are unique."""
        return f"{self.package.name}_{stage}" if self.package else stage.name

    def title(self, spec: Spec, stage: Stage) -> str:
        """The name of the job of `stage`. On GitHub it follows the caller's: `3.13 avx2 / pytorch / build`."""
        if self.package:
            return f"{self.package.name} / {job_title(spec, self.package, stage)}"
        title = title_input(stage)
        return expression(f"inputs.{title}") if title in title_inputs(spec) else stage.name

    def neighbour(self, stage: Stage) -> str:
        """The name of the other variant that `stage` takes, where the caller names one."""
        other = expression(f"inputs.{neighbour_input(stage)}")
        return variant_name(self.package.name, other) if self.package else other

    def beside(self, stage: Stage) -> str:
        """As `neighbour`; '' where the caller names none."""
        given = f"inputs.{neighbour_input(stage)}"
        if self.package:
            return expression(f"{given} && format('{variant_name(self.package.name, '{0}')}', {given}) || ''")
        return self.neighbour(stage)

    def succeeded(self, stage: Stage) -> str:
        """An expression that is true if the job of `stage` succeeded."""
        return f"needs.{self.job(stage)}.result == 'success'"

    def reported(self, output: str) -> str:
        """An expression for an output of the build, which reaches other jobs apart from its artifact."""
        return f"needs.{self.job(BUILD)}.outputs.{output}"

    def passed(self, spec: Spec, test: Stage) -> str:
        """An expression that is true if `test` succeeded, or was skipped since no pool or no profile runs it."""
        left = left_out(spec, test)
        none = f"({pool_of(test)} == '' || {left})" if left else f"{pool_of(test)} == ''"
        skipped = f"needs.{self.job(test)}.result == 'skipped' && {none}"
        return f"({self.succeeded(test)} || ({skipped}))"

    def gets_files(self, spec: Spec) -> bool:
        """Whether it is built and tested with the files of others, or may be."""
        return hands_files(spec, self.package.name if self.package else "")

    def benches(self, spec: Spec) -> tuple[Bench, ...]:
        """What the test suites of the package need, or those of any package that can be listed."""
        return benches([self.package] if self.package else listed_packages(spec))

    @property
    def has_rows(self) -> bool:
        """Whether the caller passes the shards of the test suites of the package."""
        return self.package is not None and has_rows([self.package])

    def suites(self, bench: Bench) -> str:
        """The id of the job of the suites that need `bench`."""
        return bench.job_of(self.package.name) if self.package else bench.job


def workflow(spec: Spec) -> Workflow:
    """`variant.yml`."""
    return Workflow(
        name="variant",
        on={"workflow_call": {"inputs": _inputs(spec), "outputs": outputs(spec, [CalledSubject()])}},
        env=environment(spec),
        jobs=jobs(spec, CalledSubject()),
    )


def jobs(spec: Spec, subject: CalledSubject) -> dict[str, Job]:
    """The jobs of `subject` by id: one per stage, and those of its test suites."""
    makers = {StageKind.BUILD: _build, StageKind.TEST: _test}
    found: dict[str, Job] = {}
    for stage in stages_of(spec):
        found[subject.job(stage)] = makers[stage.kind](spec, subject, stage)
        found |= {
            subject.suites(bench): _suites(spec, subject, bench)
            for bench in subject.benches(spec)
            if bench.stage is stage
        }
    return found


def outputs(spec: Spec, subjects: Iterable[CalledSubject]) -> dict[str, Node]:
    """The outputs of a called workflow, each under the id of its job, which no other job can set.

    The job that publishes compares the artifacts with them. A build reports the digest of its manifest, a test that of
    its result. Suites are legs of one job, whose outputs would overwrite each other: they report how the job ended.
    """
    found: dict[str, Node] = {}
    for subject in subjects:
        for stage in stages_of(spec):
            job, what = subject.job(stage), _REPORTED[stage.kind]
            value = expression(f"jobs.{job}.outputs.{what}")
            found[job] = {"description": f"The digest of the {what} of {job}.", "value": value}
        for bench in subject.benches(spec):
            job = subject.suites(bench)
            found[job] = {"description": f"How {job} ended.", "value": result_of(job)}
    return found


MANIFEST_OUTPUT = "manifest"
"""The output of a build with the digest of its manifest."""

_REPORTED = {StageKind.BUILD: MANIFEST_OUTPUT, StageKind.TEST: "result"}
"""The output of a job with the digest of the file that it wrote."""


def reported_as(spec: Spec, cell: Cell, variant: Variant) -> dict[Stage | Bench, str]:
    """The names of the outputs of the called workflow of `cell` that are for `variant`, by what reports them."""
    subject = CalledSubject(package=None if cell.called else spec.packages[variant.package])
    stages = {stage: subject.job(stage) for stage in stages_of(spec)}
    return stages | {bench: subject.suites(bench) for bench in subject.benches(spec)}


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "name": input_node("The variant, as its recipe is called."),
        **cell_inputs(spec),
        **package_inputs(spec),
    }


def _build(spec: Spec, subject: CalledSubject, stage: Stage) -> Job:
    steps: list[Step] = [NOTE_NOT_BUILT, _keep(spec, "Keep the manifest and the log", subject, stage, "build-output/")]
    # Assumes `attestation-sbom`.
    sbom = {"subject-checksums": SUBJECTS, "predicate-type": SBOM_TYPE, "predicate-path": SBOM}
    attest = [
        action_step("Attest where it was built", "actions/attest", {"subject-checksums": SUBJECTS}),
        action_step("Attest what it is made of", "actions/attest", sbom),
    ]
    files, step = subject.gets_files(spec), _build_step(spec, subject)
    return job_on(
        stage,
        subject.title(spec, stage),
        subject.name,
        *([subject.chosen] if subject.package else []),
        *(f"({need.succeeded(stage)} || !{need.chosen})" for need in subject.needs),
        FORK_GUARD,
        timeout_minutes=spec.timeouts[stage],
        permissions=build_permissions(spec),
        needs=[need.job(stage) for need in subject.needs] or None,
        outputs={key: expression(f"steps.build.outputs.{key}") for key in (MANIFEST_OUTPUT, *_staged(spec))},
        steps=build_steps(spec, step, steps, gets_files=files) + (attest if spec.attest else []),
    )


def _build_step(spec: Spec, subject: CalledSubject) -> RunStep:
    """The step that builds, with the staged builds of what it needs."""
    step = build_step(gets_files=subject.gets_files(spec))
    staged = [
        expression(f"{need.succeeded(BUILD)} && {need.reported(output)} || ''")
        for need in subject.needs
        for output in _staged(spec)
    ]
    if not staged:
        return step
    return replace(step, env={"STAGED": " ".join(staged)}, run=f'{step.run} --staged "$STAGED"')


def _staged(spec: Spec) -> tuple[str, ...]:
    """The output of a build that names its staged build, where builds travel through a cache."""
    return ("staged",) if spec.cache and spec.backend.has_recipes else ()


def _test(spec: Spec, subject: CalledSubject, stage: Stage) -> Job:
    waits, left = waits_for(spec, stage), left_out(spec, stage)
    env = {"BESIDE": subject.beside(stage)} if stage.neighbours else None
    command = stage.command.format(stage=stage, manifest=MANIFEST, beside=BESIDE_MANIFEST)
    command += NEEDS_OPTION if subject.gets_files(spec) else ""
    return job_on(
        stage,
        subject.title(spec, stage),
        subject.name,
        subject.succeeded(BUILD),
        f"{pool_of(stage)} != ''",
        *([f"!{left}"] if left else []),
        FORK_GUARD if stage.in_requests else RUN_GUARD,
        *(subject.passed(spec, other) for other in waits if other.is_test),
        timeout_minutes=spec.timeouts[stage],
        needs=[subject.job(other) for other in waits],
        outputs={"result": expression("steps.test.outputs.result")},
        steps=[
            *_before_test(spec, subject, stage, env),
            RunStep(name=TEST_STEP, id="test", env=env, run=command),
            _keep(spec, "Keep the report", subject, stage, "test-output/"),
        ],
    )


def _before_test(spec: Spec, subject: CalledSubject, stage: Stage, env: Mapping[str, str] | None = None) -> list[Step]:
    """The steps that bring what was built to a machine that tests it; `env` names the second variant, if any."""
    fetched = [_fetch_manifest(spec, subject)]
    fetched += [_fetch_second_manifest(spec, subject, stage)] if stage.neighbours else []
    fetch = RunStep(
        name="Verify the files" if spec.backend.uses_artifacts else "Fetch the closure",
        env={**(env or {}), "DIGEST": expression(subject.reported(MANIFEST_OUTPUT))},
        run=" ".join([f'ci-runner fetch {MANIFEST} --digest "$DIGEST"', *_beside(stage)]),
    )
    return before_test(spec, stage, fetched, fetch, gets_files=subject.gets_files(spec))


def _beside(stage: Stage) -> Iterator[str]:
    """The options that fetch the second build of `stage`, and keep its manifest if another one can take its place."""
    if stage.neighbours:
        yield '--beside "$BESIDE"'
        yield f"--beside-manifest {BESIDE_MANIFEST}"


def _suites(spec: Spec, subject: CalledSubject, bench: Bench) -> Job:
    """The job of the test suites that need `bench`: one leg for each shard of a suite of the package."""
    test = suite_step(MANIFEST, gets_files=subject.gets_files(spec))
    keep = _keep(spec, "Keep the report", subject, f"{bench.job}-{expression('strategy.job-index')}", "test-output/")
    passed = f"fromJSON(inputs.{SUITES})['{subject.suites(bench)}']"
    some = [f"{passed}[0].suite != ''"] if subject.has_rows else []
    some = some if subject.package else [f"inputs.{bench.job} != '[]'"]
    shards: Node = (
        expression(passed)
        if subject.has_rows
        else [*legs(subject.package.suites.values(), bench)]
        if subject.package
        else expression(f"fromJSON(inputs.{bench.job})")
    )
    return job_on(
        bench.machine,
        f"{subject.package.name} / {bench.title}" if subject.package else bench.title,
        subject.name,
        subject.succeeded(bench.stage),
        *some,
        f"{pool_of(bench.machine)} != ''",
        FORK_GUARD,
        timeout_minutes=longest_minutes(spec, bench),
        needs=[subject.job(BUILD), subject.job(bench.stage)],
        strategy=for_each(shards),
        steps=[*_before_test(spec, subject, bench.stage), test, keep],
    )


def _keep(spec: Spec, name: str, subject: CalledSubject, stage: Stage | str, path: str) -> UsesStep:
    """The step that uploads what `stage` left at `path`, also after a failure."""
    return upload(name, artifact_expression(stage, subject.name, spec.branches), path)


def _fetch_manifest(spec: Spec, subject: CalledSubject) -> UsesStep:
    artifact = artifact_expression(BUILD, subject.name, spec.branches)
    files: dict[str, Node] = {"name": artifact, "path": "build-output"}
    return action_step("Fetch the manifest", "actions/download-artifact", files)


def _fetch_second_manifest(spec: Spec, subject: CalledSubject, stage: Stage) -> UsesStep:
    """The step that fetches the manifest of the other variant, if the run built it: a pattern may match nothing."""
    artifact = artifact_expression(BUILD, subject.neighbour(stage), spec.branches)
    # Assumes `artifact-merged`.
    files: dict[str, Node] = {"pattern": artifact, "merge-multiple": True, "path": BESIDE_MANIFEST.partition("/")[0]}
    some = expression(f"inputs.{neighbour_input(stage)} != ''")
    return action_step("Fetch the manifest of the second build", "actions/download-artifact", files, if_=some)
