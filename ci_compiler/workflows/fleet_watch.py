"""`fleet-watch.yml`: checks every six hours that a machine serves each label set of the compiled workflows.

GitHub cancels a job that no machine took within 24 hours, and reports nothing before that. It also disables a scheduled
workflow of a quiet public repository. Without its token, the check is skipped with a notice. The summary of a run also
shows what is paused.
"""

from __future__ import annotations

from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job

ENVIRONMENT = "fleet-watch"
SECRET = "FLEET_TOKEN"  # noqa: S105  (the secret's name)
"""A token that may read the runners (administration: read). The environment `ENVIRONMENT` holds it."""


def workflow(spec: Spec) -> Workflow:
    """`fleet-watch.yml`."""
    ask = RunStep(
        name="Ask GitHub for the runners",
        env={"GITHUB_TOKEN": expression(f"secrets.{SECRET}"), PAUSE_VARIABLE: expression(f"vars.{PAUSE_VARIABLE}")},
        run=f"""\
if [ -z "$GITHUB_TOKEN" ]; then
  echo "::notice::the environment {ENVIRONMENT} has no secret {SECRET}, so that nothing was checked"
else
  ci-runner coverage --live
fi
""",
    )
    steps = [checkout(), SETUP, ask]
    job = hosted_job(spec, "Every label set is served", environment=ENVIRONMENT, steps=steps)
    return Workflow(
        name="fleet watch",
        on={"schedule": [{"cron": "23 */6 * * *"}], "workflow_dispatch": None},
        concurrency={"group": "fleet-watch", "cancel-in-progress": True},
        jobs={"coverage": job},
    )
