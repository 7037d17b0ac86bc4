"""The state of the matrix: the last result of every variant, from the jobs of the latest runs of its shard.

Every run of a shard's workflow builds the shard's branch, whatever started it. The last result of a variant comes from
the newest run that selected it, by the job names of the compiled workflows: `3.13 avx2 / pytorch / build`. One job per
pool publishes; its conclusion counts for every variant whose own jobs succeeded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ci_compiler.errors import Finding
from ci_compiler.github.actions import Json, jobs_of, newest_runs, seconds_of
from ci_compiler.github.client import Client
from ci_compiler.github.dispatch import DONE, SUCCESS
from ci_compiler.plan import expected
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.proof import Proof
from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import ExpectedStageFailure
from ci_compiler.stages import PUBLISH
from ci_compiler.units import counted, grouped
from ci_compiler.workflows.common import OWN_EVENTS
from ci_compiler.workflows.shard import job_in_shard, publication_name

DEPTH = 10
"""The most runs of a shard to search for variants that newer runs did not select."""

FAILURE = "failure"
SKIPPED = "skipped"
CANCELLED = "cancelled"


class BuildOutcome(StrEnum):
    """The outcome of the last build of a variant, the most important first."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    PASSED = "passed"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBuild:
    """The last result of a variant: the conclusion of each stage that ran; of the run, the URL, start and commit.

    `jobs` are the jobs that ran, by stage.
    """

    variant: Variant
    cell: Cell
    result: BuildOutcome
    stages: Mapping[str, str]
    url: str = ""
    started: str = ""
    commit: str = ""
    jobs: Mapping[str, ReportedJob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedJob:
    """A job of a run, as GitHub lists it: its name after its callers' names, status, conclusion ('' before the end).

    The seconds that it waited for a machine and that it ran, and the conclusion of each of its steps by its name.
    `labels` are those that it asked of its machine.
    """

    name: str
    status: str
    conclusion: str
    waited: int = 0
    seconds: int = 0
    steps: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of its steps that failed."""
        return tuple(name for name, conclusion in self.steps.items() if conclusion == FAILURE)


def status(client: Client, plan: Plan, branch: str | None = None) -> Iterator[tuple[LastBuild, ...]]:
    """The last results, shard by shard in the order of the plan, of `branch` or of all. Raises GitHubError."""
    for shard in plan.shards:
        if branch in {None, shard.branch}:
            yield tuple(_of_shard(client, plan, shard))


def is_own(plan: Plan, event: str, branch: str) -> bool:
    """Whether a run of a shard built what a branch of the spec has, and not a pull request's code."""
    return event in OWN_EVENTS and branch in plan.spec.branches


def _of_shard(client: Client, plan: Plan, shard: Shard) -> Iterator[LastBuild]:
    found: dict[str, LastBuild] = {}
    for run in last_runs(client, plan, shard):
        jobs = run_jobs(client, run["id"])
        for last in read_jobs(shard, jobs, url=run["html_url"], started=run["created_at"]):
            found.setdefault(last.variant.name, replace(last, commit=run["head_sha"]))
        if len(found) == len(shard.variants):
            break
    for cell, _ in shard.cells:
        for variant in cell.variants:
            yield found.get(variant.name) or LastBuild(variant=variant, cell=cell, result=BuildOutcome.NEVER, stages={})


def last_runs(client: Client, plan: Plan, shard: Shard) -> list[Json]:
    """The last runs of `shard` that `is_own`, at most `DEPTH`, the newest first. Raises GitHubError."""
    if shard.path not in client.workflows:
        return []
    runs = newest_runs(client, f"list the runs of {shard.name}.yml", client.workflows[shard.path].id)
    return [run for run in runs if is_own(plan, run["event"], run["head_branch"])][:DEPTH]


def run_jobs(client: Client, run: int) -> tuple[ReportedJob, ...]:
    """The jobs of a run: what no job can say of itself. Raises GitHubError."""
    return tuple(jobs_of(client, run, reported_job))


def reported_job(job: Mapping[str, Any]) -> ReportedJob:
    """A job as GitHub lists it."""
    done = job["status"] == DONE
    created, started, ended = (seconds_of(job.get(key) or "") for key in ("created_at", "started_at", "completed_at"))
    return ReportedJob(
        name=str(job["name"]),
        status=str(job["status"]),
        conclusion=str(job["conclusion"] or ""),
        waited=max(started - created, 0) if created and started else 0,
        seconds=max(ended - started, 0) if done and started and ended else 0,
        steps={str(step["name"]): str(step["conclusion"] or "") for step in job.get("steps") or ()},
        labels=tuple(map(str, job.get("labels") or ())),
    )


def read_jobs(shard: Shard, jobs: Iterable[ReportedJob], *, url: str, started: str) -> Iterator[LastBuild]:
    """The results of the variants that a run of `shard` with `jobs` selected."""
    by_name: dict[tuple[str, ...], dict[str, ReportedJob]] = {}
    jobs = list(jobs)
    publishing = {job_in_shard(job.name): job for job in jobs if job.conclusion != SKIPPED}
    for job in jobs:
        match job.name.split(" / "):
            case [cell_title, *package, title] if len(package) <= 1:
                stage = title.removesuffix(f" ({Proof.IMPORTED_ONLY})")
                by_name.setdefault((cell_title, *package), {})[stage] = job
    for cell, route in shard.cells:
        published = publishing.get(publication_name(route.pools[PUBLISH])) if PUBLISH in route.pools else None
        for variant in cell.variants:
            within = () if cell.called else (variant.package,)
            ran = by_name.get((shard.job_name(cell), *within), {})
            if cell.joined:
                ran = by_name.get((cell.joined,), {}) | by_name.get((cell.joined, variant.name), {})
            ran = {stage: job for stage, job in ran.items() if job.conclusion != SKIPPED}
            if published and ran and all(job.conclusion == SUCCESS for job in ran.values()):
                ran[PUBLISH.name] = published
            if ran:
                stages = {stage: job.conclusion or job.status for stage, job in ran.items()}
                last = LastBuild(variant=variant, cell=cell, result=_result(ran.values()), stages=stages, jobs=ran)
                yield replace(last, url=url, started=started)


def _result(jobs: Collection[ReportedJob]) -> BuildOutcome:
    conclusions = {job.conclusion for job in jobs if job.status == DONE}
    if conclusions - {SUCCESS, CANCELLED}:
        return BuildOutcome.FAILED
    if any(job.status != DONE for job in jobs):
        return BuildOutcome.RUNNING
    return BuildOutcome.CANCELLED if CANCELLED in conclusions else BuildOutcome.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """How many variants of a branch passed last from `commit`, the one from which most did ('': none did)."""

    branch: str
    commit: str
    passed: int
    variants: int

    @property
    def complete(self) -> bool:
        """Whether every variant passed from one commit."""
        return self.passed == self.variants

    def __str__(self) -> str:
        whence = f" from commit {self.commit}" if self.commit else ""
        return f"{self.branch}: {self.passed} of {self.variants} variants passed{whence}"


def completeness(lasts: Iterable[LastBuild]) -> tuple[Completeness, ...]:
    """The completeness of each branch with variants among `lasts`."""
    builds = []
    for branch, own in grouped(lasts, lambda last: last.cell.branch).items():
        passed = Counter(last.commit for last in own if last.result is BuildOutcome.PASSED)
        commit, count = passed.most_common(1)[0] if passed else ("", 0)
        builds.append(Completeness(branch=branch, commit=commit, passed=count, variants=len(own)))
    return tuple(builds)


def grid(plan: Plan, lasts: Iterable[LastBuild]) -> tuple[list[str], list[list[str]]]:
    """The headers and rows of a table: one row per branch and target, one column per ISA, or else per platform.

    Every other axis in which cells of a row would differ divides the rows. A variant that the spec names has its own.
    """
    cells = plan.judged.cells
    wide = "isa" if any(cell.value("isa") for cell in cells) else "platform"
    columns = list(dict.fromkeys(_column(cell, wide) for cell in cells))
    apart: dict[str, None] = {}
    same: dict[tuple[str, ...], Mapping[str, str]] = {}
    for cell in cells:
        first = same.setdefault((*_row(cell, ()), _column(cell, wide)), cell.axes)
        apart |= dict.fromkeys(axis for axis in (*first, *cell.axes) if first.get(axis) != cell.axes.get(axis))
    axes = [axis for axis in apart if axis not in {"branch", "family", "target", wide}]
    rows: dict[tuple[str, ...], dict[str, list[BuildOutcome]]] = {}
    for last in lasts:
        rows.setdefault(_row(last.cell, axes), {}).setdefault(_column(last.cell, wide), []).append(last.result)
    headers = ["branch", "target", *axes, *(column or "any" for column in columns)]
    return headers, [[*key, *(in_words(row.get(column, ())) for column in columns)] for key, row in rows.items()]


def _column(cell: Cell, wide: str) -> str:
    return cell.isa if wide == "isa" else cell.value(wide)


def _row(cell: Cell, axes: Iterable[str]) -> tuple[str, ...]:
    return (cell.branch, cell.listed or cell.target, *map(cell.value, axes))


def in_words(results: Iterable[BuildOutcome]) -> str:
    """The results of a cell's variants in words: the most important, with its share if they differ."""
    counts = Counter(results)
    worst = next((result for result in BuildOutcome if counts[result]), None)
    if worst is None:
        return ""
    return worst.value if counts[worst] == counts.total() else f"{counts[worst]} of {counts.total()} {worst.value}"


def expectation_rows(spec: Spec, last: LastBuild, today: str) -> list[dict[str, str]]:
    """The failures that are expected of a variant, and what they are worth today, as JSON."""
    failures = expected.expected_failures(spec, last.variant.name, last.cell.branch).values()
    return [expected.as_row(entry) | {"standing": expected.standing(entry, today).value} for entry in failures]


def expectation_lines(spec: Spec, lasts: Iterable[LastBuild], today: str) -> Iterator[str | Finding]:
    """For each entry, a line about the variants that failed as expected, and a finding about those that passed."""
    ended: dict[tuple[ExpectedStageFailure, str], list[str]] = defaultdict(list)
    for last in lasts if spec.expected_failures else ():
        for stage, entry in expected.expected_failures(spec, last.variant.name, last.cell.branch).items():
            ended[entry, last.stages.get(stage.name, "")].append(f"{last.variant.name} on {last.cell.branch}")
    for entry in spec.expected_failures:
        failed, passed = ended[entry, FAILURE], ended[entry, SUCCESS]
        if failed and expected.standing(entry, today) is not expected.Standing.EXPIRED:
            yield f"{entry.stage} of {counted(len(failed), 'variant')} failed as expected: {expected.in_words(entry)}"
        if passed:
            yield expected.passes_again(spec, entry, passed)
