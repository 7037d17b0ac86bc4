"""Fetching a build: its closure onto this machine, unless it is there."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.setting import Job
from ci_compiler.stages import BUILD, stages


def fetch(job: Job, path: Path, digest: str | None = None) -> tuple[Manifest, bool]:
    """Fetches the closure of the manifest at `path` unless it is there; also returns whether it was fetched.

    `digest` is that of the manifest, if it is known. Raises InputError if the file has another or is not a manifest,
    and StageError if the closure is not available.
    """
    manifest = read_manifest(path, digest)
    minutes = max(job.spec.timeouts[stage] for stage in stages() if stage is not BUILD)
    return manifest, job.programs(minutes, folder=path.parent).fetch(manifest)
