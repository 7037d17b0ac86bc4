"""`update.yml`: looks for newer releases on a schedule, and opens one pull request with them.

It exists if the spec has `update`. Like `sync.yml`, it uses a GitHub App: a pull request that the token of GitHub
Actions opens starts no workflow (https://docs.github.com/actions/concepts/security/github_token).
"""

from __future__ import annotations

from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.spec.upstream import Update
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import RunStep, Workflow, action_step
from ci_compiler.workflows.schedule import cron_days
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.sync import AUTHOR, ENVIRONMENT, SECRETS

FILE = "update.yml"

_TIME = "23 5"
"""Minute and hour, in UTC: not the first minute of an hour, when GitHub delays schedules."""


def workflow(spec: Spec, update: Update) -> Workflow:
    """`update.yml`."""
    look = RunStep(
        name="Look for newer releases",
        env={name: expression(f"secrets.{secret}") for name, secret in SECRETS.items()} | AUTHOR,
        run=f"ci-compile update --pull-request{' --nixpkgs real' * spec.backend.has_recipes}",
    )
    nix = [action_step("Set up Nix", "cachix/install-nix-action")] if spec.backend.has_recipes else []
    job = hosted_job(
        spec,
        "Update",
        minutes=120,
        if_=expression(f"github.ref == 'refs/heads/{default_branch(spec)}'"),
        environment=ENVIRONMENT,
        steps=[checkout(history=True), SETUP, *nix, look],
    )
    return Workflow(
        name="update",
        on={"schedule": [{"cron": f"{_TIME} * * {cron_days(update.days)}"}], "workflow_dispatch": None},
        concurrency={"group": "update", "cancel-in-progress": False},
        jobs={"update": job},
    )
