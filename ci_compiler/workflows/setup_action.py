"""`setup-ci-compiler`: the composite action that installs `ci-compile` and `ci-runner` on a hosted machine.

The index could serve another package under the same name. With a file of requirements, pip compares hashes. A release
is installed only if GitHub has an attestation that this project's own workflow built the very file.
"""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import RunStep, action_step
from ci_compiler.workflows.writer import Node

PYTHON = "3.13"

_PIP = "python -m pip {} --quiet --disable-pip-version-check"

_HASHED = f'{_PIP.format("install")} --require-hashes --only-binary :all: --requirement "$REQUIREMENT"'
"""Installs only files whose hashes are listed. A source archive would be built with packages that are not."""

_NAME, _PROJECT = "ci-compiler", "flox-cuda/ci-compiler"

_RELEASE = f"""\
folder=$(mktemp -d)
{_PIP.format("download")} --no-deps --only-binary :all: --dest "$folder" "$REQUIREMENT"
gh attestation verify "$folder"/*.whl --repo {_PROJECT} --signer-workflow {_PROJECT}/.github/workflows/release.yml
{_PIP.format("install")} "$folder"/*.whl
"""
"""Installs a release that this project built (https://cli.github.com/manual/gh_attestation_verify)."""


def action(spec: Spec) -> Mapping[str, Node]:
    """The action's `action.yml`."""
    python = action_step("Set up Python", "actions/setup-python", {"python-version": PYTHON})
    env, run = {"REQUIREMENT": spec.toolkit}, f'{_PIP.format("install")} "$REQUIREMENT"'
    if spec.toolkit.endswith(".txt"):
        run = _HASHED
    elif spec.toolkit.partition("==")[0] == _NAME:
        env, run = env | {"GH_TOKEN": expression("github.token")}, _RELEASE
    install = RunStep(name="Install", shell="bash", env=env, run=run)  # noqa: S604  (the key of a step)
    return {
        "name": "Set up ci-compiler",
        "description": "Installs ci-compile and ci-runner for the steps that follow.",
        "runs": {"using": "composite", "steps": [python.node(), install.node()]},
    }
