"""The programs of the spec's backend for a stage."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.backends.job import BackendPrograms, JobContext
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.jobs.secrets import Secrets
from ci_compiler.spec.model import Spec
from ci_compiler.spec.values import variant_values


def programs_of(
    spec: Spec,
    root: Path,
    secrets: Secrets,
    seconds: float,
    *,
    built: BuiltVariant | None = None,
    folder: Path = Path(),
) -> BackendPrograms:
    """The programs of the spec's backend in the checkout at `root`, each limited to `seconds`. Raises InputError.

    `built` is the variant that they work on, None where only its manifest matters. `folder` is the manifest's.
    """
    context = JobContext(
        root=root,
        owner=spec.owner,
        cache=spec.cache,
        secrets=secrets,
        seconds=seconds,
        folder=folder,
        values=_values(spec, built) if built else {},
        commands=spec.packages[built.variant.package].command if built else None,
    )
    return spec.backend.programs(context)


def _values(spec: Spec, built: BuiltVariant) -> dict[str, str]:
    return variant_values(spec, built.cell.branch, built.variant.package, built.variant.name, built.cell)
