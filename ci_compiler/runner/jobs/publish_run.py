"""Publishing all variants of a run that may be: one after the other, each with its own result.

A variant may be published if its own tests, and those of everything that it needs, passed on the very content that was
built. The artifacts of the run state that: manifests, and the results of tests and suites. What the run did not choose
does not count.

Any job of a run can upload an artifact with any name. A manifest or the result of a test therefore counts only if it
has the digest that the job of its build or test reported as an output, which no other job can set. A suite passed if
GitHub says that all of its jobs did.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, StageError, wrong
from ci_compiler.outside import bytes_of, json_of
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard, job_id, waits_for
from ci_compiler.plan.suites import Bench
from ci_compiler.runner.jobs.manifest import Manifest, digest_of, read_manifest
from ci_compiler.runner.jobs.publish import publish
from ci_compiler.runner.jobs.setting import Secrets, output_folder
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import BUILD, PUBLISH, Stage, stage_of
from ci_compiler.workflows.artifacts import MANIFEST_FILE, PUBLISHED, RESULT
from ci_compiler.workflows.variant import reported_as

TestRecord = Mapping[str, Any]
"""What a test wrote about its result."""

Reported = Mapping[str, Mapping[Stage | Bench, str]]
"""What the jobs of a run reported, by variant: digests of files by stage, how suites ended by bench; '' for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A variant of a run: its manifest with its folder, and why it must not be published ('': it may be).

    `refused` says what is wrong with a manifest that is not the one that the build reported.
    """

    name: str
    because: str
    refused: tuple[Finding, ...] = ()
    manifest: Manifest | None = None
    folder: Path = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """What the artifacts of a run hold, of one branch and commit: manifests by variant, and the records of tests.

    `refused` are the problems of manifests that are not the ones that the builds reported, by variant. `records` has
    the results that the tests reported, and `suites` the benches whose suites passed, by variant.
    """

    manifests: Mapping[str, tuple[Manifest, Path]]
    refused: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    records: Sequence[TestRecord]
    suites: Mapping[str, Collection[Bench]] = field(default_factory=dict)

    def passed(self, name: str, stage: Stage) -> bool:
        """Whether the build `name` passed `stage` with the content that it has."""
        manifest, _ = self.manifests[name]
        wanted = (name, manifest.branch, stage.name, manifest.content, True)
        return any(wanted == tuple(map(one.get, _COMPARED)) for one in self.records)


_COMPARED = ("name", "branch", "stage", "content", "passed")


def reported_outputs(cells: Iterable[Cell], spec: Spec, needs: str) -> Reported:
    """What the jobs of `cells` reported.

    `needs` is the JSON of the context `needs` of the job that publishes. Raises InputError if it has another form.
    """
    try:
        context = json_of(needs)
        outputs = {job: one.get("outputs") or {} for job, one in context.items()}
        return {
            variant.name: {
                what: str(outputs.get(job_id(cell), {}).get(output) or "")
                for what, output in reported_as(spec, cell, variant).items()
            }
            for cell in cells
            for variant in cell.variants
        }
    except (ValueError, AttributeError):
        message = "is not the JSON of the context `needs`: a mapping of jobs with their outputs"
        raise wrong("--needs", Code.WRONG_VALUE, message) from None


def read_results(folder: Path, branch: str, commit: str, reported: Reported) -> RunResults:
    """The results in `folder`, which has a folder for each artifact. A file that cannot be read counts as absent.

    So does the result of a test that did not report it. download-artifact creates no folder for a single artifact.
    """
    manifests: dict[str, tuple[Manifest, Path]] = {}
    refused: dict[str, tuple[Finding, ...]] = {}
    for path in _files(folder, MANIFEST_FILE):
        try:
            manifest = read_manifest(path)
        except InputError:
            continue
        if (manifest.branch, manifest.commit) != (branch, commit):
            continue
        digest = reported.get(manifest.name, {}).get(BUILD, "")
        try:
            manifests[manifest.name] = (read_manifest(path, digest), path.parent)
        except InputError as error:
            refused[manifest.name] = error.findings
    refused = {name: findings for name, findings in refused.items() if name not in manifests}
    records = [_record(path, reported) for path in _files(folder, RESULT)]
    suites = {
        name: {what for what, result in of_variant.items() if isinstance(what, Bench) and result == "success"}
        for name, of_variant in reported.items()
    }
    return RunResults(manifests=manifests, refused=refused, records=records, suites=suites)


def _files(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(name), *folder.glob(f"*/{name}")])


def _record(path: Path, reported: Reported) -> TestRecord:
    """The record in the file at `path`; {} if it is not the one that the very test reported that it names."""
    try:
        raw = bytes_of(path)
        record: TestRecord = json_of(raw)
        digest = reported[record["name"]][stage_of(record["stage"])]
    except (OSError, KeyError, TypeError):
        return {}
    return record if digest == digest_of(raw) else {}


def candidates(
    spec: Spec, cells: Sequence[tuple[Cell, Route]], chosen: Collection[str], results: RunResults
) -> Iterator[Candidate]:
    """The variants of `cells` that the run chose, each with whether it may be published."""
    for cell, route in cells:
        chosen_here = {variant.package: variant for variant in cell.variants if variant.name in chosen}
        unproved = {name: _unproved(spec, one, route, results) for name, one in chosen_here.items()}
        for package, variant in chosen_here.items():
            reasons = [unproved[one] for one in (package, *needs_of(spec, package)) if unproved.get(one)]
            manifest, folder = results.manifests.get(variant.name, (None, Path()))
            refused = results.refused.get(variant.name, ())
            because = "; ".join(reasons)
            yield Candidate(name=variant.name, because=because, refused=refused, manifest=manifest, folder=folder)


def _unproved(spec: Spec, variant: Variant, route: Route, results: RunResults) -> str:
    """Why `variant` is not known to work; '' if it was built and passed what publishing waits for."""
    if variant.name in results.refused:
        return f"{variant.name} has a manifest that its build did not report"
    if variant.name not in results.manifests:
        return f"{variant.name} was not built"
    tests = [stage for stage in waits_for(spec, PUBLISH) if stage is not BUILD]
    failed = [stage.name for stage in tests if stage in route.pools and not results.passed(variant.name, stage)]
    unproved = route.suites.keys() - results.suites.get(variant.name, ())
    failed += [
        suite.name
        for suite in spec.packages[variant.package].suites.values()
        if suite.stage in tests and Bench(suite.stage, suite.gpus) in unproved
    ]
    return f"{variant.name} did not pass {' and '.join(failed)}" if failed else ""


def publish_run(
    spec: Spec, root: Path, found: Sequence[Candidate], out: Path, secrets: Secrets, *, again: bool = False
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Publishes the candidates that may be, and writes the outcome of each to a folder of `out` with its name.

    Returns a line for each that was published or held back, and the findings of those that failed. One that fails does
    not stop the others.
    """
    lines: list[str] = []
    failures: list[Finding] = []
    for one in found:
        if one.because and not one.refused:
            _leave(out / one.name, one.name, f"no: {one.because}")
            add_row(name=one.name, stage=PUBLISH.name, result="not published", seconds=0, remarks=[one.because])
            lines.append(f"{one.name}: not published: {one.because}")
            continue
        try:
            outcome = publish(spec, root, _manifest(one), out / one.name, secrets, again=again, folder=one.folder)
        except (StageError, InputError) as error:
            message = error.findings[0].message
            _leave(out / one.name, one.name, f"failed: {message}")
            place = Place(file=one.name)
            failures += [Finding(place=place, code=said.code, message=said.message) for said in error.findings]
        else:
            lines.append(f"{one.name}: {outcome.result}")
    return tuple(lines), tuple(failures)


def _manifest(one: Candidate) -> Manifest:
    """The manifest of `one`. Raises InputError if it is not the one that the build reported."""
    with reporting(one.name, PUBLISH):
        if one.manifest is None:
            raise InputError(one.refused)
    return one.manifest


def _leave(folder: Path, name: str, result: str) -> None:
    output_folder(folder, (PUBLISHED,))
    text = json.dumps({"name": name, "published": False, "result": result}, indent=2)
    (folder / PUBLISHED).write_text(f"{text}\n", "utf-8")


def cells_of_pool(shard: Shard, pool: Pool) -> tuple[tuple[Cell, Route], ...]:
    """The cells of `shard` that publish on `pool`."""
    return tuple((cell, route) for cell, route in shard.cells if route.pools.get(PUBLISH) == pool)
