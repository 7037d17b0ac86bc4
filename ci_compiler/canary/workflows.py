"""The workflows of the canary: a probe for each assumption of the register, in jobs that write facts.

A job runs a script of the canary's folder, which prints `NAME=VALUE` lines, and keeps them as an artifact of this
attempt. The last job reads them all, with the results of the jobs, and writes the table.

`canary.yml` calls the compiled cell, and two workflows that pass a secret and permissions on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ci_compiler.canary.parts import (
    ATTEMPT,
    ENVIRONMENT,
    FOLDER,
    IDENTITY,
    SECRET,
    SETUP,
    SPEC_FILE,
    VARIABLE,
    facts,
    keep,
    passed,
    probe,
)
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import called
from ci_compiler.workflows import cell as compiled
from ci_compiler.workflows.common import SELECTED, TOKEN, expression, latest, local, queued, result_of
from ci_compiler.workflows.model import (
    READ,
    CallJob,
    Job,
    RunStep,
    Step,
    Workflow,
    action_step,
    input_node,
)
from ci_compiler.workflows.steps import checkout, hosted_job
from ci_compiler.workflows.writer import Node, Remarked

CANARY = "canary.yml"
ADMIN = "CANARY_ADMIN_TOKEN"
FLOX = "FLOX_FLOXHUB_TOKEN"
OLD_RUNNER = "2.328.0"
"""The last release of actions/runner before 2.329.0, the oldest that GitHub serves."""

SYSTEMS = {"macos": "macos-15", "windows": "windows-2025"}
"""GitHub's machines with other systems, by the name of the job that tries one."""

_FILE = "canary.txt"
"""What is uploaded; actions/upload-artifact leaves hidden files and folders out."""


_READS_ENVIRONMENT = READ | {"actions": Remarked("read", "tells whether the environment is bound to branches")}

NOTHING = (RunStep(name="Nothing", run="true"),)
"""The steps of a job that only has to run."""


def canary(spec: Spec, rows: Mapping[str, Mapping[str, object]], cache: str) -> Workflow:
    """`canary.yml`; `rows` are the choices of machines, and `cache` is the URL of the binary cache ('': none)."""
    quiet: Node = {"name": f"{ENVIRONMENT}-quiet", "deployment": False}
    old = passed(ADMIN) | {"OLD_RUNNER": OLD_RUNNER} | TOKEN
    jobs: dict[str, Job | CallJob] = {
        "start": _start(spec, rows),
        "direct": _direct(spec),
        **_skipped(spec),
        "legs": _legs(spec),
        **_concurrent(spec),
        "after-pending": hosted_job(
            spec, "after pending", needs=["pending"], if_=expression("!cancelled()"), steps=NOTHING, permissions={}
        ),
        "quiet": hosted_job(spec, "quiet", environment=quiet, steps=NOTHING),
        "names": _names(spec),
        "jit": probe(spec, "jit", env=old, environment=ENVIRONMENT, minutes=15, permissions=_READS_ENVIRONMENT),
        "outer": _call(OUTER, permissions=IDENTITY, secrets=passed(SECRET)),
        "cell": _cell(),
        **_on_machine(cache),
        **_systems(spec),
        **_labels(spec),
    }
    names = list(jobs)
    machine = input_node("Where the cell is built.", "choice", default=next(iter(rows)), options=list(rows))
    publish = input_node(
        "Whether a tiny package is published to your personal catalog.",
        "choice",
        default="rehearse",
        options=["rehearse", "publish"],
    )
    systems = input_node("Whether GitHub's machines with macOS and Windows are tried.", "boolean", default=False)
    inputs: dict[str, Node] = {"machine": machine, "flox-publish": publish, "systems": systems}
    return Workflow(
        name="canary",
        run_name=f"canary [{expression('github.run_id')}]",
        env={"CANARY_ENV": "set"},
        concurrency=queued(f"canary-{expression('github.run_id')}"),
        on={
            "workflow_dispatch": {"inputs": inputs},
            "push": {"paths": [f"{FOLDER}/touch"]},
        },
        jobs={**jobs, "report": _report(spec, names)},
    )


def _start(spec: Spec, rows: Mapping[str, Mapping[str, object]]) -> Job:
    chosen = f"fromJSON('{json.dumps(rows)}')[inputs.machine || '{next(iter(rows))}']"
    env = {
        **passed(SECRET),
        **VARIABLE,
        "BEFORE": expression("github.event.before"),
        "ADDRESSED": expression(f"{chosen}.addressed"),
    }
    return hosted_job(
        spec,
        "start",
        outputs={
            "machine": expression(f"toJSON({chosen})"),
            "matrix": '[{"leg": "a"}, {"leg": "b"}]',
            "branch": "main",
            "commit": expression("github.sha"),
            "chosen": expression(f"format('[\"canary-{{0}}\"]', {chosen}.cell)"),
        },
        steps=[checkout(expression("github.ref"), history=True), facts("start", env), keep("start")],
    )


def _of_machine(key: str) -> str:
    """What the choice of a machine says of `key`."""
    return f"fromJSON(needs.start.outputs.machine).{key}"


def _direct(spec: Spec) -> Job:
    run = 'mkdir -p facts\nif [ -n "$CANARY_SECRET" ]; then found=set; else found=empty; fi\n'
    run += 'echo "secret=$found" > facts/direct.facts\n'
    step = RunStep(name="Find the facts", env=passed(SECRET), run=run)
    return hosted_job(spec, "direct", environment=ENVIRONMENT, steps=[step, keep("direct")])


def _skipped(spec: Spec) -> dict[str, Job]:
    """A job that never runs, one that runs after it, and one that GitHub skips with it."""
    after = expression("!cancelled() && needs.never.result == 'skipped'")
    return {
        "never": hosted_job(spec, "never", if_=expression("github.run_id == 0"), steps=NOTHING),
        "after-skipped": hosted_job(spec, "after-skipped", needs=["never"], if_=after, steps=NOTHING),
        "implicit": hosted_job(spec, "implicit", needs=["never"], steps=NOTHING),
    }


def _legs(spec: Spec) -> Job:
    leg = expression("matrix.leg")
    run = 'mkdir -p facts\necho "ran=yes" > "facts/leg-$LEG.facts"\n'
    return hosted_job(
        spec,
        f"legs {leg}",
        needs=["start"],
        strategy={"fail-fast": False, "matrix": {"include": expression("fromJSON(needs.start.outputs.matrix)")}},
        steps=[RunStep(name="Find the facts", env={"LEG": leg}, run=run), keep(f"leg-{leg}")],
    )


def _concurrent(spec: Spec) -> dict[str, Job]:
    """Three legs at once in a group in which the newest pending one wins, and three in a group that keeps all."""
    options: dict[str, dict[str, Node]] = {"pending": {}, "queued": {"queue": "max"}}
    return {
        name: hosted_job(
            spec,
            f"{name} {expression('matrix.leg')}",
            strategy={"fail-fast": False, "matrix": {"leg": ["a", "b", "c"]}},
            concurrency={
                "group": f"canary-{name}-{expression('github.run_id')}",
                "cancel-in-progress": False,
                **option,
            },
            steps=[RunStep(name="Wait", run="sleep ${CANARY_SECONDS:-30}")],
        )
        for name, option in options.items()
    }


def _names(spec: Spec) -> Job:
    """Uploads a name with the characters of compiled ones; a failure is a fact."""
    file: dict[str, Node] = {"name": f"canary-odd-{ATTEMPT}@a~2fb", "path": _FILE}
    odd = action_step("Upload an odd name", "actions/upload-artifact", file, id="odd", continue_on_error=True)
    run = 'mkdir -p facts\necho "odd=$ODD" > facts/names.facts\n'
    state = RunStep(name="Find the facts", env={"ODD": expression("steps.odd.outcome")}, run=run)
    make = RunStep(name="Make a file", run=f"echo canary > {_FILE}")
    return hosted_job(spec, "names", needs=["start"], steps=[make, odd, state, keep("names")])


_STARTED = expression("!cancelled() && needs.start.result == 'success'")
"""The condition of a call that also waits for a skipped job."""


def _call(file: str, **more: Any) -> CallJob:
    """The call of a workflow of the canary, by a job of its name."""
    name = file.removeprefix("canary-").removesuffix(".yml")
    return CallJob(name=name, needs=["start", "never"], if_=_STARTED, uses=local(file), **more)


def _cell() -> CallJob:
    """The call of the compiled cell on the chosen machine, with what the first job said, as shards make it."""
    inputs = {
        "cell": expression(_of_machine("cell")),
        SELECTED: expression("toJSON(needs.start.outputs)"),
        called.MACHINES: expression(f"toJSON({_of_machine('machines')})"),
    }
    return _call(CELL, permissions=READ, with_=inputs)


def _on_machine(cache: str) -> dict[str, Job]:
    """Two jobs on the chosen machine, the second after the first."""
    env = {
        **passed(FLOX),
        "KIND": expression(_of_machine("kind")),
        "CACHE": cache,
        "FLOX_PUBLISH": expression("inputs.flox-publish"),
    }
    shared: dict[str, Any] = {
        "runs_on": expression(_of_machine("on")),
        "permissions": READ,
        "timeout_minutes": 60,
        "environment": ENVIRONMENT,
    }
    fetch: dict[str, Node] = {"name": f"canary-{ATTEMPT}-machine", "path": "earlier"}
    tip = checkout(expression("github.ref_name"), history=True, credentials=True)  # `flox publish` needs an upstream
    machine = [tip, facts("machine", env, "facts"), keep("machine")]
    again = [
        checkout(),
        action_step("Fetch what the first job left", "actions/download-artifact", fetch),
        facts("again", {"CACHE": cache}, "earlier"),
        keep("again"),
    ]
    return {
        "machine": Job(name="machine", needs=["start"], steps=machine, **shared),
        "again": Job(name="again", needs=["start", "machine"], steps=again, **shared),
    }


def _systems(spec: Spec) -> dict[str, Job]:
    """A job on each machine of `SYSTEMS`, if they are asked for: their minutes cost more."""
    asked = expression("inputs.systems")
    jobs = {}
    for name, image in SYSTEMS.items():
        run = "mkdir -p facts\nif false | true; then fails=no; else fails=yes; fi\n"
        run += f'FAILS="$fails" bash {FOLDER}/{name}.sh > facts/{name}.facts\n'
        step = RunStep(name="Find the facts", shell="bash", run=run)  # noqa: S604  (the key of a step)
        steps = [checkout(), step, keep(name)]
        jobs[name] = replace(hosted_job(spec, name, needs=["start"], if_=asked, steps=steps), runs_on=image)
    return jobs


def _labels(spec: Spec) -> dict[str, Job]:
    """A job that no machine may take, and one of its concurrency group that cancels it at the end."""
    group = latest(f"canary-labels-{expression('github.run_id')}")
    unserved = Job(
        name="labels",
        needs=["start"],
        if_=expression(f"{_of_machine('addressed')} != 'scale-set'"),
        runs_on=expression(_of_machine("unserved")),
        timeout_minutes=10,
        permissions={},
        concurrency=group,
        steps=NOTHING,
    )
    waits = ["again", "cell", "pending", "queued"]
    end = hosted_job(
        spec, "end of labels", needs=waits, if_=expression("always()"), concurrency=group, steps=NOTHING, permissions={}
    )
    return {"labels": unserved, "labels-end": end}


def _report(spec: Spec, needs: Sequence[str]) -> Job:
    found = 'ci-compile canary --judge results --needs "$NEEDS" --results "$RESULTS"'
    download: dict[str, Node] = {"pattern": "canary-*", "path": "results"}  # of some jobs, an earlier attempt
    steps: list[Step] = [
        checkout(),
        SETUP,
        action_step("Fetch the facts", "actions/download-artifact", download, continue_on_error=True),
        RunStep(name="Ask GitHub for the run", env=TOKEN, run=f"bash {FOLDER}/report.sh results"),
        RunStep(
            name="Write the table",
            env={"NEEDS": expression("toJSON(needs)"), "RESULTS": expression("join(needs.*.result, ' ')")},
            run=found,
        ),
    ]
    permissions = READ | {
        "actions": Remarked("read", "lists the jobs of this run"),
        "deployments": Remarked("read", "counts the deployments of `canary-quiet`"),
    }
    return hosted_job(spec, "report", needs=needs, if_=expression("always()"), permissions=permissions, steps=steps)


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
    return Workflow(name="canary outer", on=_on_call(expression("jobs.inner.outputs.result")), jobs={"inner": call})


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
    return Workflow(name="canary inner", on=_on_call(result_of("inner"), inputs=inputs), jobs={"inner": job})


def _on_call(result: str, **more: Node) -> dict[str, Node]:
    """The trigger of a called workflow whose output is `result`; `more` are further keys."""
    secret: dict[str, Node] = {SECRET: {"description": "A secret of the environment.", "required": False}}
    output: dict[str, Node] = {"result": {"description": "How the job ended.", "value": result}}
    return {"workflow_call": {"secrets": secret, "outputs": output, **more}}
