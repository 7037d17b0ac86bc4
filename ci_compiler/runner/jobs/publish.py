"""Publishing a build from its branch, unless it is already published; a scheduled run asks that before it builds."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.backends.job import BackendPrograms
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, failure
from ci_compiler.files.atomic import write_file
from ci_compiler.files.folders import SBOM_FILE
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.proof import coverage, required_tests, uncovered
from ci_compiler.runner.jobs.contained import ContainedVariants
from ci_compiler.runner.jobs.files import output_folder, write_json
from ci_compiler.runner.jobs.manifest import Manifest, expect, of_plan
from ci_compiler.runner.jobs.needed import needed_names
from ci_compiler.runner.jobs.sbom import sbom_of
from ci_compiler.runner.jobs.setting import StageJob, taking_secrets
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH
from ci_compiler.variant import recipe_path
from ci_compiler.workflows.artifacts import MANIFEST_FILE, PUBLISHED, PUBLISHED_ALREADY

HELD_BACK = "uploaded, and held back until the release is whole"
"""How the result of a variant begins whose release is not complete."""

_LOOK_UP_MINUTES = 12


class Outcome(NamedTuple):
    """The outcome: whether the build was `published` now, and one line on what is published."""

    published: bool
    result: str


class PassedTests(NamedTuple):
    """Why a build may be published: the tests that it passed, and what that `claims` of it.

    `needs` has the tests of each variant that it needs by the spec, or contains of this run's, by name: passed in this
    run, or `elsewhere` if in another one.
    """

    tests: tuple[str, ...] = ()
    claims: str = ""
    needs: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    elsewhere: Collection[str] = ()


class PublishCandidate(NamedTuple):
    """A variant of a run: its manifest with its folder, and why it must not be published ('': it may be).

    `evidence` is what publishing then relies on. `refused` says what is wrong with a manifest that is not the one that
    the build reported. `incomplete`: results are missing, and no job that failed explains it.
    """

    name: str
    because: str
    evidence: PassedTests
    refused: tuple[Finding, ...] = ()
    manifest: Manifest | None = None
    folder: Path = Path()
    incomplete: bool = False


def publish(
    job: StageJob,
    candidate: PublishCandidate,
    out: Path,
    *,
    again: bool = False,
    known: ContainedVariants | None = None,
) -> Outcome:
    """Publishes the build of `candidate` from the checkout of `job`, and writes the outcome to `out`.

    The build must be what the recipe evaluates to at the commit, with the content that was tested, and so must be every
    declared variant in its closure. `known` finds these, and keeps what it evaluates for the next call.

    A build that is already published is skipped, unless `again` is set. Raises InputError and StageError.
    """
    output_folder(out, (PUBLISHED,))
    start = time.monotonic()
    with reporting(candidate.name, PUBLISH):
        if candidate.manifest is None:
            raise InputError(candidate.refused)
        outcome = _publish(job, candidate.manifest, candidate, known or ContainedVariants(), again=again)
    held = outcome.result.startswith(HELD_BACK)
    result = "published" if outcome.published else "held back" if held else PUBLISHED_ALREADY
    size, seconds = candidate.manifest.closure_size, time.monotonic() - start
    name, remarks = candidate.name, [outcome.result]
    add_row(name=name, stage=PUBLISH.name, result=result, seconds=seconds, size=size, remarks=remarks)
    write_outcome(candidate, outcome, out)
    return outcome


def write_outcome(candidate: PublishCandidate, outcome: Outcome, out: Path) -> None:
    """Writes `outcome` to the folder `out`."""
    output_folder(out, (PUBLISHED,))
    write_json(out / PUBLISHED, {"name": candidate.name, **outcome._asdict()})


def upload(job: StageJob, candidate: PublishCandidate, known: ContainedVariants) -> None:
    """Uploads a variant of a whole release, so that the last one that gets there shows all. Raises as `publish`."""
    if candidate.manifest is None:
        raise InputError(candidate.refused)
    with _proved(job, candidate.manifest, candidate, known) as programs:
        programs.upload(candidate.manifest)


@contextmanager
def _proved(
    job: StageJob, manifest: Manifest, candidate: PublishCandidate, known: ContainedVariants
) -> Iterator[BackendPrograms]:
    """The programs that may publish the build: it is what the commit says, and so is what its closure contains."""
    built, evidence = find(job.spec, manifest.name, manifest.branch), candidate.evidence
    planned = of_plan(built)
    version = planned.pop("version") or manifest.version
    if manifest.version != version:
        message = f"was built as version {manifest.version}, and {manifest.branch} is at {version}; build it again"
        raise failure(manifest.name, Code.OTHER_VERSION, message)
    expect(manifest, candidate.folder / MANIFEST_FILE, **planned, needs=needed_names(built))
    checkout = JobCheckout(job.root)
    checkout.require(manifest.branch, manifest.commit)
    with checkout.tree(manifest.commit) as tree:
        programs = job.programs(job.spec.timeouts[PUBLISH], built=built, folder=candidate.folder, recipes=tree)
        programs.prove(manifest, built.recipe)
        within = (one for one in known.of(built, manifest, programs) if one.variant.name not in evidence.needs)
        needs = {**evidence.needs, **{one.variant.name: _required(one, manifest) for one in within}}
        for name, tests in needs.items():
            if name in evidence.needs and name not in evidence.elsewhere:
                programs.attest(manifest, tests, recipe_path(name))
            elif not programs.attested(manifest, tests, recipe_path(name)):
                message = (
                    f"{name} is in its closure, and no signed record says that this content passed "
                    f"{' and '.join(tests)}; test and publish {name} first, or in the same run"
                )
                raise failure(manifest.name, Code.NO_TEST_RECORD, message)
        programs.attest(manifest, evidence.tests)
        # Made again from what was proved, and not taken from the artifact, whose manifest alone has a known digest.
        if not job.spec.backend.has_recipes:
            path = candidate.folder / SBOM_FILE
            path.unlink(missing_ok=True)  # it may be a pipe
            write_file(path, sbom_of(manifest, candidate.folder))
        yield programs


def _required(one: BuiltVariant, manifest: Manifest) -> tuple[str, ...]:
    """The tests that `one`, in the closure of a build, must have passed. Raises StageError if nothing covers it."""
    if not coverage(one.spec, one.cell, one.variant, one.route):
        message = f"{one.variant.name} is in its closure, and {uncovered(one.variant.name)}"
        raise failure(manifest.name, Code.NO_TEST_RECORD, message)
    return tuple(required_tests(one.spec, one.cell, one.variant, one.route))


def _publish(
    job: StageJob, manifest: Manifest, candidate: PublishCandidate, known: ContainedVariants, *, again: bool
) -> Outcome:
    evidence = candidate.evidence
    with _proved(job, manifest, candidate, known) as programs:
        if not again and (shown := programs.published(manifest, evidence.tests)):
            return Outcome(published=False, result=f"{PUBLISHED_ALREADY}: {shown}")
        if waits := programs.upload(manifest):
            return Outcome(published=False, result=f"{HELD_BACK}: {waits}")
        programs.publish(manifest)
    made = f"{manifest.version} from {manifest.branch} at {manifest.commit[:12]}"
    return Outcome(published=True, result=made if evidence.tests else f"{made}, {evidence.claims}")


def is_published(spec: Spec, root: Path, branch: str, name: str, *, tested: bool = True) -> bool:
    """Whether the build of `name` on `branch` is published, as far as the spec's backend distinguishes builds.

    Unless it must be `tested`, whatever users can get counts, also without the records of its tests.
    `root` is a checkout of the branch. Raises InputError and StageError if the backend cannot be asked.
    """
    built = find(spec, name, branch)
    with taking_secrets(spec.publishing_secrets) as secrets:
        programs = StageJob(spec, root, secrets).programs(_LOOK_UP_MINUTES, built=built)
        tests = tuple(required_tests(built.spec, built.cell, built.variant, built.route)) if tested else ()
        return programs.is_published(name, built.version, built.recipe, tests)
