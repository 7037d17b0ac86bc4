"""`sync.yml`: carries a change of the spec from the default branch to the others, by pushes or by pull requests.

It exists if the spec has `sync`. It uses a GitHub App, because what the token of GitHub Actions pushes starts no
workflow, and workflow files are refused (https://docs.github.com/actions/concepts/security/github_token).
"""

from __future__ import annotations

from ci_compiler.spec.carried import carried_paths, default_branch
from ci_compiler.spec.model import Spec, Sync
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import RunStep, Workflow
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job

FILE = "sync.yml"
ENVIRONMENT = "sync"
SECRETS = {"GITHUB_APP_ID": "SYNC_APP_ID", "GITHUB_APP_PRIVATE_KEY": "SYNC_APP_PRIVATE_KEY"}
"""The secrets of the environment `ENVIRONMENT`, by the variables that `ci-compile` reads: an App that may write
contents, workflows and pull requests."""

_NAME, _EMAIL = "ci-compile", "ci-compile@users.noreply.github.com"
AUTHOR = {
    "GIT_AUTHOR_NAME": _NAME,
    "GIT_AUTHOR_EMAIL": _EMAIL,
    "GIT_COMMITTER_NAME": _NAME,
    "GIT_COMMITTER_EMAIL": _EMAIL,
}
"""The variables that make the author and committer of a commit that no person makes."""


def workflow(spec: Spec, sync: Sync) -> Workflow:
    """`sync.yml`."""
    branch = default_branch(spec)
    carry = RunStep(
        name="Carry the spec to every branch",
        env={name: expression(f"secrets.{secret}") for name, secret in SECRETS.items()} | AUTHOR,
        run=f"ci-compile sync --{sync.on_push}",
    )
    steps = [checkout(history=True), SETUP, carry]
    job = hosted_job(
        spec,
        "Sync",
        minutes=30,
        if_=expression(f"github.ref == 'refs/heads/{branch}'"),
        environment=ENVIRONMENT,
        steps=steps,
    )
    paths = list(carried_paths(spec, spec.document.file))
    return Workflow(
        name="sync",
        on={"push": {"branches": [branch], "paths": paths}, "workflow_dispatch": None},
        concurrency={"group": "sync", "cancel-in-progress": False},
        jobs={"sync": job},
    )
