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
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD, Stage
from ci_compiler.workflows import called, compiler_cache
from ci_compiler.workflows.artifacts import MANIFEST_FILE, artifact_expression
from ci_compiler.workflows.common import (
    FORK_GUARD,
    expression,
    for_each,
    input_not_paused,
    left_out,
    result_of,
    selected,
)
from ci_compiler.workflows.model import READ, Job, RunStep, Workflow, action_step, input_node
from ci_compiler.workflows.steps import (
    NEEDS_OPTION,
    build_step,
    checked_out,
    fetch_earlier,
    fetch_needs,
    note_inputs,
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
    for stage in stages_of_joined(spec):
        outputs[stage.name] = {"description": f"How {stage} ended.", "value": result_of(stage.name)}
    inputs = {
        "build": input_node("The build, as its artifact is called."),
        "name": input_node("One of its variants."),
        "legs": input_node("Its variants, as the legs of a matrix in JSON."),
        **called.cell_inputs(spec),
    }
    jobs = {BUILD.name: _build(spec), **{stage.name: _test(spec, stage) for stage in stages_of_joined(spec)}}
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


def _not_paused(stage: Stage) -> str:
    return input_not_paused(selected("branch"), called.pool_of(stage))


def _build(spec: Spec) -> Job:
    return Job(
        name=BUILD.name,
        if_=expression(f"!cancelled() && {FORK_GUARD} && {_not_paused(BUILD)}"),
        runs_on=called.runs_on_of(BUILD),
        timeout_minutes=spec.timeouts[BUILD],
        permissions=called.build_permissions(spec),
        env={"NAME": expression("inputs.name"), "BRANCH": expression(selected("branch"))},
        outputs={MANIFESTS: expression(f"steps.build.outputs.{MANIFESTS}")},
        steps=[
            *checked_out(spec),
            RunStep(name="Prove that this machine can build it", run='ci-runner doctor --for build "$NAME"'),
            *(fetch_needs() if hands_files(spec) else ()),
            *fetch_earlier(spec, gets_files=hands_files(spec)),
            *compiler_cache.fetched(spec, expression("inputs.build")),
            build_step(spec, gets_files=hands_files(spec)),
            *compiler_cache.kept(spec, expression("inputs.build")),
            upload(
                "Keep the manifests and the log", _artifact(spec, BUILD, expression("inputs.build")), "build-output/"
            ),
            *note_inputs(spec),
        ],
    )


def _test(spec: Spec, stage: Stage) -> Job:
    waits = [other for other in waits_for(spec, stage) if other is BUILD or not other.neighbours]
    wanted = [*filter(None, [left_out(spec, stage)])]
    passed = [_passed(spec, other) for other in waits]
    files: dict[str, Node] = {"name": _artifact(spec, BUILD, expression("inputs.build")), "path": "build-output"}
    conditions = [
        "!cancelled()",
        *passed,
        f"{called.pool_of(stage)} != ''",
        *(f"!{one}" for one in wanted),
        FORK_GUARD,
        _not_paused(stage),
    ]
    return Job(
        name=f"{_NAME} / {stage}",
        needs=[other.name for other in waits],
        if_=expression(" && ".join(conditions)),
        strategy=for_each(expression("fromJSON(inputs.legs)")),
        runs_on=called.runs_on_of(stage),
        timeout_minutes=spec.timeouts[stage],
        permissions=READ,
        env={"NAME": _NAME, "BRANCH": expression(selected("branch"))},
        steps=[
            *checked_out(spec),
            action_step("Fetch the build", "actions/download-artifact", files),
            RunStep(name="Prove that this machine can test it", run=f'ci-runner doctor --for {stage} "$NAME"'),
            RunStep(
                name="Verify the files",
                env={"DIGESTS": expression(f"needs.{BUILD}.outputs.{MANIFESTS}")},
                run=f'ci-runner fetch {_MANIFEST} --digest "$DIGESTS"',
            ),
            *(fetch_needs() if hands_files(spec) else ()),
            RunStep(name=TEST_STEP, id="test", run=_test_command(spec, stage)),
            upload("Keep the report", _artifact(spec, stage, _NAME), "test-output/"),
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


def _artifact(spec: Spec, stage: Stage, name: str) -> str:
    return artifact_expression(stage, name, spec.branches)
