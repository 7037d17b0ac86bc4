"""What every stage of a job has: the backend's programs, the publishing secrets, and a folder for its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    built: BuiltVariant | Sequence[BuiltVariant] | None = None,
    folder: Path = Path(),
    recipes: Path | None = None,
    shared: bool = True,
) -> BackendPrograms:
    """The programs of the spec's backend in the checkout at `root`, for a job of `minutes`. Raises InputError.

    `built` is the variant that they work on, or those of one build, the one whose commands run first; None where only a
    manifest matters. `folder` is the manifest's.
    `recipes` has the tree to read recipes from, None for `root`. Unless the job is `shared`, it writes nothing to the
    cache, and reads it only if everybody may.
    """
    every = () if built is None else (built,) if isinstance(built, BuiltVariant) else tuple(built)
    context = JobContext(
        root=root,
        owner=spec.owner,
        cache=spec.cache if shared or (spec.cache and spec.cache.public) else None,
        secrets=secrets,
        seconds=job_seconds(minutes),
        folder=folder,
        values=_shared_values([values_of(spec, one) for one in every]),
        commands=spec.packages[every[0].variant.package].command if every else None,
        recipes=recipes,
        shares=shared,
    )
    return spec.backend.programs(context)


def _shared_values(every: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each value that all variants of a build share, or all of them, with spaces, where they differ."""
    return {
        name: value if all(one[name] == value for one in every) else " ".join(one[name] for one in every)
        for name, value in (every[0] if every else {}).items()
    }


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
