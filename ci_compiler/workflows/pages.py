"""`pages.yml`: puts the finder page on GitHub Pages when the spec's first branch changes what it is made of.

The repository's Pages must be set to be built by GitHub Actions, and their environment must allow that branch.
"""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import READ, checkout, expression, setup
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.writer import Node, Remarked, Spaced

FILE = "pages.yml"
ENVIRONMENT = "github-pages"
"""The environment that GitHub itself makes for Pages."""

_FOLDER = "_site"
_ARTIFACT = f"github-pages-{expression('github.run_attempt')}"
"""The page's artifact: those of earlier attempts stay with the run, and deploying wants one of its name."""


def workflow(spec: Spec) -> dict[str, Node]:
    """The document of `pages.yml`."""
    branch = next(iter(spec.branches))
    return {
        "name": "pages",
        "on": {"push": {"branches": [branch], "paths": [".github/**"]}, "workflow_dispatch": None},
        "permissions": {},
        "concurrency": {"group": "pages", "cancel-in-progress": False},
        "jobs": Spaced({"page": _page(spec), "deploy": _deploy(spec)}),
    }


def _page(spec: Spec) -> dict[str, Node]:
    return {
        "name": "Write the page",
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": dict(READ),
        "outputs": {"artifact": _ARTIFACT},
        "steps": [
            checkout(),
            setup(),
            {
                "name": "Write the page",
                "run": f'ci-compile site {_FOLDER} --repository "$GITHUB_REPOSITORY"',
            },
            {
                "name": "Keep it for Pages",
                "uses": pinned("actions/upload-pages-artifact"),
                "with": {"name": _ARTIFACT, "path": _FOLDER},
            },
        ],
    }


def _deploy(spec: Spec) -> dict[str, Node]:
    return {
        "name": "Deploy",
        "needs": ["page"],
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": {
            "pages": Remarked("write", "the deployment itself"),
            "id-token": Remarked("write", "proves where it comes from"),
        },
        "environment": {"name": ENVIRONMENT, "url": expression("steps.deploy.outputs.page_url")},
        "steps": [
            {
                "name": "Deploy",
                "id": "deploy",
                "uses": pinned("actions/deploy-pages"),
                "with": {"artifact_name": expression("needs.page.outputs.artifact")},
            },
        ],
    }
