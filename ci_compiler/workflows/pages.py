"""`pages.yml`: publishes the finder page on GitHub Pages when its sources change on the spec's first branch.

In the repository's settings, the source of Pages must be GitHub Actions, and their environment must allow that branch.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import READ, Job, RunStep, UsesStep, Workflow
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.steps import SETUP, checkout
from ci_compiler.workflows.writer import Remarked

FILE = "pages.yml"
ENVIRONMENT = "github-pages"
"""The environment that GitHub creates for Pages."""

_FOLDER = "_site"
_ARTIFACT = f"github-pages-{expression('github.run_attempt')}"
"""One artifact per attempt: a run keeps those of earlier attempts, and a deployment needs a unique name."""


def workflow(spec: Spec) -> Workflow:
    """`pages.yml`."""
    branch = next(iter(spec.branches))
    return Workflow(
        name="pages",
        on={"push": {"branches": [branch], "paths": [".github/**"]}, "workflow_dispatch": None},
        concurrency={"group": "pages", "cancel-in-progress": False},
        jobs={"page": _page(spec), "deploy": _deploy(spec)},
    )


def _page(spec: Spec) -> Job:
    return Job(
        name="Write the page",
        runs_on=spec.hosted,
        timeout_minutes=10,
        permissions=READ,
        outputs={"artifact": _ARTIFACT},
        steps=[
            checkout(),
            SETUP,
            RunStep(name="Write the page", run=f'ci-compile site {_FOLDER} --repository "$GITHUB_REPOSITORY"'),
            UsesStep(
                name="Keep it for Pages",
                uses=pinned("actions/upload-pages-artifact"),
                with_={"name": _ARTIFACT, "path": _FOLDER},
            ),
        ],
    )


def _deploy(spec: Spec) -> Job:
    return Job(
        name="Deploy",
        needs=["page"],
        runs_on=spec.hosted,
        timeout_minutes=10,
        permissions={
            "pages": Remarked("write", "the deployment itself"),
            "id-token": Remarked("write", "proves where it comes from"),
        },
        environment={"name": ENVIRONMENT, "url": expression("steps.deploy.outputs.page_url")},
        steps=[
            UsesStep(
                name="Deploy",
                id="deploy",
                uses=pinned("actions/deploy-pages"),
                with_={"artifact_name": expression("needs.page.outputs.artifact")},
            ),
        ],
    )
