"""Taking the files of an earlier build with the same inputs, in place of running the build script again.

The inputs are identified by a digest of everything that the spec and the commit say about the build, and of the files
that were handed over. What the machine itself has is not among them, except for its pool and image.

Trust bounds it. A run of a branch of the spec is *protected*: it runs code that was merged there. Every other run is a
*request*. The trust is part of the digest and of the name under which a build can be found. A protected run looks for
protected builds alone; a request takes both. A name is only a claim: `github.earlier` asks GitHub which run made it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.command_files import FOLDER, clear, filled, verify
from ci_compiler.backends.job import BuildResult, show
from ci_compiler.errors import InputError, StageError
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import command_values
from ci_compiler.plan.sources import read_by
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.needed import HandedOver
from ci_compiler.runner.jobs.setting import Job, values_of
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD
from ci_compiler.workflows.artifacts import INPUTS_FILE, MANIFEST_FILE, PROTECTED, REQUEST
from ci_compiler.workflows.common import OWN_EVENTS


def trusts(environment: Mapping[str, str], branch: str) -> tuple[str, ...]:
    """The trust of the run with this `environment` that builds for `branch`, then that of others whose files it takes.

    None outside of GitHub Actions, where nothing shows what a build came from.
    """
    event = environment.get("GITHUB_EVENT_NAME", "")
    if not event:
        return ()
    protected = event in OWN_EVENTS and environment.get("GITHUB_REF") == f"refs/heads/{branch}"
    return (PROTECTED,) if protected else (REQUEST, PROTECTED)


def reuses(spec: Spec, every: Sequence[BuiltVariant]) -> bool:
    """Whether the spec says of all variants of a build that it takes the files of earlier runs."""
    commands = (spec.packages[built.variant.package].command for built in every)
    return all(command is not None and command.reuse for command in commands)


def inputs_of(
    job: Job, every: Sequence[BuiltVariant], handed: HandedOver, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What identifies the inputs of the build of `every`: for the run itself first, then as others that it may take.

    The variant whose build script runs comes first. Empty where nothing is reused: the spec does not say so, the code
    is that of a fork, or the build is no job of GitHub Actions. Raises StageError with git's message.
    """
    if not job.shared or not reuses(job.spec, every):
        return ()
    files = JobCheckout(job.root).files()
    stated = [_stated(job.spec, built, files) | {"needs": dict(handed.contents)} for built in every]
    return tuple(
        f"{trust}-{hashlib.sha256(json.dumps([trust, stated], sort_keys=True).encode()).hexdigest()}"
        for trust in trusts(environment, every[0].cell.branch)
    )


def _stated(spec: Spec, built: BuiltVariant, files: Mapping[str, str]) -> dict[str, Any]:
    """What the spec and the commit, whose `files` have these hashes, say about the build of one variant."""
    package, pool = spec.packages[built.variant.package], built.route.pools.get(BUILD)
    command, values = package.command, values_of(spec, built)
    if command is None:
        return {}
    variables, container = command_values(command, built.cell, values)
    script = {command.build: files.get(command.build)}
    return {
        "values": values,
        "variables": variables,
        "container": container,
        "files": [filled(file, values) for file in command.files],
        "sources": {path: files[path] for path in read_by(package, sorted(files))} | script,
        "machine": [str(pool.runs_on), pool.hosted, pool.image] if pool else [],
    }


def taken(
    name: str, folder: Path | None, inputs: Collection[str], needs: Mapping[str, str], out: Path
) -> Manifest | None:
    """The manifest of the earlier build in `folder`, whose files are copied to `out`; None if there is none.

    Only a build of the variant `name` from one of `inputs`, with exactly the files that it states, is taken; `needs`
    are the contents that it must have been built with. Anything else is said, and the variant is built.
    """
    if folder is None or not (folder / MANIFEST_FILE).is_file():
        return None
    try:
        earlier = read_manifest(folder / MANIFEST_FILE)
        if earlier.name != name or earlier.inputs not in inputs or earlier.needs != needs:
            show(f"{name}: not taken from an earlier run: {folder} has a build from other inputs")
            return None
        clear(out / FOLDER)
        shutil.copytree(folder / FOLDER, out / FOLDER, symlinks=True, dirs_exist_ok=True)
        verify(name, out, earlier.closure)
    except (InputError, StageError, OSError) as error:
        show(f"{name}: not taken from an earlier run: {error}")
        return None
    return earlier


def traced(manifest: Manifest, inputs: Sequence[str], earlier: Manifest | None) -> Manifest:
    """`manifest` with what it was built from, and with where its files come from if they are those of `earlier`."""
    manifest = replace(manifest, inputs=inputs[0] if inputs else "")
    if earlier is None:
        return manifest
    return replace(manifest, machine=earlier.machine, origin=earlier.origin or earlier.commit)


def note_inputs(inputs: str, out: Path) -> None:
    """Writes the file by which later runs find the build to its folder `out`, if any looks for it.

    It is no manifest: every manifest in the artifacts of a run has the files of its build beside it.
    """
    if inputs:
        (out / INPUTS_FILE).write_text(f"{inputs}\n", "utf-8")


def result_of(earlier: Manifest) -> BuildResult:
    """The result that was taken from an earlier build."""
    return BuildResult(
        derivation=earlier.derivation,
        store_path=earlier.store_path,
        outputs=earlier.outputs,
        closure_size=earlier.closure_size,
        closure=earlier.closure,
        started=datetime.fromisoformat(earlier.started),
        seconds=earlier.seconds,
        built=False,
    )
