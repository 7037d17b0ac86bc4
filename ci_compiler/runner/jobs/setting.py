"""What every stage of a job has: the backend's programs, the publishing secrets, and a folder for its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ci_compiler.backends import backends
from ci_compiler.backends.job import BackendPrograms, JobContext
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import open_values
from ci_compiler.runner.limits import job_seconds
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Spec
from ci_compiler.spec.values import variant_values

Secrets = Mapping[str, Secret]
"""The publishing secrets that the environment has, by name."""


@contextmanager
def taking_secrets() -> Iterator[Secrets]:
    """The publishing secrets. Within it, they are not in the environment, so that no program inherits them."""
    names = [backend.secret for backend in backends()]
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield {name: Secret(text) for name, text in before.items() if text.strip()}
    finally:
        os.environ.update(before)


def programs_of(
    spec: Spec,
    root: Path,
    secrets: Secrets,
    minutes: int,
    *,
    built: BuiltVariant | None = None,
    folder: Path = Path(),
    recipes: Path | None = None,
    shared: bool = True,
) -> BackendPrograms:
    """The programs of the spec's backend in the checkout at `root`, for a job of `minutes`. Raises InputError.

    `built` is the variant that they work on, None where only its manifest matters. `folder` is the manifest's.
    `recipes` has the tree to read recipes from, None for `root`. Unless the job is `shared`, it writes nothing to the
    cache, and reads it only if everybody may.
    """
    context = JobContext(
        root=root,
        owner=spec.owner,
        cache=spec.cache if shared or (spec.cache and spec.cache.public) else None,
        secrets=secrets,
        seconds=job_seconds(minutes),
        folder=folder,
        values=values_of(spec, built) if built else {},
        commands=spec.packages[built.variant.package].command if built else None,
        recipes=recipes,
        shares=shared,
    )
    return spec.backend.programs(context)


def values_of(spec: Spec, built: BuiltVariant) -> dict[str, str]:
    """The values of a variant by name."""
    own = variant_values(spec, built.cell.branch, built.variant.package, built.variant.name, built.cell)
    return open_values(spec, built.cell) | own


def output_folder(folder: Path, stale: Iterable[str]) -> None:
    """Creates the folder for a stage's files, and removes those of an earlier run. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise wrong(folder, Code.CANNOT_WRITE, f"cannot be written to: {error.strerror}") from None
