"""Publishing a build from its branch, unless it is already published; a scheduled run asks that before it builds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.job import BackendPrograms
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.runner.jobs.setting import Secrets, output_folder, programs_of, taking_secrets
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH
from ci_compiler.workflows.artifacts import PUBLISHED

_LOOK_UP_MINUTES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome: whether the build was `published` now, and one line on what is published."""

    published: bool
    result: str


def publish(
    spec: Spec,
    root: Path,
    manifest: Manifest,
    out: Path,
    secrets: Secrets,
    *,
    again: bool = False,
    folder: Path = Path(),
) -> Outcome:
    """Publishes the build of `manifest` from the checkout at `root`, and writes the outcome to `out`.

    The build must be what the recipe evaluates to at the commit, with the content that was tested.

    A build that is already published is skipped, unless `again` is set. `folder` is the manifest's. Raises InputError
    and StageError.
    """
    name = manifest.name
    built = find(spec, name, manifest.branch)
    make = partial(programs_of, spec, root, secrets, spec.timeouts[PUBLISH], built=built, folder=folder)
    output_folder(out, (PUBLISHED,))
    start = time.monotonic()
    with reporting(name, PUBLISH):
        outcome = _publish(spec, root, manifest, built.recipe, make, again=again)
    result = "published" if outcome.published else "published already"
    passed, size = time.monotonic() - start, manifest.closure_size
    add_row(name=name, stage=PUBLISH.name, result=result, seconds=passed, size=size, remarks=[outcome.result])
    text = json.dumps({"name": name, "published": outcome.published, "result": outcome.result}, indent=2)
    (out / PUBLISHED).write_text(f"{text}\n", "utf-8")
    return outcome


def _publish(
    spec: Spec, root: Path, manifest: Manifest, recipe: str, make: Callable[..., BackendPrograms], *, again: bool
) -> Outcome:
    version = spec.branches[manifest.branch].versions.get(manifest.package, manifest.version)
    if manifest.version != version:
        message = f"was built as version {manifest.version}, and {manifest.branch} is at {version}; build it again"
        raise failure(manifest.name, Code.OTHER_VERSION, message)
    checkout = JobCheckout(root)
    checkout.require(manifest.branch, manifest.commit)
    with checkout.tree(manifest.commit) as tree:
        programs = make(recipes=tree)
        programs.prove(manifest, recipe)
        if not again and (shown := programs.published(manifest)):
            return Outcome(published=False, result=f"published already: {shown}")
        programs.publish(manifest)
    return Outcome(published=True, result=f"{manifest.version} from {manifest.branch} at {manifest.commit[:12]}")


def is_published(spec: Spec, root: Path, branch: str, name: str) -> bool:
    """Whether the build of `name` on `branch` is published, as far as the spec's backend distinguishes builds.

    `root` is a checkout of the branch. Raises InputError and StageError if the backend cannot be asked.
    """
    built = find(spec, name, branch)
    with taking_secrets() as secrets:
        programs = programs_of(spec, root, secrets, _LOOK_UP_MINUTES, built=built)
        return programs.is_published(name, built.version, built.recipe)
