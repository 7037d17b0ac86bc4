"""`setup-ci-compiler`: the composite action that installs `ci-compile` and `ci-runner` on a hosted machine."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.model import RunStep, action_step
from ci_compiler.workflows.writer import Node

PYTHON = "3.13"

_OPTIONS = "--require-hashes --only-binary :all: --requirement "
"""Installs only files whose hashes are listed. A source archive would be built with packages that are not."""


def action(spec: Spec) -> Mapping[str, Node]:
    """The action's `action.yml`."""
    python = action_step("Set up Python", "actions/setup-python", {"python-version": PYTHON})
    hashed = spec.toolkit.endswith(".txt")
    install = RunStep(  # noqa: S604  (the key of a step)
        name="Install",
        shell="bash",
        env={"REQUIREMENT": spec.toolkit},
        run=f'python -m pip install --quiet --disable-pip-version-check {_OPTIONS if hashed else ""}"$REQUIREMENT"',
    )
    return {
        "name": "Set up ci-compiler",
        "description": "Installs ci-compile and ci-runner for the steps that follow.",
        "runs": {"using": "composite", "steps": [python.node(), install.node()]},
    }
