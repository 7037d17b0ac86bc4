"""Publishing a build from its branch, unless it is already published; a scheduled run asks that before it builds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.job import BackendPrograms
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.proof import required_tests
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.runner.jobs.setting import Secrets, output_folder, programs_of, taking_secrets
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH
from ci_compiler.variant import recipe_path
from ci_compiler.workflows.artifacts import PUBLISHED

_LOOK_UP_MINUTES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome: whether the build was `published` now, and one line on what is published."""

    published: bool
    result: str


class PassedTests(NamedTuple):
    """Why a build may be published: the tests that it passed, and what that `claims` of it.

    `needs` has the tests of each variant that it needs, by name: passed in this run, or `elsewhere` if in another one.
    """

    tests: tuple[str, ...] = ()
    claims: str = ""
    needs: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    elsewhere: Collection[str] = ()


def publish(
    spec: Spec,
    root: Path,
    manifest: Manifest,
    out: Path,
    secrets: Secrets,
    evidence: PassedTests,
    *,
    again: bool = False,
    folder: Path = Path(),
) -> Outcome:
    """Publishes the build of `manifest` from the checkout at `root`, and writes the outcome to `out`.

    The build must be what the recipe evaluates to at the commit, with the content that was tested, and so must be what
    it needs.

    A build that is already published is skipped, unless `again` is set. `folder` is the manifest's. Raises InputError
    and StageError.
    """
    name = manifest.name
    built = find(spec, name, manifest.branch)
    make = partial(programs_of, spec, root, secrets, spec.timeouts[PUBLISH], built=built, folder=folder)
    output_folder(out, (PUBLISHED,))
    start = time.monotonic()
    with reporting(name, PUBLISH):
        outcome = _publish(root, manifest, built, make, evidence, again=again)
    result = "published" if outcome.published else "published already"
    passed, size = time.monotonic() - start, manifest.closure_size
    add_row(name=name, stage=PUBLISH.name, result=result, seconds=passed, size=size, remarks=[outcome.result])
    text = json.dumps({"name": name, "published": outcome.published, "result": outcome.result}, indent=2)
    (out / PUBLISHED).write_text(f"{text}\n", "utf-8")
    return outcome


Make = Callable[..., BackendPrograms]
"""Makes the programs of a job, with the tree that recipes are read from."""


def _publish(
    root: Path, manifest: Manifest, built: BuiltVariant, make: Make, evidence: PassedTests, *, again: bool
) -> Outcome:
    version = built.version or manifest.version
    if manifest.version != version:
        message = f"was built as version {manifest.version}, and {manifest.branch} is at {version}; build it again"
        raise failure(manifest.name, Code.OTHER_VERSION, message)
    checkout = JobCheckout(root)
    checkout.require(manifest.branch, manifest.commit)
    with checkout.tree(manifest.commit) as tree:
        programs = make(recipes=tree)
        programs.prove(manifest, built.recipe)
        for name, tests in evidence.needs.items():
            if name not in evidence.elsewhere:
                programs.attest(manifest, tests, recipe_path(name))
            elif not programs.attested(manifest, tests, recipe_path(name)):
                message = (
                    f"{name} is in its closure, and no signed record says that this content passed "
                    f"{' and '.join(tests)}; test and publish {name} first, or in the same run"
                )
                raise failure(manifest.name, Code.NO_TEST_RECORD, message)
        programs.attest(manifest, evidence.tests)
        if not again and (shown := programs.published(manifest, evidence.tests)):
            return Outcome(published=False, result=f"published already: {shown}")
        programs.publish(manifest)
    made = f"{manifest.version} from {manifest.branch} at {manifest.commit[:12]}"
    return Outcome(published=True, result=made if evidence.tests else f"{made}, {evidence.claims}")


def is_published(spec: Spec, root: Path, branch: str, name: str, *, tested: bool = True) -> bool:
    """Whether the build of `name` on `branch` is published, as far as the spec's backend distinguishes builds.

    Unless it must be `tested`, whatever users can get counts, also without the records of its tests.
    `root` is a checkout of the branch. Raises InputError and StageError if the backend cannot be asked.
    """
    built = find(spec, name, branch)
    with taking_secrets() as secrets:
        programs = programs_of(spec, root, secrets, _LOOK_UP_MINUTES, built=built)
        tests = tuple(required_tests(spec, built.variant, built.route)) if tested else ()
        return programs.is_published(name, built.version, built.recipe, tests)
