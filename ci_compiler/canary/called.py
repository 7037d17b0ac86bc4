"""The workflows that `canary.yml` calls: the compiled cell, and two that pass a secret and permissions on."""

from __future__ import annotations

from dataclasses import replace

from ci_compiler.canary.parts import ENVIRONMENT, IDENTITY, SECRET, SETUP, SPEC_FILE, VARIABLE, passed, probe
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import cell as compiled
from ci_compiler.workflows.common import TOKEN, expression, local, result_of
from ci_compiler.workflows.model import CallJob, Job, RunStep, Step, Workflow, input_node
from ci_compiler.workflows.writer import Node

CELL, OUTER, INNER = "canary-cell.yml", "canary-outer.yml", "canary-inner.yml"


def cell(spec: Spec) -> Workflow:
    """The compiled `cell.yml`, whose commands read the canary's spec; hosted machines install the commands first."""
    workflow = compiled.workflow(spec)
    install = replace(SETUP, if_=expression("runner.environment == 'github-hosted'"))
    jobs = {
        name: replace(job, steps=[job.steps[0], install, *map(_of_canary, job.steps[1:])])
        for name, job in workflow.jobs.items()
        if isinstance(job, Job)
    }
    return Workflow(name="canary cell", on=workflow.on, jobs=jobs)


def _of_canary(step: Step) -> Step:
    """The step with the canary's spec, if it is a command that reads one."""
    if isinstance(step, RunStep) and step.run.startswith("ci-runner "):
        return replace(step, run=f"{step.run} --spec {SPEC_FILE}")
    return step


def outer() -> Workflow:
    """`canary-outer.yml`, which calls `canary-inner.yml`."""
    call = CallJob(
        name="inner",
        if_=expression("!cancelled()"),
        uses=local(INNER),
        permissions=IDENTITY,
        with_={"flag": True, "minutes": 10},
        secrets=passed(SECRET),
    )
    return Workflow(name="canary outer", on=_call(expression("jobs.inner.outputs.result")), jobs={"inner": call})


def inner(spec: Spec) -> Workflow:
    """`canary-inner.yml`, with the job that has the secret and the permissions that two callers pass on."""
    passed_inputs = {"FLAG": expression("inputs.flag && 'yes' || ''"), "MINUTES": expression("inputs.minutes")}
    inputs: dict[str, Node] = {
        "flag": input_node("A flag.", "boolean"),
        "minutes": input_node("The time limit.", "number"),
    }
    job = probe(
        spec,
        "inner",
        minutes=expression("inputs.minutes"),
        env=passed(SECRET) | TOKEN | VARIABLE | passed_inputs,
        if_=expression("!cancelled()"),
        environment=ENVIRONMENT,
        permissions=IDENTITY,
    )
    return Workflow(name="canary inner", on=_call(result_of("inner"), inputs=inputs), jobs={"inner": job})


def _call(result: str, **more: Node) -> dict[str, Node]:
    """The trigger of a called workflow whose output is `result`; `more` are further keys."""
    secret: dict[str, Node] = {SECRET: {"description": "A secret of the environment.", "required": False}}
    output: dict[str, Node] = {"result": {"description": "How the job ended.", "value": result}}
    return {"workflow_call": {"secrets": secret, "outputs": output, **more}}
