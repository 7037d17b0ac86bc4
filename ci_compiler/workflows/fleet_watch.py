"""`fleet-watch.yml`: checks every six hours that a machine serves each label set of the compiled workflows.

GitHub cancels a job that no machine took within 24 hours, and reports nothing before that. It also disables a scheduled
workflow of a quiet public repository. Without its token, the check is skipped with a notice. The summary of a run also
shows what is paused.

With the key `watch`, it also asks for waiting jobs and missing machines, and keeps an issue about what it finds. The
token of the workflow reads the queue and writes the issue; without `FLEET_TOKEN`, only the runners are not seen.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec, Watch
from ci_compiler.workflows.common import PAUSED, WORKFLOW_TOKEN, expression
from ci_compiler.workflows.model import READ, Permissions, RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.writer import Remarked

ENVIRONMENT = "fleet-watch"
SECRET = "FLEET_TOKEN"  # noqa: S105  (the secret's name)
"""A token that may read the runners (administration: read). The environment `ENVIRONMENT` holds it."""


_MAY_KEEP_AN_ISSUE = {
    "actions": Remarked("read", "the waiting jobs, the disabled workflows"),
    "issues": Remarked("write", "the issue about what was found"),
}
_MAY_RERUN = {
    "actions": Remarked("write", "the waiting jobs, the disabled workflows, and a second attempt of lost jobs"),
    "checks": Remarked("read", "why a job failed"),
}

_RERUN = RunStep(
    name="Run the jobs again that lost their runner",
    env={"GITHUB_TOKEN": expression("github.token")},
    run="ci-runner rerun",
)


def workflow(spec: Spec) -> Workflow:
    """`fleet-watch.yml`."""
    ask = _watch() if spec.watch else _cover()
    job = hosted_job(
        spec,
        "Every label set is served",
        minutes=20 if spec.watch else 10,
        permissions=_permissions(spec.watch),
        environment=ENVIRONMENT,
        steps=[checkout(), SETUP, *([_RERUN] if spec.watch and spec.watch.rerun_lost else []), ask],
    )
    return Workflow(
        name="fleet watch",
        on={"schedule": [{"cron": "23 */6 * * *"}], "workflow_dispatch": None},
        concurrency={"group": "fleet-watch", "cancel-in-progress": True},
        jobs={"coverage": job},
    )


def _permissions(watch: Watch | None) -> Permissions:
    if watch is None:
        return READ
    return READ | _MAY_KEEP_AN_ISSUE | (_MAY_RERUN if watch.rerun_lost else {})


def _cover() -> RunStep:
    return RunStep(
        name="Ask GitHub for the runners",
        env={"GITHUB_TOKEN": expression(f"secrets.{SECRET}"), **PAUSED},
        run=f"""\
if [ -z "$GITHUB_TOKEN" ]; then
  echo "::notice::the environment {ENVIRONMENT} has no secret {SECRET}, so that nothing was checked"
else
  ci-runner coverage --live
fi
""",
    )


def _watch() -> RunStep:
    token = "github.token"  # noqa: S105  (an expression)
    return RunStep(
        name="Ask GitHub for the runners and the queue",
        env={
            "GITHUB_TOKEN": expression(f"secrets.{SECRET} || {token}"),
            WORKFLOW_TOKEN: expression(token),
            **PAUSED,
        },
        run="ci-runner coverage --watch --issue",
    )
