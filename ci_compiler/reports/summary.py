"""The Markdown summary of a run: one row per variant, from the artifacts of its stages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about, wrong
from ci_compiler.outside import bytes_of, expected, object_of, reading
from ci_compiler.plan.benchmarks import read_benchmark
from ci_compiler.plan.complete import stays_complete
from ci_compiler.plan.expected import expected_failure, expected_failures, in_words
from ci_compiler.plan.lookup import BuiltVariant, explain
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.proof import is_imported_only, passed
from ci_compiler.plan.routing import Route
from ci_compiler.plan.selection import GitHubEvent, Selection, request_of
from ci_compiler.plan.sharding import ALL
from ci_compiler.plan.suites import bench_of, suites_of
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import Suite
from ci_compiler.spec.triggers import PULL_REQUEST
from ci_compiler.stages import BUILD, PUBLISH, Stage
from ci_compiler.units import counted, duration, markdown_table, markdown_text, size
from ci_compiler.workflows.artifacts import (
    BENCHMARK,
    EXPECTED,
    MANIFEST_FILE,
    PUBLISHED,
    PUBLISHED_ALREADY,
    RESULT,
    SUITE_RESULT,
    artifact_name,
)

_FAILED, _SHOWN = "**failed**", 3
"""The cell of what failed, and the most failures of a suite that it names."""

REQUESTS = frozenset({"pull_request", "merge_group"})
"""The events of changes that are not merged, for which not every stage runs."""

_LARGEST_NUMBER, _LONGEST = 10**15, 300
"""The largest number of seconds or bytes, and the longest text, that a row shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarisedRun:
    """A run: the name of its event, its branch or tag, whether it was asked to publish, and its profile ('': none)."""

    event: str
    ref: str
    publish: bool
    profile: str = ""


def table(plan: Plan, run: SummarisedRun, branch: str, chosen: Sequence[str], results: Path) -> str:
    """The table of the `chosen` variants; `results` is the folder of the run's artifacts, one folder per artifact."""
    if not chosen:
        return "Nothing was to be built.\n"
    head = ["variant", *(stage.name for stage in plan.spec.stages if stage is not PUBLISH), "time", "size", "published"]
    needs = Needs(plan.spec, plan.judged.cells)
    rows = [_row(plan, needs, run, branch, name, results, chosen) for name in chosen]
    return f"{markdown_table(head, rows)}\n"


def unfinished(plan: Plan, run: SummarisedRun, branch: str, chosen: Sequence[str], results: Path) -> Iterator[Finding]:
    """A finding for each of the `chosen` variants of which a stage left nothing: it never ran, or its artifact is gone.

    The jobs of a variant are skipped while they are paused, and their run looks as if nothing had been to do. Stages
    that the spec expects to fail, and what follows them, may leave nothing.
    """
    for name in chosen:
        built = _built(plan, branch, name)
        if expected_failures(plan.spec, name, branch):
            continue
        route, tests = _tests(plan, run, built, results)
        left = {BUILD: bool(_manifest(results, name, branch, built.cell.joined))}
        left |= {stage: bool(result) for stage, result in tests.items() if stage in route.pools and stage.proves}
        if run.publish and run.ref == branch and PUBLISH in route.pools:
            left[PUBLISH] = bool(_published(results, name))
        if missing := [stage.name for stage, is_there in left.items() if not is_there]:
            message = f"{' and '.join(missing)} left no result in this run, which may have been paused; re-run all jobs"
            yield Finding(place=Place(file=name), code=Code.VARIANT_UNFINISHED, message=message)


def complete(plan: Plan, run: SummarisedRun, branch: str, chosen: Sequence[str], results: Path) -> Iterator[str]:
    """Those of the `chosen` variants of a run that succeeded of which a later run at the same tree needs nothing.

    In a run that publishes, these are only those that are published, if they ever are.
    """
    for name in chosen:
        built = _built(plan, branch, name)
        publishes = run.publish and run.ref == branch and PUBLISH in built.route.pools
        if stays_complete(built) and (not publishes or _is_published(results, name)):
            yield name


def _is_published(results: Path, name: str) -> bool:
    outcome = _published(results, name)
    return outcome.get("published") is True or str(outcome.get("result", "")).startswith(PUBLISHED_ALREADY)


def rebuilt_by_branch(request: Selection) -> str:
    """The numbers of variants that a pull request rebuilds and builds on each branch, and what it builds there."""
    if not request.branches:
        return "This change rebuilds nothing.\n\n"
    rows = [
        (
            markdown_text(selection.branch),
            len(selection.variants) + len(selection.left),
            len(selection.variants) if request.ref else 0,
            f"what `ci-compile sync` would commit on {selection.onto[:12]}"
            if selection.onto
            else "the merge of the request",
        )
        for selection in request.branches
    ]
    return f"{markdown_table(['branch', 'variants rebuilt', 'built in this run', 'from'], rows)}\n\n"


def unbuilt_request(spec: Spec, event: GitHubEvent, count: int) -> Finding | None:
    """The finding about a request that chose `count` variants and builds none: it is a fork's, or within a fork."""
    request = request_of(event)
    with reading("event", Code.UNKNOWN_EVENT):
        repository = event.payload["repository"]
        here = expected(str, repository["full_name"])
    is_own = here.lower() == spec.repository.lower() if spec.repository else not repository.get("fork")
    if not count or (request.head and is_own):
        return None
    why = (
        f"no machine runs the code of a fork; read the code, push it to a branch of {here}, and open a pull request "
        "from there"
        if is_own
        else f"{here} is a fork; if its own machines are to build, set `repository` in the spec"
    )
    return about(event.name, Code.FORK_NOT_BUILT, f"{counted(count, 'variant')} {_is(count)} not built: {why}")


def left_to_dispatch(plan: Plan, request: Selection) -> str:
    """The variants that a pull request affects but does not build, with one command per shard that builds its code."""
    left = {(selection.branch, name) for selection in request.branches for name in selection.left}
    commands = []
    for shard in plan.shards:
        names = [name for name in shard.variants if (shard.branch, name) in left]
        if names:
            variant = names[0] if len(names) == 1 else ALL
            commands.append(f"gh workflow run {shard.name}.yml --ref {shlex.quote(request.ref)} -f variant={variant}")
    listed = "\n".join(commands)
    count = f"{counted(len(left), 'further variant')} {_is(len(left))} rebuilt by this change"
    return f"<details><summary>{count}; start them with</summary>\n\n```sh\n{listed}\n```\n\n</details>\n"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _row(
    plan: Plan, needs: Needs, run: SummarisedRun, branch: str, name: str, results: Path, chosen: Sequence[str]
) -> list[str]:
    built = _built(plan, branch, name)
    manifest = _manifest(results, name, branch, built.cell.joined)
    route, tests = _tests(plan, run, built, results)
    reached = results.is_dir() and any(results.iterdir()) and not _waited(needs, built, results, chosen)
    cells = {BUILD: "passed" if manifest else _FAILED if reached else "not reached"}
    for stage, result in tests.items():
        if stage not in route.pools:
            reason = route.skipped.get(stage, "")
            cells[stage] = f"no: {markdown_text(reason)}" if reason else "–"
        elif not manifest or any(tests[other].get("passed") is not True for other in _followed(stage, route)):
            cells[stage] = "not reached"
        elif not stage.proves:
            folder = results / artifact_name(stage, name, branch)
            cells[stage] = _measured(built, folder, passed=result.get("passed") is True)
        else:
            only = is_imported_only(plan.spec, plan.spec.packages[built.variant.package], stage)
            recorded = result.get("recorded") is True
            shown = passed(imported_only=only, reach=str(result.get("reach", "")), recorded=recorded)
            ended = "; ".join([shown, *_suites(built, stage, results)])
            cells[stage] = ended if result.get("passed") is True else _FAILED
            cells[stage] += _expectation(built, stage, passed=result.get("passed") is True)
    published = _published(results, name)
    failed = any(_FAILED in cell or cell == "not reached" for cell in cells.values())
    return [
        f"`{name}`",
        *cells.values(),
        _number(manifest, "seconds", duration),
        _number(manifest, "closure_size", size),
        _words(published["result"]) if "result" in published else _why_not(run, branch, failed=failed),
    ]


def _built(plan: Plan, branch: str, name: str) -> BuiltVariant:
    """The variant `name` on `branch`. Raises InputError if the plan does not build it there."""
    built = next((one for one in explain(plan, name).built if one.cell.branch == branch), None)
    if built is None:
        message = f"{name} is not built on {branch}; `ci-compile variants --branch {branch}` lists what is"
        raise wrong("--chosen", Code.UNKNOWN_VARIANT, message)
    return built


def _tests(
    plan: Plan, run: SummarisedRun, built: BuiltVariant, results: Path
) -> tuple[Route, Mapping[Stage, Mapping[str, Any]]]:
    """The route of a variant in the run, and what each test left; {} for nothing."""
    left_out = plan.spec.profiles.left_out
    is_request = run.event in REQUESTS
    route = (
        built.route.of_request(left_out(PULL_REQUEST))
        if is_request
        else built.route.in_profile(run.profile, left_out(run.profile))
    )
    folders = {
        stage: results / artifact_name(stage, built.variant.name, built.cell.branch)
        for stage in plan.spec.stages
        if stage.is_test
    }
    return route, {stage: read_json(folder / RESULT) for stage, folder in folders.items()}


def _published(results: Path, name: str) -> Mapping[str, Any]:
    """The outcome of publishing a variant; {} for none."""
    return next((read_json(path) for path in results.glob(f"*/{name}/{PUBLISHED}")), {})


def _followed(stage: Stage, route: Route) -> Iterator[Stage]:
    """The tests after which `stage` runs, where a pool runs them."""
    return (other for other in route.pools if other.name in stage.follows)


def _measured(built: BuiltVariant, folder: Path, *, passed: bool) -> str:
    """What a benchmark found, whose files are in `folder`."""
    result = read_benchmark(read_json(folder / BENCHMARK))
    is_own = result is not None and (result.name, result.branch) == (built.variant.name, built.cell.branch)
    said = _words(result) if is_own else ""
    return said or "passed" if passed else "; ".join(filter(None, [_FAILED, said]))


def _suites(built: BuiltVariant, stage: Stage, results: Path) -> Iterator[str]:
    """How the suites of `stage` ended for a variant, each with its first failures, or why no pool runs them."""
    found = [read_json(path) for path in sorted(results.glob(f"*/{SUITE_RESULT}"))]
    for suite in suites_of(built.spec, built.cell, built.variant):
        bench = bench_of(suite)
        wanted = (built.variant.name, built.cell.branch, suite.name)
        shards = [one for one in found if (one.get("name"), one.get("branch"), one.get("suite")) == wanted]
        if suite.stage is not stage:
            continue
        if bench not in built.route.suites:
            yield f"{suite.name}: no: {markdown_text(built.route.skipped_suites[bench])}"
        elif len(shards) == suite.shards and all(one.get("passed") is True for one in shards):
            before = " before" if all(one.get("recorded") is True for one in shards) else ""
            yield f"{suite.name}: passed{before}{_expected(suite, shards)}"
        else:
            listed = [one["failures"] for one in shards if isinstance(one.get("failures"), list)]
            failures = [_words(failure) for failure in islice(chain.from_iterable(listed), _SHOWN)]
            yield f"{suite.name}: {_FAILED}" + (f" ({'; '.join(failures)})" if failures else "")


def _expectation(built: BuiltVariant, stage: Stage, *, passed: bool) -> str:
    """What the spec expects of a stage that ran, if it expects a failure."""
    entry = expected_failure(built.spec, built.variant.name, built.cell.branch, stage)
    if entry is None:
        return ""
    return (
        "; **passes again**: remove its expected failure" if passed else f", expected: {markdown_text(in_words(entry))}"
    )


def _expected(suite: Suite, shards: Sequence[Mapping[str, Any]]) -> str:
    """How many tests of a suite that passed failed as expected, and the reasons that the spec gives."""
    counts = [one["tests"].get(EXPECTED) for one in shards if isinstance(one.get("tests"), dict)]
    count = sum(one for one in counts if type(one) is int and 0 < one < _LARGEST_NUMBER)
    reasons = "; ".join(dict.fromkeys(f"{one.because} (until {one.until})" for one in suite.expected_failures))
    return f", with {counted(count, 'expected failure')}: {_words(reasons)}" if count else ""


def _why_not(run: SummarisedRun, branch: str, *, failed: bool) -> str:
    if run.event not in {"push", "workflow_dispatch"}:
        return f"no: {markdown_text(run.event)} publishes nothing"
    if run.ref != branch:
        return f"no: the run is at {markdown_text(run.ref)}, not at {markdown_text(branch)}"
    if not run.publish:
        return "no: not asked for"
    return "no: it failed before" if failed else _FAILED


def _waited(needs: Needs, built: BuiltVariant, results: Path, chosen: Sequence[str]) -> bool:
    """Whether something that `built` is built with was to be built in this run, and was not."""
    before = needs.of(built.cell, built.variant.package)
    return any(
        one.name in chosen and not _manifest(results, one.name, cell.branch, cell.joined) for cell, one in before
    )


def _manifest(results: Path, name: str, branch: str, joined: str = "") -> Mapping[str, Any]:
    """The manifest of a variant, which the build `joined` made together with others, if that is not ''.

    If a run has only one artifact, download-artifact creates no folder for it.
    """
    alone = read_json(results / MANIFEST_FILE)
    if (alone.get("name"), alone.get("branch")) == (name, branch):
        return alone
    own = (
        results / artifact_name(BUILD, joined, branch) / name
        if joined
        else results / artifact_name(BUILD, name, branch)
    )
    return read_json(own / MANIFEST_FILE)


def read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; empty if it is no plain file, is too large, or has no JSON object."""
    try:
        return object_of(bytes_of(path))
    except OSError:
        return {}


def _number(manifest: Mapping[str, Any], key: str, written: Callable[[int], str]) -> str:
    value = manifest.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST_NUMBER:
        return "–"
    return written(round(value))


def _words(value: object) -> str:
    """Text from an artifact as Markdown, shortened so that one row cannot fill the summary."""
    text = str(value)
    return markdown_text(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
