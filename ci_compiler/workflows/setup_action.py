"""`setup-ci-compiler`: the composite action that puts `ci-compile` and `ci-runner` onto a hosted machine."""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.writer import Node

PYTHON = "3.13"


def action(spec: Spec) -> dict[str, Node]:
    """The document of the action's `action.yml`."""
    return {
        "name": "Set up ci-compiler",
        "description": "Installs ci-compile and ci-runner for the steps that follow.",
        "runs": {
            "using": "composite",
            "steps": [
                {
                    "name": "Set up Python",
                    "uses": pinned("actions/setup-python"),
                    "with": {"python-version": PYTHON},
                },
                {
                    "name": "Install",
                    "shell": "bash",
                    "env": {"REQUIREMENT": spec.toolkit},
                    "run": 'python -m pip install --quiet --disable-pip-version-check "$REQUIREMENT"',
                },
            ],
        },
    }
