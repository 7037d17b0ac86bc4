"""Publishing all variants of a run that may be: one after the other, each with its own result.

A variant may be published if its own tests, and those of everything that it needs, passed on the very content that was
built. For what the run built, its artifacts state that: manifests, and the results of tests and suites. For the rest
of the closure, the records do that publishing signed in other runs. A variant that no test covers is published only if
the spec says why.

Any job of a run can upload an artifact with any name. A manifest or the result of a test therefore counts only if it
has the digest that the job of its build or test reported as an output, which no other job can set. A suite passed if
GitHub says that all of its jobs did.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, StageError, wrong
from ci_compiler.outside import bytes_of, json_of, object_of, reading
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.proof import coverage, required_tests, uncovered
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import Shard
from ci_compiler.plan.suites import Bench, benches, joined_packages, legs, suites_of
from ci_compiler.runner.jobs.contained import ContainedVariants
from ci_compiler.runner.jobs.files import by_digest, digest_of, found_in
from ci_compiler.runner.jobs.manifest import Manifest, expect, read_manifest
from ci_compiler.runner.jobs.publish import Outcome, PassedTests, PublishCandidate, publish, upload, write_outcome
from ci_compiler.runner.jobs.setting import StageJob
from ci_compiler.runner.jobs.summary import add_row
from ci_compiler.runner.targets import package_of
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import BUILD, PUBLISH, Stage, stage_of, stages_that_test
from ci_compiler.workflows.artifacts import MANIFEST_FILE, RESULT, SUITE_RESULT
from ci_compiler.workflows.joined import MANIFESTS
from ci_compiler.workflows.variant import MANIFEST_OUTPUT, reported_as

TestRecord = Mapping[str, Any]
"""What a test wrote about its result."""

Reported = Mapping[str, Mapping[Stage | Bench, str]]
"""What the jobs of a run reported, by variant: digests of files by stage, how suites ended by bench; '' for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """What the artifacts of a run hold, of one branch and commit: manifests by variant, and the records of tests.

    `refused` are the problems of manifests that are not the ones that the builds reported, by variant. `records` has
    the results that the tests reported, and `suites` the benches whose suites passed, by variant. `well` has the
    variants of whose jobs none failed.
    """

    manifests: Mapping[str, tuple[Manifest, Path]]
    refused: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    records: Sequence[TestRecord]
    suites: Mapping[str, Collection[Bench]] = field(default_factory=dict)
    well: Collection[str] = ()

    def passed(self, name: str, test: Stage | Bench) -> bool:
        """Whether the build `name` passed a stage, with the content that it has, or a suite."""
        if isinstance(test, Bench):
            return test in self.suites.get(name, ())
        manifest, _ = self.manifests[name]
        wanted = (name, manifest.branch, test.name, manifest.content, True)
        return any(wanted == tuple(map(record.get, _COMPARED)) for record in self.records)

    def unproved(self, name: str, tests: Mapping[str, Stage | Bench]) -> str:
        """Why `name` is not known to work; '' if it was built and passed the `tests` that publishing waits for."""
        if name in self.refused:
            return f"{name} has a manifest that its build did not report"
        if name not in self.manifests:
            return f"{name} was not built"
        failed = [key for key, test in tests.items() if not self.passed(name, test)]
        return f"{name} did not pass {' and '.join(failed)}" if failed else ""

    def stale(self, name: str, needs: Iterable[str]) -> str:
        """Which of `needs` the build of `name` got other files of than this run made, in words; '' for none."""
        if name not in self.manifests or not (handed := self.manifests[name][0].needs):
            return ""
        made = {need: self.manifests[need][0].content for need in needs if need in self.manifests}
        other = [need for need, content in made.items() if handed.get(need) != content]
        return f"{name} was built with other files of {' and '.join(other)}" if other else ""

    def contained(self, name: str) -> list[str]:
        """The other variants of the run of which the closure of the build of `name` has an output."""
        closure = self.manifests[name][0].closure if name in self.manifests else {}
        every = {other: manifest.outputs for other, (manifest, _) in self.manifests.items() if other != name}
        return [other for other, outputs in every.items() if not closure.keys().isdisjoint(outputs)]

    def built_with(self, name: str, need: str) -> bool:
        """Whether `name` was built with the very content of `need` that this run built."""
        if handed := self.manifests[name][0].needs:
            return handed.get(need) == self.manifests[need][0].content
        with_, (built, _) = self.manifests[name][0].closure, self.manifests[need]
        return all(with_.get(path, content) == content for path, content in built.closure.items())


_COMPARED = ("name", "branch", "stage", "content", "passed")


def reported_outputs(shard: Shard, spec: Spec, needs: str) -> Reported:
    """What the jobs of the cells of `shard` reported.

    `needs` is the JSON of the context `needs` of the job that publishes. Raises InputError if it has another form.
    """
    try:
        context = json_of(needs)
        outputs = {job: one.get("outputs") or {} for job, one in context.items()}
        return {
            variant.name: _reported_joined(spec, outputs.get(shard.job_id(cell), {}), variant.name)
            if cell.joined
            else {
                what: str(outputs.get(shard.job_id(cell), {}).get(output) or "")
                for what, output in reported_as(spec, cell, variant).items()
            }
            for cell, _ in shard.cells
            for variant in cell.variants
        }
    except (ValueError, AttributeError):
        message = "is not the JSON of the context `needs`: a mapping of jobs with their outputs"
        raise wrong("--needs", Code.WRONG_VALUE, message) from None


def reported_to(built: BuiltVariant, contexts: str) -> dict[str, str]:
    """The digests of manifests by variant that the jobs reported which `built` waits for.

    `contexts` is a JSON list: the context `needs` of the job that calls its workflow, and that of its own job. Raises
    InputError for another form.
    """
    shard = built.shard
    with reading("--reported", Code.WRONG_VALUE, "is not a JSON list of two contexts `needs`"):
        caller, own = json_of(contexts)
        made = {job: one["outputs"].get(MANIFEST_OUTPUT) for job, one in (own or {}).items()}
        needs = json.dumps({**(caller or {}), **({shard.job_id(built.cell): {"outputs": made}} if made else {})})
    reported = reported_outputs(shard, built.spec, needs)
    return {name: digests[BUILD] for name, digests in reported.items() if digests[BUILD]}


def ended_well(shard: Shard, needs: str) -> frozenset[str]:
    """The variants of `shard` whose lack of results no failed job explains; `needs` is as above, and was read there.

    Jobs that were skipped count as well: a pause skips them, and may be lifted before the verdict looks.
    """
    results = {job: one.get("result") for job, one in json_of(needs).items()}
    none_failed = not {"failure", "cancelled"} & set(results.values())
    well = (cell for cell, _ in shard.cells if none_failed or results.get(shard.job_id(cell)) == "success")
    return frozenset(variant.name for cell in well for variant in cell.variants)


def _reported_joined(spec: Spec, outputs: Mapping[str, Any], name: str) -> dict[Stage | Bench, str]:
    """What the jobs of a joined build reported of the variant `name`: its manifest, and how tests and suites ended."""
    digests = json_of(str(outputs.get(MANIFESTS) or "{}"))
    stages: dict[Stage | Bench, str] = {stage: str(outputs.get(stage.name) or "") for stage in stages_that_test()}
    suites: dict[Stage | Bench, str] = {
        bench: str(outputs.get(bench.job) or "") for bench in benches(joined_packages(spec))
    }
    return {BUILD: str(digests.get(name) or ""), **stages, **suites}


def read_results(folder: Path, branch: str, commit: str, reported: Reported) -> RunResults:
    """The results in `folder`, which has a folder for each artifact. A file that cannot be read counts as absent.

    So does the result of a test that did not report it.
    """
    files = by_digest([folder], MANIFEST_FILE)
    manifests: dict[str, tuple[Manifest, Path]] = {}
    refused: dict[str, tuple[Finding, ...]] = {}
    for name, of_variant in reported.items():
        if path := files.get(of_variant.get(BUILD, "")):
            try:
                manifest = read_manifest(path)
                expect(manifest, path, name=name)
            except InputError as error:
                refused[name] = error.findings
            else:
                if (manifest.branch, manifest.commit) == (branch, commit):
                    manifests[name] = (manifest, path.parent)
    refused = dict(_unreported(files.values(), branch, commit, reported)) | refused
    refused = {name: findings for name, findings in refused.items() if name not in manifests}
    records = [_record(path, reported) for path in found_in(folder, RESULT)]
    suites = {
        name: {what for what, result in of_variant.items() if isinstance(what, Bench) and result == "success"}
        for name, of_variant in reported.items()
    }
    return RunResults(manifests=manifests, refused=refused, records=records, suites=suites)


def _unreported(
    paths: Iterable[Path], branch: str, commit: str, reported: Reported
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """The problems of the manifests at `paths` that are not the ones that the builds reported which they name."""
    for path in paths:
        with suppress(InputError):
            manifest = read_manifest(path)
            if (manifest.branch, manifest.commit) == (branch, commit):
                try:
                    read_manifest(path, reported.get(manifest.name, {}).get(BUILD, ""))
                except InputError as error:
                    yield manifest.name, error.findings


def results_by_hand(built: BuiltVariant, manifest: Manifest, folder: Path, tested: Path) -> RunResults:
    """The results of the tests of one build in the folder `tested`, which whoever publishes by hand believes.

    `folder` is the manifest's.
    """
    results = RunResults(manifests={manifest.name: (manifest, folder)}, records=[*map(_json, found_in(tested, RESULT))])
    shards = [
        {"suite": one.get("suite"), "shard": f"{one.get('shard')}/{one.get('shards')}"}
        for one in map(_json, found_in(tested, SUITE_RESULT))
        if any(replace(results, records=[one]).passed(manifest.name, stage) for stage in stages_that_test())
    ]
    suites = suites_of(built.spec, built.cell, built.variant)
    benches = [bench for bench in built.route.suites if all(leg in shards for leg in legs(suites, bench))]
    return replace(results, suites={manifest.name: benches})


def _json(path: Path) -> TestRecord:
    """The mapping in a file; {} if there is none."""
    try:
        return object_of(bytes_of(path))
    except OSError:
        return {}


def _record(path: Path, reported: Reported) -> TestRecord:
    """The record in the file at `path`; {} if it is not the one that the very test reported that it names.

    The tests of a joined build are legs of one job, which succeeds only if each leg kept its own artifact.
    """
    record = _json(path)
    try:
        digest = reported[record["name"]][stage_of(record["stage"])]
        return record if digest in {"success", digest_of(bytes_of(path))} else {}
    except (OSError, KeyError, TypeError):
        return {}


def candidates(
    spec: Spec,
    cells: Sequence[tuple[Cell, Route]],
    chosen: Collection[str],
    results: RunResults,
    among: Sequence[tuple[Cell, Route]] = (),
) -> Iterator[PublishCandidate]:
    """The variants of `cells` that the run chose, each with whether it may be published.

    `among` are all cells of the shard, of which what they need may be published by another job.
    """
    every = [*cells, *(part for part in among if part not in cells)]
    across = Needs(spec, [cell for cell, _ in every])
    routes = {variant.name: route for cell, route in every for variant in cell.variants}
    of_name = {variant.name: (cell, variant) for cell, _ in every for variant in cell.variants}
    for cell, route in cells:
        tests = {variant.name: required_tests(spec, cell, variant, route) for variant in cell.variants}
        claims = {variant.name: coverage(spec, cell, variant, route) for variant in cell.variants}
        unproved = {name: results.unproved(name, tests[name]) if name in chosen else "" for name in tests}
        lacking = {name for name in unproved if unproved[name]} & {*results.well}
        for name in (name for name in tests if not claims[name]):
            unproved[name] = unproved[name] or uncovered(name)
        for name, package in ((variant.name, variant.package) for variant in cell.variants if variant.name in chosen):
            needs = needs_of(spec, package)
            needed = {variant.name: tuple(tests[variant.name]) for variant in cell.variants if variant.package in needs}
            within = results.contained(name) if spec.backend.has_recipes else ()
            for other, need in (*across.every(cell, package), *(of_name[one] for one in within if one in of_name)):
                if need.name not in needed and need.name in chosen:  # of another cell, or without being declared
                    required = required_tests(spec, other, need, routes[need.name])
                    unproved[need.name], needed[need.name] = results.unproved(need.name, required), tuple(required)
            stale = results.stale(name, [need for need in needed if need in chosen])
            because = "; ".join(filter(None, [*map(unproved.get, (name, *needed)), stale]))
            evidence = PassedTests()
            if not because:  # this run shows that a test passed, or records do for what it did not build
                elsewhere = [need for need in needed if need not in chosen or not results.built_with(name, need)]
                evidence = PassedTests(tuple(tests[name]), claims[name], needed, elsewhere)
            manifest, folder = results.manifests.get(name, (None, Path()))
            refused = results.refused.get(name, ())
            yield PublishCandidate(name, because, evidence, refused, manifest, folder, incomplete=name in lacking)


def publish_run(
    job: StageJob, found: Sequence[PublishCandidate], out: Path, *, again: bool = False
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Publishes the candidates that may be, and writes the outcome of each to a folder of `out` with its name.

    Returns a line for each that was published or held back, and the findings of those that failed. One that fails does
    not stop the others.
    """
    lines: list[str] = []
    failures: list[Finding] = []
    known = ContainedVariants()
    for candidate in found:  # of a whole release, everything is uploaded before anything is shown
        if not candidate.because and _is_whole(job.spec, candidate.name):
            with suppress(StageError, InputError):  # reported below
                upload(job, candidate, known)
    for candidate in found:
        name, because, folder = candidate.name, candidate.because, out / candidate.name
        if because and not candidate.refused:
            write_outcome(candidate, Outcome(published=False, result=f"no: {because}"), folder)
            add_row(name=name, stage=PUBLISH.name, result="not published", seconds=0, remarks=[because])
            lines.append(f"{name}: not published: {because}")
            if candidate.incomplete:  # else the run would end well
                message = f"{because}, and none of its jobs failed; re-run all jobs"
                failures.append(Finding(place=Place(file=name), code=Code.VARIANT_UNFINISHED, message=message))
            continue
        try:
            lines.append(f"{name}: {publish(job, candidate, folder, again=again, known=known).result}")
        except (StageError, InputError) as error:
            result = f"failed: {error.findings[0].message}"
            write_outcome(candidate, Outcome(published=False, result=result), folder)
            failures += [replace(finding, place=Place(file=name)) for finding in error.findings]
    return tuple(lines), tuple(failures)


def _is_whole(spec: Spec, name: str) -> bool:
    commands = package_of(spec, name).command
    return bool(commands and commands.is_whole)


def cells_of_pool(shard: Shard, pool: Pool) -> tuple[tuple[Cell, Route], ...]:
    """The cells of `shard` that publish on `pool`."""
    return tuple((cell, route) for cell, route in shard.cells if route.pools.get(PUBLISH) == pool)
