"""Building a variant: the backend builds its recipe, and the manifest passes the result to the later stages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.job import BuildOrder
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, StageError, wrong
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.jobs.limits import job_seconds
from ci_compiler.runner.jobs.manifest import Builder, Manifest, write_manifest
from ci_compiler.runner.jobs.needs import needed
from ci_compiler.runner.jobs.output import output_folder
from ci_compiler.runner.jobs.programs import programs_of
from ci_compiler.runner.jobs.secrets import Secrets
from ci_compiler.runner.jobs.summary import add_row
from ci_compiler.runner.jobs.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BUILD
from ci_compiler.variant import RECIPES
from ci_compiler.workflows.variant import MANIFEST_FILE

LOG = "build.log"
"""The log's name in a build's output folder."""


def build(spec: Spec, root: Path, name: str, branch: str, out: Path, secrets: Secrets) -> Manifest:
    """Builds `name` of `branch` in the checkout at `root`, and writes the log and the manifest to `out`.

    A failed build leaves the log and no manifest. Raises InputError and StageError.
    """
    built = find(spec, name, branch)
    output_folder(out, (MANIFEST_FILE, LOG))
    started = datetime.now(UTC)
    try:
        manifest = _build(spec, root, built, out, secrets)
    except (StageError, InputError) as error:
        passed, told = (datetime.now(UTC) - started).total_seconds(), [error.findings[0].message]
        add_row(name=name, stage=BUILD.name, result="failed", seconds=passed, remarks=told)
        raise
    write_manifest(manifest, out / MANIFEST_FILE)
    remarks = [f"no {stage}: {reason}" for stage, reason in manifest.untested.items()]
    if not manifest.built:
        remarks.insert(0, "not built: the store or a substituter already had it")
    size, seconds = manifest.closure_size, manifest.seconds
    add_row(name=name, stage=BUILD.name, result="built", seconds=seconds, size=size, remarks=remarks)
    return manifest


def _build(spec: Spec, root: Path, built: BuiltVariant, out: Path, secrets: Secrets) -> Manifest:
    commit = _commit(spec, root, built)
    programs = programs_of(spec, root, secrets, job_seconds(spec.timeouts[BUILD]), built=built, folder=out)
    order = BuildOrder(name=built.variant.name, recipe=built.recipe, needs=needed(spec, built), log=out / LOG)
    result = programs.build(order)
    machine = this_machine(spec.hardware, trial=False)
    return Manifest(
        name=built.variant.name,
        package=built.variant.package,
        version=built.version,
        branch=built.cell.branch,
        commit=commit,
        nixpkgs=spec.branches[built.cell.branch].nixpkgs,
        backend=spec.backend,
        derivation=result.derivation,
        store_path=result.store_path,
        outputs=result.outputs,
        closure_size=result.closure_size,
        closure=result.closure,
        started=result.started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(result.seconds, 1),
        built=result.built,
        machine=Builder(system=machine.system, cpu=machine.cpu, cores=machine.cores),
        untested={stage.name: reason for stage, reason in built.route.skipped.items() if stage.is_test},
    )


def _commit(spec: Spec, root: Path, built: BuiltVariant) -> str:
    """The commit that is built. Raises InputError if the recipe or script is missing, or differs from the commit.

    A script may read every file of the checkout, so that none may differ, except those that git does not track.
    """
    if not (root / built.recipe).is_file():
        writes = f"there is no such recipe; `ci-compile recipes --branch {built.cell.branch}` writes it"
        message = writes if spec.backend.has_recipes else "there is no such build script; `command.build` declares it"
        raise wrong(built.recipe, Code.RECIPE_MISSING, message)
    checkout = JobCheckout(root)
    if changed := checkout.changed(*([RECIPES] if spec.backend.has_recipes else [])):
        more = f", and so do {len(changed) - 1} other files" if len(changed) > 1 else ""
        message = f"differs from the commit that is checked out{more}; a build needs a commit: commit it first"
        raise wrong(changed[0], Code.RECIPE_CHANGED, message)
    return checkout.commit()
