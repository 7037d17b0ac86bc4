"""`fleet-watch.yml`: checks every six hours that a machine serves each label set of the compiled workflows.

GitHub cancels a job that no machine took within 24 hours, and reports nothing before that.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import READ, Job, RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout

ENVIRONMENT = "fleet-watch"
SECRET = "FLEET_TOKEN"  # noqa: S105  (the secret's name)
"""A token that may read the runners (administration: read). The environment `ENVIRONMENT` holds it."""


def workflow(spec: Spec) -> Workflow:
    """`fleet-watch.yml`."""
    ask = RunStep(
        name="Ask GitHub for the runners",
        env={"GITHUB_TOKEN": expression(f"secrets.{SECRET}")},
        run="ci-runner coverage --live",
    )
    job = Job(
        name="Every label set is served",
        runs_on=spec.hosted,
        timeout_minutes=10,
        permissions=READ,
        environment=ENVIRONMENT,
        steps=[checkout(), SETUP, ask],
    )
    return Workflow(
        name="fleet watch",
        on={"schedule": [{"cron": "23 */6 * * *"}], "workflow_dispatch": None},
        concurrency={"group": "fleet-watch", "cancel-in-progress": True},
        jobs={"coverage": job},
    )
