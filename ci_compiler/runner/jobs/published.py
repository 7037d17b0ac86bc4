"""Whether a variant is already published, asked before it is built: a scheduled run leaves such variants out."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.runner.jobs.programs import programs_of
from ci_compiler.runner.jobs.secrets import taking_secrets
from ci_compiler.runner.jobs.targets import find
from ci_compiler.spec.model import Spec

_SECONDS = 600.0


def is_published(spec: Spec, root: Path, branch: str, name: str) -> bool:
    """Whether the build of `name` on `branch` is published, as far as the spec's backend distinguishes builds.

    `root` is a checkout of the branch. Raises InputError and StageError if the backend cannot be asked.
    """
    built = find(spec, name, branch)
    with taking_secrets() as secrets:
        return programs_of(spec, root, secrets, _SECONDS, built=built).is_published(name, built.version, built.recipe)
