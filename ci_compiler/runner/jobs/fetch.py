"""Fetching a build: its closure onto this machine, unless it is there."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.backends.job import BackendPrograms
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.setting import programs_of
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD, stages
from ci_compiler.variant import recipe_path


def fetch(spec: Spec, root: Path, path: Path, digest: str | None = None) -> tuple[Manifest, bool]:
    """Fetches the closure of the manifest at `path` unless it is there; also returns whether it was fetched.

    `digest` is that of the manifest, if it is known. Raises InputError if the file has another or is not a manifest,
    and StageError if the closure is not available.
    """
    manifest = read_manifest(path, digest)
    return manifest, _programs(spec, root, path.parent).fetch(manifest)


def fetch_beside(spec: Spec, root: Path, name: str) -> None:
    """Fetches the build of the recipe of `name` in the checkout at `root`.

    Raises StageError if it is not available.
    """
    _programs(spec, root, Path()).fetch_recipe(name, recipe_path(name))


def _programs(spec: Spec, root: Path, folder: Path) -> BackendPrograms:
    minutes = max(spec.timeouts[stage] for stage in stages() if stage is not BUILD)
    return programs_of(spec, root, {}, minutes, folder=folder)
