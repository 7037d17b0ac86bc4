"""`waves.yml`: starts shards wave after wave, so that no job waits in a queue until GitHub cancels it.

It is started by `ci-compile dispatch --waves` and by `schedule.yml`. A run starts one wave at most, and a job of a
hosted machine ends after 6 hours, so a run that is not done by then starts the next one with the same request. The
request is in the titles of the runs of the shards, so that a run that was interrupted can be re-run, and starts no
shard twice.
"""

from __future__ import annotations

from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import PAUSED, expression
from ci_compiler.workflows.model import READ, RunStep, Workflow, input_node
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.writer import Node, Remarked

MAY_START = READ | {"actions": Remarked("write", "starts the workflows of the shards")}
"""The permissions of a job that dispatches workflows."""

_MINUTES, _RESERVE = 350, 20
"""The time limit of the job in minutes, and how long before it the job hands over to the next run."""

_REQUEST = expression("inputs.request || github.run_id")

TEXTS = {
    "patterns": "Names of variants, with the wildcards * ? [] and {a,b}, separated by blanks (all).",
    "branch": "Only this branch.",
    "shard": "Only this shard.",
    "about": "What the run is for, as its title says it.",
    "request": "The request that this run continues.",
}
SWITCHES = {
    "unpublished": "Only what is not published yet.",
    "publish": "Publish what passes its tests.",
    "again": "Test what passed before, and publish what shows as published.",
}


def workflow(spec: Spec) -> Workflow:
    """`waves.yml`."""
    texts: dict[str, Node] = {name: input_node(text, required=False) for name, text in TEXTS.items()}
    switches: dict[str, Node] = {
        name: input_node(text, "boolean", required=False, default=False) for name, text in SWITCHES.items()
    }
    env = {name.upper(): expression(f"inputs.{name}") for name in TEXTS} | {"REQUEST": _REQUEST}
    env |= {name.upper(): expression(f"inputs.{name} && 'yes' || ''") for name in SWITCHES}
    start = RunStep(
        name="Start wave after wave",
        env={"GITHUB_TOKEN": expression("github.token"), **PAUSED, **env},
        run='ci-compile waves --patterns "$PATTERNS" --branch "$BRANCH" --shard "$SHARD" --about "$ABOUT" '
        f'--request "$REQUEST" --minutes {_MINUTES - _RESERVE} '
        "${UNPUBLISHED:+--unpublished} ${PUBLISH:+--publish} ${AGAIN:+--again}",
    )
    job = hosted_job(
        spec,
        "Waves",
        minutes=_MINUTES,
        if_=expression(f"github.ref == 'refs/heads/{default_branch(spec)}'"),
        permissions=MAY_START,
        steps=[checkout(), SETUP, start],
    )
    return Workflow(
        name="waves",
        run_name=f"waves [{_REQUEST}] {expression('inputs.about')}",
        on={"workflow_dispatch": {"inputs": {**texts, **switches}}},
        concurrency={"group": "waves", "cancel-in-progress": False, "queue": "max"},  # Assumes `queue-max`.
        jobs={"waves": job},
    )
