"""Building a variant: its recipe realised on what it needs, its log kept, its result told to the later stages."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.process import PAST_LIMIT, Ended
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.jobs.backend import LINK, Adapter, adapter
from ci_compiler.runner.jobs.checkout import JobCheckout
from ci_compiler.runner.jobs.failure import StageError, failure, output_folder
from ci_compiler.runner.jobs.limits import job_seconds
from ci_compiler.runner.jobs.manifest import Builder, Manifest, write_manifest
from ci_compiler.runner.jobs.needs import supply
from ci_compiler.runner.jobs.nix_store import Store
from ci_compiler.runner.jobs.secrets import Secrets
from ci_compiler.runner.jobs.summary import add_row
from ci_compiler.runner.jobs.targets import find
from ci_compiler.spec.model import Backend, Spec
from ci_compiler.stages import BUILD
from ci_compiler.units import duration
from ci_compiler.variant import RECIPES
from ci_compiler.workflows.variant import MANIFEST_FILE

LOG = "build.log"
"""The log's name in a build's output folder."""


def build(spec: Spec, root: Path, name: str, branch: str, out: Path, secrets: Secrets) -> Manifest:
    """Builds `name` of `branch` in the checkout at `root`; `out` holds the log then, and the manifest.

    A build that failed leaves the log and no manifest. Raises InputError and StageError.
    """
    built = find(spec, name, branch)
    output_folder(out, (MANIFEST_FILE, LOG))
    started = datetime.now(UTC)
    try:
        manifest = _build(spec, root, built, out / LOG, secrets)
    except (StageError, InputError) as error:
        passed, told = (datetime.now(UTC) - started).total_seconds(), [error.findings[0].message]
        add_row(name=name, stage=BUILD.name, result="failed", seconds=passed, remarks=told)
        raise
    write_manifest(manifest, out / MANIFEST_FILE)
    remarks = [f"no {stage}: {reason}" for stage, reason in manifest.untested.items()]
    if not manifest.built:
        remarks.insert(0, "it was there already, in the store or a substituter")
    size, seconds = manifest.closure_size, manifest.seconds
    add_row(name=name, stage=BUILD.name, result="built", seconds=seconds, size=size, remarks=remarks)
    return manifest


def _build(spec: Spec, root: Path, built: BuiltVariant, log: Path, secrets: Secrets) -> Manifest:
    name, limit = built.variant.name, job_seconds(spec.timeouts[BUILD])
    commit = _commit(root, built)
    store = Store(seconds=limit)
    backend = adapter(spec, root, store, secrets)
    derivation = store.instantiate(root / built.recipe)
    absent = derivation in store.to_build(derivation)
    if absent:
        supply(spec, root, store, built, derivation)
    started = datetime.now(UTC)
    ended = _run(backend, root, name, limit, log)
    path = _result(root, name, store)
    if path not in store.outputs(derivation):  # Flox evaluated the recipe to something else
        derivation = store.deriver(path) or derivation
    outputs = _outputs(store, derivation, path)
    if spec.cache is not None:
        pushed = store.push(spec.cache, outputs, secrets.get(Backend.NIX))
        if pushed.status != 0:
            raise failure(name, Code.PUSH_FAILED, f"{path} cannot be copied to {spec.cache.url}: {pushed.said}")
    machine = this_machine(spec.hardware, trial=False)
    return Manifest(
        name=name,
        package=built.variant.package,
        version=built.version,
        branch=built.cell.branch,
        commit=commit,
        nixpkgs=spec.branches[built.cell.branch].nixpkgs,
        backend=spec.backend,
        derivation=derivation,
        store_path=path,
        outputs=outputs,
        closure_size=store.size(store.closure(path)),
        closure=store.contents(store.closure(*outputs)),
        started=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(ended.seconds, 1),
        built=absent,
        machine=Builder(system=machine.system, cpu=machine.cpu, cores=machine.cores),
        untested={stage.name: reason for stage, reason in built.route.skipped.items() if stage.is_test},
    )


def _outputs(store: Store, derivation: str, path: str) -> tuple[str, ...]:
    """All outputs of `derivation` that the store holds; `path` at the least."""
    known = tuple(dict.fromkeys((*store.outputs(derivation), path)))
    missing = store.lacks(known)
    return tuple(one for one in known if one not in missing)


def _commit(root: Path, built: BuiltVariant) -> str:
    """The commit that holds the recipe. Raises InputError where the recipe is not there as committed."""
    if not (root / built.recipe).is_file():
        message = f"there is no such recipe; `ci-compile recipes --branch {built.cell.branch}` writes it"
        raise wrong(built.recipe, Code.RECIPE_MISSING, message)
    checkout = JobCheckout(root)
    if changed := checkout.changed(RECIPES):
        more = f" (nor are {len(changed) - 1} others)" if len(changed) > 1 else ""
        message = f"is not as in the commit that is checked out{more}; a build is of a commit: commit it first"
        raise wrong(changed[0], Code.RECIPE_CHANGED, message)
    return checkout.commit()


def _run(backend: Adapter, root: Path, name: str, limit: float, log: Path) -> Ended:
    """Runs the build. Raises StageError with the end of its log."""
    (root / LINK.format(name=name)).unlink(missing_ok=True)
    ended = backend.build(name, seconds=limit, log=log)
    if ended.status != 0:
        how = "took too long and was ended" if ended.status == PAST_LIMIT else f"ended with {ended.status}"
        message = f"the build {how} after {duration(ended.seconds)}; the end of {log}:"
        raise failure(name, Code.BUILD_FAILED, message, tail=ended.out.splitlines())
    return ended


def _result(root: Path, name: str, store: Store) -> str:
    """The store path that the build's link leads to."""
    link = root / LINK.format(name=name)
    if not link.is_symlink():
        raise failure(name, Code.RESULT_MISSING, f"the build succeeded, but left no link {link.name}")
    path = os.fspath(link.readlink())
    if store.lacks([path]):
        raise failure(name, Code.RESULT_MISSING, f"{link.name} leads to {path}, which is not valid in the store")
    return path
