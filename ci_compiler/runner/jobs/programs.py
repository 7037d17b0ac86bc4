"""The programs of the spec's backend for a stage."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.backends.job import BackendPrograms, JobContext
from ci_compiler.runner.jobs.secrets import Secrets
from ci_compiler.spec.model import Spec


def programs_of(spec: Spec, root: Path, secrets: Secrets, seconds: float) -> BackendPrograms:
    """The programs of the spec's backend in the checkout at `root`, each limited to `seconds`. Raises InputError."""
    context = JobContext(root=root, owner=spec.owner, cache=spec.cache, secrets=secrets, seconds=seconds)
    return spec.backend.programs(context)
