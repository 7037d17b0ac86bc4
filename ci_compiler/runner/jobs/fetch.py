"""Fetching a build: its closure into this machine's store, unless it is there."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.runner.jobs.backend import hold
from ci_compiler.runner.jobs.limits import job_seconds
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.nix_store import Store
from ci_compiler.spec.model import Spec, Stage


def fetch(spec: Spec, path: Path) -> tuple[Manifest, bool]:
    """The manifest at `path`, whose closure the store holds then, and whether it had to be fetched.

    Raises InputError for what is no manifest, StageError where the closure cannot be had.
    """
    manifest = read_manifest(path)
    store = Store(seconds=job_seconds(max(spec.timeouts[stage] for stage in Stage if stage is not Stage.BUILD)))
    return manifest, hold(store, spec.cache, manifest, (manifest.store_path,))
