"""The workflows that every shard calls: the selection, the preflight and the publishing on a pool, and the verdict.

An environment's secrets reach a called job that names the environment if its caller passes their names: there, each is
empty (https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from ci_compiler.plan.sharding import UNPUBLISHED, Shard
from ci_compiler.spec.model import Spec
from ci_compiler.spec.versions import VARIABLE, decides_versions
from ci_compiler.stages import BENCHMARK, PUBLISH
from ci_compiler.workflows import artifacts, called
from ci_compiler.workflows.common import (
    RUN_GUARD,
    SELECT,
    SELECTED,
    SHARD_PREFLIGHT,
    SHARD_PUBLISH,
    SHARD_SELECT,
    SHARD_VERDICT,
    VERDICT,
    VERSIONS,
    expression,
    input_not_paused,
    queued,
    selected,
)
from ci_compiler.workflows.model import READ, Job, RunStep, Step, UsesStep, Workflow, action_step, input_node
from ci_compiler.workflows.steps import (
    FETCH_RESULTS,
    VerdictParts,
    checkout,
    choose_step,
    on_hosted,
    select_job,
    upload,
    verdict_job,
)
from ci_compiler.workflows.steps import (
    RESULTS as RESULTS_FOLDER,
)
from ci_compiler.workflows.writer import Node

BRANCH, MINUTES, NEEDS, PUBLISH_ASKED, RESULT, RESULTS, SHARD = (
    "branch",
    "minutes",
    "needs",
    "publish",
    "result",
    "results",
    "shard",
)
"""The inputs of these workflows, and the output of the preflight with how it ended."""

PREFLIGHT = "preflight"
"""The job of the preflight."""

PUBLISH_OUTPUT = "publish-output"
"""The folder of the outcomes of publishing, one folder per variant."""

_PREFLIGHT_MINUTES = 15
_SAID = {SELECTED: input_node("What the selection said, as JSON.")}
_ON = {called.MACHINE: input_node("The pool that publishes and where it runs, as JSON.")}
_POOL = f"fromJSON(inputs.{called.MACHINE}).pool"

KEEP_BENCHMARKS = upload(
    "Keep the benchmarks", artifacts.BENCHMARKS, f"{RESULTS_FOLDER}/{BENCHMARK}-*/{artifacts.BENCHMARK}", if_=None
)
"""Keeps what the benchmarks of a run found as one artifact, so that reading them takes few requests."""


def workflows(spec: Spec, shards: Iterable[Shard]) -> Iterator[tuple[str, Workflow]]:
    """Those of these workflows that `shards` call, by their files' names."""
    yield SHARD_SELECT, _select(spec)
    if any(spec.branches[shard.branch].publish and shard.publish_pools for shard in shards):
        yield SHARD_PREFLIGHT, _preflight(spec)
        yield SHARD_PUBLISH, _publish(spec)
    yield SHARD_VERDICT, _verdict(spec)


def _called(name: str, inputs: Mapping[str, Node], job: Job, **more: Node) -> Workflow:
    """The workflow `name` with one job of that name."""
    # Assumes `workflow-env`.
    return Workflow(
        name=f"shard {name}",
        on={"workflow_call": {"inputs": inputs, **more}},
        env=called.BY,
        jobs={name: job},
    )


def _select(spec: Spec) -> Workflow:
    """`shard-select.yml`: chooses what the run builds."""
    job = select_job(
        spec,
        SELECT,
        choose_step('--shard "$SHARD"', {"SHARD": expression(f"inputs.{SHARD}")}),
        "cells",
        "onto",
        ref=_commit(spec),
        before=_backend(spec),
    )
    outputs = {key: expression(f"jobs.{SELECT}.outputs.{key}") for key in job.outputs or ()}
    outputs |= {key: expression(f"inputs.{key}") for key in (BRANCH, SHARD)}
    inputs = {SHARD: input_node("The shard, as its file is called."), BRANCH: input_node("Its branch.")}
    return _called(SELECT, inputs, job, outputs={key: {"value": value} for key, value in outputs.items()})


def _commit(spec: Spec) -> str:
    """What a run builds: the commit of a push, or that of a dispatch on a branch that the spec does not have.

    The latter builds the code of a pull request; publishing refuses the ref. Any other run builds the shard's branch.
    """
    branches = json.dumps(list(spec.branches))  # Assumes `dispatch-commit`.
    dispatched = f"github.event_name == 'workflow_dispatch' && !contains(fromJSON('{branches}'), github.ref_name)"
    return expression(f"(github.event_name == 'push' || {dispatched}) && github.sha || inputs.{BRANCH}")


def _backend(spec: Spec) -> list[UsesStep]:
    """The step that installs the backend where it is asked which variants are published."""
    if not spec.backend.installer:
        return []
    asked = expression(f"github.event.inputs.variant == '{UNPUBLISHED}'")
    return [action_step(f"Set up {spec.backend.title}", spec.backend.installer, if_=asked)]


def _on_branch(spec: Spec) -> str:
    """An expression that is true on the branches that publish.

    A workflow on any branch can call these files of another branch, and a runner group that is limited to selected
    workflows looks at the file that has the job.
    """
    refs = [f"refs/heads/{name}" for name, branch in spec.branches.items() if branch.publish]
    return f"contains(fromJSON('{json.dumps(refs)}'), github.ref)"


def _not_paused() -> str:
    return input_not_paused(selected(BRANCH), _POOL)


def _secrets(*names: str) -> dict[str, Node]:
    return {"secrets": {name: {"required": False} for name in names}} if names else {}


def _preflight(spec: Spec) -> Workflow:
    """`shard-preflight.yml`: checks what publishing will need, before anything is built.

    Reviewers of the environment would have to approve it. Where the spec says that there are some, the secret is not
    asked for.
    """
    secret = {} if spec.publish.reviewers else called.secret_passed(spec)
    prove = RunStep(
        name="Prove that this machine can publish",
        id="prove",
        env=secret or None,
        run=f"ci-runner doctor --for {PUBLISH}",
    )
    job = Job(
        name=PREFLIGHT,
        if_=expression(f"{_on_branch(spec)} && {_not_paused()}"),
        runs_on=expression(f"fromJSON(inputs.{called.MACHINE}).runs-on"),
        timeout_minutes=_PREFLIGHT_MINUTES,
        permissions=READ,
        outputs={RESULT: expression("steps.prove.outcome")},
        environment=spec.publish.environment if secret else None,
        steps=[checkout(expression(selected("commit"))), *on_hosted(spec), prove],
    )
    # Assumes `called-secret`, `called-inputs`, `dispatch-inputs`.
    outputs: Node = {RESULT: {"value": expression(f"jobs.{PREFLIGHT}.outputs.{RESULT}")}}
    return _called(PREFLIGHT, _SAID | _ON, job, **_secrets(*secret), outputs=outputs)


def _publish(spec: Spec) -> Workflow:
    """`shard-publish.yml`: publishes what passed its tests, as the digests in its input `needs` say."""
    secrets = called.secret_passed(spec) | called.record_key_passed(spec)
    job = Job(
        name=PUBLISH.name,
        if_=expression(f"!cancelled() && {RUN_GUARD} && {_on_branch(spec)} && {_not_paused()}"),
        runs_on=expression(f"fromJSON(inputs.{called.MACHINE}).runs-on"),
        timeout_minutes=expression(f"inputs.{MINUTES}"),
        permissions=called.publishing_permissions(spec),
        # Assumes `environment-secret`, `environment-branches`, `approval-holds-group`, `approval-each-job`.
        environment=spec.publish.environment,
        concurrency=queued(f"publish-{expression(selected(SHARD))}-{expression(_POOL)}"),
        steps=_publication_steps(spec, secrets),
    )
    inputs: dict[str, Node] = {
        **_SAID,
        NEEDS: input_node("The jobs before it with their outputs, as JSON."),
        **_ON,
        MINUTES: input_node("The time limit.", "number"),
    }
    return _called(PUBLISH.name, inputs, job, **_secrets(*secrets))


def _publication_steps(spec: Spec, secrets: dict[str, str]) -> list[Step]:
    versions = {VARIABLE: expression(selected(VERSIONS))} if decides_versions(spec) else {}
    publish = RunStep(
        name="Publish what passed its tests",
        env=secrets
        | {
            "SHARD": expression(selected(SHARD)),
            "POOL": expression(_POOL),
            "CHOSEN": expression(selected("chosen")),
            "COMMIT": expression(selected("commit")),
            "NEEDS": expression(f"inputs.{NEEDS}"),
            "AGAIN": expression("github.event.inputs.again == 'true' && 'yes' || ''"),
        }
        | versions
        | called.release_token(spec),
        run='ci-runner publish-run "$SHARD" --pool "$POOL" --chosen "$CHOSEN" --commit "$COMMIT" '
        f'--needs "$NEEDS" --results {RESULTS_FOLDER} --out {PUBLISH_OUTPUT} ${{AGAIN:+--again}}',
    )
    result: dict[str, Node] = {"name": f"publish-{expression(_POOL)}", "path": f"{PUBLISH_OUTPUT}/"}
    keep = action_step("Keep the outcomes", "actions/upload-artifact", result, if_=expression("!cancelled()"))
    branch = checkout(expression(selected(BRANCH)), history=True, credentials=True)
    return [branch, *on_hosted(spec), FETCH_RESULTS, publish, keep]


def _verdict(spec: Spec) -> Workflow:
    """`shard-verdict.yml`: states whether the run succeeded."""
    judged = VerdictParts(
        ended=f"inputs.{RESULTS}",
        said=f"fromJSON(inputs.{SELECTED})",
        chosen=selected("chosen"),
        publish=expression(f"inputs.{PUBLISH_ASKED}"),
        branch=selected(BRANCH),
    )
    uploads = [KEEP_BENCHMARKS] if BENCHMARK in spec.stages else []
    inputs: dict[str, Node] = {
        **_SAID,
        RESULTS: input_node("How the jobs ended, separated by blanks."),
        PUBLISH_ASKED: input_node("Whether the run was to publish.", "boolean"),
    }
    return _called(VERDICT, inputs, verdict_job(spec, VERDICT, judged, after=uploads))
