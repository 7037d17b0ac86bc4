"""The workflows that `canary.yml` calls: the compiled cell, and two that pass a secret and permissions on."""

from __future__ import annotations

from dataclasses import replace

from ci_compiler.canary.parts import ENVIRONMENT, IDENTITY, SECRET, SETUP, SPEC_FILE, TOKEN, VARIABLE, passed, probe
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import cell as compiled
from ci_compiler.workflows.common import expression, local, result_of
from ci_compiler.workflows.model import CallJob, Job, RunStep, Step, Workflow, action_step
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
        secrets=passed(SECRET),
    )
    return Workflow(name="canary outer", on=_call(expression("jobs.inner.outputs.result")), jobs={"inner": call})


def inner(spec: Spec) -> Workflow:
    """`canary-inner.yml`, with the job that has the secret and the permissions that two callers pass on."""
    attested = {"ATTESTED": expression("steps.attest.outcome")}
    job = probe(
        spec,
        "inner",
        before=_attest(),
        env=passed(SECRET) | TOKEN | VARIABLE | attested,
        if_=expression("!cancelled()"),
        environment=ENVIRONMENT,
        permissions=IDENTITY,
    )
    return Workflow(name="canary inner", on=_call(result_of("inner")), jobs={"inner": job})


def _attest() -> list[Step]:
    """The steps that attest a file which says `canary`, in a repository whose owner asked for this public record."""
    asked, sums = expression("vars.CANARY_ATTEST == 'yes'"), "canary.sums"
    make = RunStep(name="Make a file", if_=asked, run=f"echo canary > canary.txt\nsha256sum canary.txt > {sums}\n")
    subject: dict[str, Node] = {"subject-checksums": sums}
    sign = action_step("Attest it", "actions/attest", subject, if_=asked, id="attest", continue_on_error=True)
    return [make, sign]


def _call(result: str) -> dict[str, Node]:
    """The trigger of a called workflow whose output is `result`."""
    secret: dict[str, Node] = {SECRET: {"description": "A secret of the environment.", "required": False}}
    output: dict[str, Node] = {"result": {"description": "How the job ended.", "value": result}}
    return {"workflow_call": {"secrets": secret, "outputs": output}}
