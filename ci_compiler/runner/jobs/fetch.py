"""Fetching a build: its closure into this machine's store, unless it is there."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.runner.jobs.backend import hold
from ci_compiler.runner.jobs.failure import failure
from ci_compiler.runner.jobs.limits import job_seconds
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.nix_store import Store
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD, stages
from ci_compiler.variant import recipe_path


def fetch(spec: Spec, path: Path) -> tuple[Manifest, bool]:
    """Fetches the closure of the manifest at `path` unless the store has it; also returns whether it was fetched.

    Raises InputError if the file is not a manifest, and StageError if the closure is not available.
    """
    manifest = read_manifest(path)
    return manifest, hold(_store(spec), spec.cache, manifest, (manifest.store_path,))


def fetch_beside(spec: Spec, root: Path, name: str) -> None:
    """Fetches what the recipe of `name` in the checkout at `root` evaluates to, signed by the cache's key.

    Raises StageError if neither the store nor the cache has it.
    """
    store = _store(spec)
    outputs = store.outputs(store.instantiate(root / recipe_path(name)))
    missing = store.lacks(outputs)
    if missing and spec.cache is not None:
        store.fetch(spec.cache, missing)
        missing = store.lacks(outputs)
    if missing:
        where = f"in {spec.cache.url}" if spec.cache else "in a cache, because the spec names none"
        message = f"{missing[0]} is neither in this machine's store nor {where}; build {name} first"
        raise failure(name, Code.CLOSURE_MISSING, message)


def _store(spec: Spec) -> Store:
    return Store(seconds=job_seconds(max(spec.timeouts[stage] for stage in stages() if stage is not BUILD)))
