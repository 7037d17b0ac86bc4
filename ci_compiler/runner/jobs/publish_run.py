"""Publishing all variants of a run that may be: one after the other, each with its own result.

A variant may be published if its own tests, and those of everything that it needs, passed on the very content that was
built. The artifacts of the run state that: manifests, and the results of tests and suites. What the run did not choose
does not count.

Any job of a run can upload an artifact with any name. A manifest therefore counts only if it has the digest that the
job of its build reported as an output, which no other job can set.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, StageError, wrong
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard, job_id, waits_for
from ci_compiler.plan.suites import Bench
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.publish import publish
from ci_compiler.runner.jobs.setting import Secrets, output_folder
from ci_compiler.runner.jobs.summary import add_row, reporting
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import BUILD, PUBLISH, Stage
from ci_compiler.workflows.variant import MANIFEST_FILE, PUBLISHED, RESULT, SUITE_RESULT, reported_as

TestRecord = Mapping[str, Any]
"""What a test or a shard of a suite wrote about its result."""


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

    `refused` are the problems of manifests that are not the ones that the builds reported, by variant.
    """

    manifests: Mapping[str, tuple[Manifest, Path]]
    refused: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    records: Sequence[TestRecord]

    def passed(self, name: str, stage: Stage, suite: str = "") -> set[int]:
        """The shards of `suite` ('': the stage itself, as shard 0) that passed on the content of the build `name`."""
        manifest, _ = self.manifests[name]
        wanted = (name, manifest.branch, stage.name, suite, manifest.content)
        return {
            one.get("shard", 0)
            for one in self.records
            if wanted == tuple(one.get(key, "") for key in ("name", "branch", "stage", "suite", "content"))
            and one.get("passed") is True
        }


def reported_digests(cells: Iterable[Cell], spec: Spec, needs: str) -> dict[str, str]:
    """The digests of manifests that the builds of `cells` reported, by variant; '' for a build that reported none.

    `needs` is the JSON of the context `needs` of the job that publishes. Raises InputError if it has another form.
    """
    try:
        context = json.loads(needs)
        outputs = {job: one.get("outputs") or {} for job, one in context.items()}
        return {
            variant.name: str(outputs.get(job_id(cell), {}).get(reported_as(spec, cell, variant)) or "")
            for cell in cells
            for variant in cell.variants
        }
    except (ValueError, AttributeError, RecursionError):
        message = "is not the JSON of the context `needs`: a mapping of jobs with their outputs"
        raise wrong("--needs", Code.WRONG_VALUE, message) from None


def read_results(folder: Path, branch: str, commit: str, digests: Mapping[str, str]) -> RunResults:
    """The results in `folder`, which has a folder for each artifact. A file that cannot be read counts as absent.

    `digests` are those of the manifests, by variant. download-artifact creates no folder if there is only one artifact.
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
        try:
            manifests[manifest.name] = (read_manifest(path, digests.get(manifest.name, "")), path.parent)
        except InputError as error:
            refused[manifest.name] = error.findings
    refused = {name: findings for name, findings in refused.items() if name not in manifests}
    records = [_record(path) for name in (RESULT, SUITE_RESULT) for path in _files(folder, name)]
    return RunResults(manifests=manifests, refused=refused, records=records)


def _files(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(name), *folder.glob(f"*/{name}")])


def _record(path: Path) -> TestRecord:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


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
    wanted = [(stage, "", {0}) for stage in tests if stage in route.pools] + [
        (suite.stage, suite.name, set(range(1, suite.shards + 1)))
        for suite in spec.packages[variant.package].suites.values()
        if suite.stage in tests and Bench(suite.stage, suite.gpus) in route.suites
    ]
    failed = [
        suite or stage.name for stage, suite, shards in wanted if shards - results.passed(variant.name, stage, suite)
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
