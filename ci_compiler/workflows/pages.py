"""`pages.yml`: publishes the finder page and the history on GitHub Pages, when their sources change and daily.

The pages show the results of the variants, which change without a commit. The history is also an artifact, from which
the next run continues it: unlike the site of a private repository, the workflow's token can read that.

In the repository's settings, the source of Pages must be GitHub Actions, and their environment must allow that branch.
Where Pages is off, nothing is published, and a notice says so.
"""

from __future__ import annotations

from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import READ, Job, RunStep, Workflow, action_step
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job
from ci_compiler.workflows.writer import Remarked

FILE = "pages.yml"
ENVIRONMENT = "github-pages"
"""The environment that GitHub creates for Pages."""

HISTORY = "history.json"
"""The file of the history, and the artifact with it."""

_MINUTES = 20
"""The time limit of writing: reading the history takes some hundred requests, one after the other."""

_FOLDER = "_site"
_ARTIFACT = f"github-pages-{expression('github.run_attempt')}"
"""One artifact per attempt: a run keeps those of earlier attempts, and a deployment needs a unique name."""


def workflow(spec: Spec) -> Workflow:
    """`pages.yml`."""
    branch = default_branch(spec)
    return Workflow(
        name="pages",
        on={
            "push": {"branches": [branch], "paths": [".github/**"]},
            "schedule": [{"cron": "41 4 * * *"}],
            "workflow_dispatch": None,
        },
        concurrency={"group": "pages", "cancel-in-progress": False},
        jobs={"page": _page(spec), "deploy": _deploy(spec)},
    )


def _page(spec: Spec) -> Job:
    return hosted_job(
        spec,
        "Write the page",
        minutes=_MINUTES,
        permissions=READ
        | {
            "actions": Remarked("read", "the results of the variants, and the history"),
            "pages": Remarked("read", "tells whether Pages is on"),
        },
        outputs={"artifact": _ARTIFACT, "pages": expression("steps.page.outputs.pages")},
        steps=[
            checkout(),
            SETUP,
            RunStep(
                name="Write the page",
                id="page",
                env={"GITHUB_TOKEN": expression("github.token")},
                run=f'ci-compile site {_FOLDER} --repository "$GITHUB_REPOSITORY" --pages --status --history',
            ),
            action_step(
                "Keep the history for the next run",
                "actions/upload-artifact",
                # Assumes `artifact-rerun`.
                {"name": HISTORY, "path": f"{_FOLDER}/{HISTORY}", "if-no-files-found": "ignore", "overwrite": True},
                if_=expression("steps.page.outputs.pages == 'on'"),
            ),
            action_step(
                "Keep it for Pages",
                "actions/upload-pages-artifact",
                {"name": _ARTIFACT, "path": _FOLDER},
                if_=expression("steps.page.outputs.pages == 'on'"),
            ),
        ],
    )


def _deploy(spec: Spec) -> Job:
    artifact = expression("needs.page.outputs.artifact")
    return hosted_job(
        spec,
        "Deploy",
        needs=["page"],
        if_=expression("needs.page.outputs.pages == 'on'"),
        permissions={
            "pages": Remarked("write", "the deployment itself"),
            "id-token": Remarked("write", "proves where it comes from"),
        },
        environment={"name": ENVIRONMENT, "url": expression("steps.deploy.outputs.page_url")},
        steps=[action_step("Deploy", "actions/deploy-pages", {"artifact_name": artifact}, id="deploy")],
    )
