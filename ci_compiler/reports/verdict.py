"""The verdict on a run in which jobs failed: it is accepted if the spec expects each failure.

GitHub's list of the run's jobs says what failed and in which step, which no job of the run can change. The result of a
test, which code that was not reviewed may have written, only tells a failed test from one that could not run: at most
it hides a failure of the very stage of the very variant that the spec expects to fail. Whatever is in doubt is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.github.dispatch import DONE, SUCCESS
from ci_compiler.github.status import FAILURE, SKIPPED, ReportedJob
from ci_compiler.plan.expected import Standing, expected_failure, in_words, standing
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.proof import job_title
from ci_compiler.reports.summary import read_json
from ci_compiler.spec.suites import ExpectedStageFailure
from ci_compiler.stages import Stage, stages_that_test
from ci_compiler.workflows.artifacts import RESULT, artifact_name
from ci_compiler.workflows.pull_request import CHECK
from ci_compiler.workflows.shard import VERDICT_TITLE, job_in_shard
from ci_compiler.workflows.variant import TEST_STEP

_GOOD = frozenset({SUCCESS, SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run: the variants that it chose, by branch, how its top jobs ended, all its jobs, and its artifacts.

    `by_branch`: it is the run of a pull request, whose jobs are named after their branches.
    """

    chosen: Mapping[str, Sequence[str]]
    by_branch: bool
    ended: Sequence[str]
    jobs: Sequence[ReportedJob]
    results: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The lines about failures that are expected, and a finding for each that is not."""

    expected: tuple[str, ...]
    findings: tuple[Finding, ...]


def judged_run(plan: Plan, run: EndedRun, today: str) -> RunVerdict:
    """The verdict on `run` on the day `today`."""
    tests = dict(_tests(plan, run))
    judged = [(job, _judged(plan, run, job, tests.get(job.name), today)) for job in _failed(run.jobs)]
    findings = [one for _, one in judged if isinstance(one, Finding)]
    callers = {_caller(job.name) for job, _ in judged}
    findings += _unexplained(run, len(callers), map(_caller, tests)) if not findings else ()
    lines = tuple(
        f"{job.name} failed as expected: {in_words(one)}" for job, one in judged if not isinstance(one, Finding)
    )
    return RunVerdict(expected=lines, findings=tuple(findings))


def _tests(plan: Plan, run: EndedRun) -> Iterator[tuple[str, tuple[BuiltVariant, Stage]]]:
    """The test jobs of the chosen variants, by their names on GitHub."""
    for built in built_variants(plan):
        if built.variant.name in run.chosen.get(built.cell.branch, ()):
            key = built.cell.called or built.cell.key
            caller = f"{built.cell.branch} {key}" if run.by_branch else built.shard.job_name(built.cell)
            package = plan.spec.packages[built.variant.package]
            within = [] if built.cell.called else [built.variant.name if built.cell.joined else package.name]
            for stage in stages_that_test():
                title = stage.name if built.cell.joined else job_title(plan.spec, package, stage)
                yield " / ".join([caller, *within, title]), (built, stage)


def _failed(jobs: Iterable[ReportedJob]) -> Iterator[ReportedJob]:
    """The jobs that did not end well, without the verdict itself, which has not ended."""
    for job in jobs:
        if job_in_shard(job.name) not in {CHECK, VERDICT_TITLE} and not (
            job.status == DONE and job.conclusion in _GOOD
        ):
            yield job


def _judged(
    plan: Plan, run: EndedRun, job: ReportedJob, test: tuple[BuiltVariant, Stage] | None, today: str
) -> ExpectedStageFailure | Finding:
    """The entry that expects the failure of a job, or the finding about it."""
    if job.status != DONE or job.conclusion != FAILURE:
        return _refused(job.name, f"ended as {job.conclusion or job.status}")
    if test is None:
        return _refused(job.name, "failed, and is not the test of a variant that was chosen")
    built, stage = test
    entry = expected_failure(plan.spec, built.variant.name, built.cell.branch, stage)
    if entry is None:
        return _refused(job.name, "failed, and no failure of it is expected")
    if standing(entry, today) is Standing.EXPIRED:
        message = f"{job.name}: its failure was expected until {entry.until}: {entry.because}"
        return plan.spec.finding(("expected-failures", entry.index, "until"), Code.EXPECTATION_EXPIRED, message)
    if why := _not_of_the_test(built, stage, job, run.results):
        return _refused(job.name, why)
    return entry


def _not_of_the_test(built: BuiltVariant, stage: Stage, job: ReportedJob, results: Path) -> str:
    """Why the failed job did not fail in its test; '' if it did."""
    if job.failed != (TEST_STEP,):
        where = " and ".join(job.failed) or "no step that GitHub lists"
        return f"failed in {where}, and not in its test, whose failure is expected"
    return "" if _test_failed(built, stage, results) else f"left no result of a failed test ({RESULT})"


def _test_failed(built: BuiltVariant, stage: Stage, results: Path) -> bool:
    """Whether the result of the stage says that the test ran and failed."""
    name, branch = built.variant.name, built.cell.branch
    found = read_json(results / artifact_name(stage, name, branch) / RESULT)
    wanted = {"name": name, "branch": branch, "stage": stage.name}
    return found.get("passed") is False and all(found.get(key) == value for key, value in wanted.items())


def _caller(name: str) -> str:
    """The name of the run's own job that called the one with `name`, or that is it."""
    return name.partition(" / ")[0]


def _unexplained(run: EndedRun, failed: int, chosen: Iterable[str]) -> Iterator[Finding]:
    """What the list of jobs does not show: a job of a `chosen` cell, or failures of more than the `failed` callers."""
    for result in run.ended:
        if result not in {*_GOOD, FAILURE}:
            yield _refused("the run", f"has a job that ended as {result}")
    if run.ended.count(FAILURE) > failed:
        yield _refused("the run", "has a failed job that GitHub does not list; run it again")
    for caller in sorted({*chosen} - {_caller(job.name) for job in run.jobs}):
        yield _refused(caller, "was chosen, and GitHub lists no job of it; run it again")


def _refused(name: str, why: str) -> Finding:
    return Finding(place=Place(file=name), code=Code.JOB_FAILED, message=why)
