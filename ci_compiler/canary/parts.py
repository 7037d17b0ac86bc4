"""Steps and jobs that the workflows of the canary share, and where its files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression
from ci_compiler.workflows.model import READ, Job, RunStep, UsesStep, action_step
from ci_compiler.workflows.steps import checkout, hosted_job
from ci_compiler.workflows.writer import Node, Remarked

FOLDER = ".github/canary"
SPEC_FILE = f"{FOLDER}/ci-matrix.yaml"
GUIDE = "https://github.com/flox-cuda/ci-compiler/blob/main/.github/docs/first-contact.md"
MARK = "Written by ci-compile canary"
"""The mark in the first line of each workflow of the canary. `ci-compile` leaves files with it alone."""

ENVIRONMENT = "canary"
SECRET = "CANARY_SECRET"  # noqa: S105  (its name)
ATTEMPT = expression("github.run_attempt")
VARIABLE = {"CANARY_VARIABLE": expression("vars.CANARY_VARIABLE")}
IDENTITY = READ | {
    scope: Remarked("write", "tells whether it reaches a called workflow") for scope in ("id-token", "attestations")
}
SETUP = UsesStep(name="Set up ci-compiler", uses=f"./{FOLDER}/setup")
"""Installs `ci-compile` and `ci-runner` on a hosted machine."""


def passed(*secrets: str) -> dict[str, str]:
    """The secrets as a caller passes them, or as the variables of a step."""
    return {name: expression(f"secrets.{name}") for name in secrets}


def facts(name: str, env: Mapping[str, str] | None = None, arguments: str = "") -> RunStep:
    """The step that runs the script `name` and writes its facts."""
    script = f"bash {FOLDER}/{name}.sh{arguments and f' {arguments}'}"
    return RunStep(name="Find the facts", env=env, run=f"mkdir -p facts\n{script} > facts/{name}.facts\n")


def keep(name: str) -> UsesStep:
    """The step that keeps the facts of the job `name` as an artifact of this attempt."""
    files: dict[str, Node] = {"name": f"canary-{ATTEMPT}-{name}", "path": "facts/"}
    return action_step("Keep the facts", "actions/upload-artifact", files, if_=expression("!cancelled()"))


def probe(spec: Spec, name: str, *, env: Mapping[str, str] | None = None, **more: Any) -> Job:
    """A hosted job that runs the script `name`."""
    return hosted_job(spec, name, steps=[checkout(), facts(name, env), keep(name)], **more)
