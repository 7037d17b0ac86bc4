"""`joined.yml`: one build that makes several variants, then the tests of each.

The build leaves a folder for each variant, in one artifact. Tests are legs of one job per stage, so that the workflow
reports how each stage ended for all of them: publishing takes the variants of a build together or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.sharding import stages_of, waits_for
from ci_compiler.plan.suites import Bench, benches, joined_packages, longest_minutes
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD, Stage
from ci_compiler.workflows import called
from ci_compiler.workflows.artifacts import MANIFEST_FILE, artifact_expression
from ci_compiler.workflows.common import (
    FORK_GUARD,
    expression,
    for_each,
    left_out,
    result_of,
)
from ci_compiler.workflows.model import Job, RunStep, Step, Workflow, action_step, input_node
from ci_compiler.workflows.steps import (
    NEEDS_OPTION,
    before_test,
    build_step,
    build_steps,
    suite_step,
    upload,
)
from ci_compiler.workflows.variant import TEST_STEP
from ci_compiler.workflows.writer import Node

MANIFESTS = "manifests"
"""The output with the digest of each variant's manifest, as a JSON mapping."""

_NAME = expression("matrix.name")
_MANIFEST = f'build-output/"$NAME"/{MANIFEST_FILE}'


def stages_of_joined(spec: Spec) -> tuple[Stage, ...]:
    """The tests of joined variants: all but those that take a second build."""
    return tuple(stage for stage in stages_of(spec) if stage.is_test and not stage.neighbours)


def workflow(spec: Spec) -> Workflow:
    """`joined.yml`."""
    outputs: dict[str, Node] = {
        MANIFESTS: {
            "description": "The digests of the manifests.",
            "value": expression(f"jobs.{BUILD}.outputs.{MANIFESTS}"),
        }
    }
    suites = {bench.job: bench for bench in benches(joined_packages(spec))}
    for job in (*map(str, stages_of_joined(spec)), *suites):
        outputs[job] = {"description": f"How {job} ended.", "value": result_of(job)}
    inputs = {
        "build": input_node("The build, as its artifact is called."),
        "name": input_node("One of its variants."),
        "legs": input_node("Its variants, as the legs of a matrix in JSON."),
        **called.joined_inputs(spec),
        **called.cell_inputs(spec),
    }
    jobs = {BUILD.name: _build(spec), **{stage.name: _test(spec, stage) for stage in stages_of_joined(spec)}}
    jobs |= {job: _suites(spec, bench) for job, bench in suites.items()}
    return Workflow(
        name="joined",
        on={"workflow_call": {"inputs": inputs, "outputs": outputs}},
        env=called.environment(spec),
        jobs=jobs,
    )


def values(cells: Sequence[Cell]) -> dict[str, str]:
    """The inputs about the build that makes all variants of `cells`."""
    names = [variant.name for cell in cells for variant in cell.variants]
    return {"build": cells[0].joined, "name": names[0], "legs": json.dumps([{"name": name} for name in names])}


def _build(spec: Spec) -> Job:
    name = expression("inputs.build")
    uploads = [upload("Keep the manifests and the log", _artifact(spec, BUILD, name), "build-output/")]
    files = hands_files(spec)
    return called.job_on(
        BUILD,
        BUILD.name,
        expression("inputs.name"),
        FORK_GUARD,
        timeout_minutes=spec.timeouts[BUILD],
        permissions=called.build_permissions(spec),
        outputs={MANIFESTS: expression(f"steps.build.outputs.{MANIFESTS}")},
        steps=build_steps(spec, build_step(gets_files=files), uploads, gets_files=files),
    )


def _test(spec: Spec, stage: Stage) -> Job:
    waits = [other for other in waits_for(spec, stage) if other is BUILD or not other.neighbours]
    left = left_out(spec, stage)
    return called.job_on(
        stage,
        f"{_NAME} / {stage}",
        _NAME,
        *(_passed(spec, other) for other in waits),
        f"{called.pool_of(stage)} != ''",
        *([f"!{left}"] if left else []),
        FORK_GUARD,
        timeout_minutes=spec.timeouts[stage],
        needs=[other.name for other in waits],
        strategy=for_each(expression("fromJSON(inputs.legs)")),
        steps=[
            *_before_test(spec, stage),
            RunStep(name=TEST_STEP, id="test", run=_test_command(spec, stage)),
            upload("Keep the report", _artifact(spec, stage, _NAME), "test-output/"),
        ],
    )


def _before_test(spec: Spec, stage: Stage) -> list[Step]:
    """The steps that bring a variant of the build to a machine that tests it."""
    files: dict[str, Node] = {"name": _artifact(spec, BUILD, expression("inputs.build")), "path": "build-output"}
    fetch = RunStep(
        name="Verify the files",
        env={"DIGESTS": expression(f"needs.{BUILD}.outputs.{MANIFESTS}")},
        run=f'ci-runner fetch {_MANIFEST} --digest "$DIGESTS"',
    )
    fetched = [action_step("Fetch the build", "actions/download-artifact", files)]
    return before_test(spec, stage, fetched, fetch, gets_files=hands_files(spec))


def _suites(spec: Spec, bench: Bench) -> Job:
    """The job of the test suites that need `bench`: one leg for each shard of a suite of each variant."""
    leg = f"{expression('matrix.suite')}, {expression('matrix.shard')}"
    report = f"{bench.job}-{expression('strategy.job-index')}"
    return called.job_on(
        bench.machine,
        f"{_NAME} / {bench.title} ({leg})",
        _NAME,
        f"needs.{bench.stage}.result == 'success'",
        f"inputs.{bench.job} != '[]'",
        f"{called.pool_of(bench.machine)} != ''",
        FORK_GUARD,
        timeout_minutes=longest_minutes(spec, bench),
        needs=[BUILD.name, bench.stage.name],
        strategy=for_each(expression(f"fromJSON(inputs.{bench.job})")),
        steps=[
            *_before_test(spec, bench.stage),
            suite_step(_MANIFEST, gets_files=hands_files(spec)),
            upload("Keep the report", _artifact(spec, report, _NAME), "test-output/"),
        ],
    )


def _passed(spec: Spec, stage: Stage) -> str:
    """An expression that is true if `stage` succeeded, or was skipped since the profile of the run leaves it out."""
    left = left_out(spec, stage) if stage.is_test else ""
    succeeded = f"needs.{stage}.result == 'success'"
    return f"({succeeded} || (needs.{stage}.result == 'skipped' && {left}))" if left else succeeded


def _test_command(spec: Spec, stage: Stage) -> str:
    needs = NEEDS_OPTION if hands_files(spec) else ""
    return stage.command.format(stage=stage, manifest=_MANIFEST) + needs


def _artifact(spec: Spec, stage: Stage | str, name: str) -> str:
    return artifact_expression(stage, name, spec.branches)
