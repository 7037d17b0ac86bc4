"""`fleet-watch.yml`: asks by the clock whether every label set of the compiled workflows is served by a machine.

GitHub cancels a job that nobody took within 24 hours and says nothing before that.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import READ, checkout, expression, setup
from ci_compiler.workflows.writer import Node

ENVIRONMENT = "fleet-watch"
SECRET = "FLEET_TOKEN"  # noqa: S105  (the secret's name)
"""A token that may read the runners (administration: read), held by the environment of the same purpose."""


def workflow(spec: Spec) -> dict[str, Node]:
    """The document of `fleet-watch.yml`."""
    job: dict[str, Node] = {
        "name": "Every label set is served",
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": dict(READ),
        "environment": ENVIRONMENT,
        "steps": [
            checkout(),
            setup(),
            {
                "name": "Ask GitHub for the runners",
                "env": {"GITHUB_TOKEN": expression(f"secrets.{SECRET}")},
                "run": "ci-runner coverage --live",
            },
        ],
    }
    return {
        "name": "fleet watch",
        "on": {"schedule": [{"cron": "23 */6 * * *"}], "workflow_dispatch": None},
        "permissions": {},
        "concurrency": {"group": "fleet-watch", "cancel-in-progress": True},
        "jobs": {"coverage": job},
    }
