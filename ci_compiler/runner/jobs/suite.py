"""A test suite of a package: the declared command runs with what was built, and its JUnit files decide.

A test that fails is accepted only if the spec expects the failure, and only until the date that it gives. An expected
failure that passes is a failure as well, so that the list stays true.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import NamedTuple

from ci_compiler.backends.command_files import matching
from ci_compiler.backends.command_programs import shell
from ci_compiler.backends.job import show
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.judgement import CheckVerdict
from ci_compiler.outside import why
from ci_compiler.plan.proof import test_name
from ci_compiler.process import PAST_LIMIT, Ended, follow
from ci_compiler.runner.jobs.files import output_folder
from ci_compiler.runner.jobs.isolation import WITH_NETWORK, Isolation, isolation, without_tokens
from ci_compiler.runner.jobs.junit import TestResult, read_junit
from ci_compiler.runner.jobs.records import NOT_RUN, keep_record, passed_before, suite_records
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.runner.jobs.summary import add_row
from ci_compiler.spec.model import Package
from ci_compiler.spec.suites import ExpectedFailure, Suite
from ci_compiler.units import counted, duration
from ci_compiler.workflows.artifacts import EXPECTED, SUITE_RESULT

LOG, JUNIT = "suite.log", "junit"
"""The output of the command, and the folder of the JUnit files, in addition to `SUITE_RESULT`."""

_SIGNAL = 128
"""The first status with which a shell reports that a signal ended a program."""

_SHOWN = 20
"""The most failures that the summary names."""


class SuiteOutcome(NamedTuple):
    """How a shard of a suite ended: its `failures`, each on one line, and the number of tests by how they ended.

    `recorded`: it passed before on the same content, and was left out. `ran` says how isolated it ran ('': it did not
    run), and `remark` is a line for the summary.
    """

    failures: tuple[str, ...]
    counts: Counter[str]
    recorded: bool = False
    ran: str = ""
    remark: str = ""

    def __str__(self) -> str:
        if self.recorded:
            return NOT_RUN
        return ", ".join(f"{count:,} {how}" for how, count in self.counts.items()) or "no tests"


def suite_of(package: Package, name: str) -> Suite:
    """The suite of `package` called `name`. Raises InputError."""
    if name not in package.suites:
        known = nearest(name, package.suites) or f"; {package.name} declares no suites"
        raise wrong("--suite", Code.UNKNOWN_SUITE, f"unknown suite {name!r}{known}")
    return package.suites[name]


def shard_of(text: str) -> tuple[int, int]:
    """The shard and the number of shards that `text` (`2/4`) names. Raises InputError."""
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    shard, shards = map(int, match.groups()) if match else (0, 0)
    if not 1 <= shard <= shards:
        raise wrong("--shard", Code.WRONG_OPTION, f"{text!r} is not a shard such as 2/4, the second of four")
    return shard, shards


def run_suite(
    subject: SmokeSubject, suite: Suite, shard: tuple[int, int], root: Path, out: Path, *, again: bool = False
) -> SuiteOutcome:
    """Runs a shard of `suite` in the checkout at `root`; writes the report to `out` and a row to GitHub's summary.

    A shard that passed before on the same content is left out, unless `again` is set or the date of an expected failure
    has passed. Raises InputError if the command cannot be started.
    """
    output_folder(out, (SUITE_RESULT, LOG))
    start, run = time.monotonic(), _SuiteRun(subject, suite, shard, root, out)
    records = suite_records(subject, suite, shard, root)
    expired = tuple(_expired(suite.expected_failures, datetime.now(UTC).date().isoformat()))
    if not again and not expired and passed_before(subject, test_name(suite), records):
        outcome = SuiteOutcome(failures=(), counts=Counter(), recorded=True, remark=NOT_RUN)
    else:
        if subject.stage.needs_gpu:
            run = run._replace(subject=replace(subject, attempts=tuple(subject.machines.attempts())))
        outcome = run.outcome(expired)
        if not outcome.failures and records:
            remarks = (outcome.remark, keep_record(subject, records[0]))
            outcome = outcome._replace(remark="; ".join(filter(None, remarks)))
    run.report(outcome, time.monotonic() - start)
    return outcome


class _SuiteRun(NamedTuple):
    """A run of a shard of a suite in the checkout at `root`, with its files in `out`."""

    subject: SmokeSubject
    suite: Suite
    shard: tuple[int, int]
    root: Path
    out: Path

    def outcome(self, expired: tuple[str, ...]) -> SuiteOutcome:
        """Runs the command, unless the machine has too few GPUs; `expired` are failures whatever its tests do."""
        usable = max((len(attempt.devices) for attempt in self.subject.attempts), default=0)
        paths = (self.root, self.out, Path(gettempdir()))
        isolated = WITH_NETWORK if self.suite.network else isolation(os.environ, kept=paths)
        results: list[TestResult] = []
        if self.subject.stage.needs_gpu and usable < self.suite.gpus:
            failures = [f"this machine has {usable} usable GPUs, and the suite needs {self.suite.gpus}"]
        else:
            failures = list(self.run(isolated, results))
        judged = [(result, *_judge(result, self.suite.expected_failures)) for result in results]
        failures += [f"{result.check}: {message}" for result, how, message in judged if how == "failed"]
        counts, remark = Counter(how for _, how, _ in judged), "" if isolated.prefix else f"it ran {isolated.found}"
        return SuiteOutcome(failures=(*failures, *expired), counts=counts, ran=isolated.found, remark=remark)

    def run(self, isolated: Isolation, results: list[TestResult]) -> Iterator[str]:
        """Runs the command and adds what its JUnit files hold to `results`; yields what is wrong apart from that."""
        patterns = [self.suite.junit] if self.suite.junit else []
        before = matching(self.root, patterns)
        with TemporaryDirectory(prefix="ci-runner-suite-", ignore_cleanup_errors=True) as folder:
            command = [*isolated.prefix, *shell(self.suite.command)]
            env, seconds = self.environment(Path(folder, "driver")), self.suite.minutes * 60
            ended = follow(command, show, seconds=seconds, log=self.out / LOG, env=env, folder=self.root)
        said = list(_ending(self.suite, ended))
        for pattern, found in matching(self.root, patterns).items():
            written = [path for path, state in found.items() if before[pattern].get(path) != state]
            said += _read(self.suite, self.root, written, results)
            _keep(self.root, written, self.out / JUNIT)
        failed = any(result.verdict is CheckVerdict.FAILED for result in results)
        if 0 < ended.status < _SIGNAL and ended.status != PAST_LIMIT and not failed:
            said.insert(0, f"the command ended with status {ended.status}: {ended.said or 'it printed nothing'}")
        yield from said

    def environment(self, driver: Path) -> dict[str, str]:
        """The environment of the command: the job's without its tokens, the variant's values, and the built paths.

        `driver` is a folder for what it needs of the driver.
        """
        interpreter, store_path = self.subject.interpreter, self.subject.store_path
        env = without_tokens(os.environ, self.subject.spec.publishing_secrets) | self.subject.variables
        env |= {"SHARD": str(self.shard[0]), "SHARDS": str(self.shard[1])}
        env |= {f"SUITE_{axis.upper().replace('-', '_')}": value for axis, value in self.suite.values.items()}
        programs = [os.fspath(Path(interpreter.program).parent)] if interpreter.program else []
        programs += [os.fspath(Path(store_path, "bin"))] if store_path else []
        paths = {"PATH": tuple(dict.fromkeys(programs)), "PYTHONPATH": interpreter.paths}
        if self.subject.machines.link(self.subject.attempts, driver):
            paths["LD_LIBRARY_PATH"] = (os.fspath(driver),)
        for name, first in paths.items():
            if first:
                env[name] = os.pathsep.join((*first, *filter(None, [env.get(name, "")])))
        return env

    def report(self, outcome: SuiteOutcome, seconds: float) -> None:
        """Writes the result, and adds a row to GitHub's summary."""
        shard, shards = self.shard
        self.subject.write_result(
            self.out / SUITE_RESULT,
            passed=not outcome.failures,
            recorded=outcome.recorded,
            seconds=seconds,
            suite=self.suite.name,
            shard=shard,
            shards=shards,
            ran=outcome.ran,
            tests=outcome.counts,
            failures=outcome.failures,
        )
        how = "failed" if outcome.failures else "passed"
        result = "passed before" if outcome.recorded else f"{how} ({outcome})"
        more = len(outcome.failures) - _SHOWN
        further = f"and {counted(more, 'further failure')}" if more > 0 else ""
        remarks = filter(None, [*outcome.failures[:_SHOWN], further, outcome.remark])
        stage = f"{self.suite.name} {shard}/{shards}"
        add_row(name=self.subject.name, stage=stage, result=result, seconds=seconds, remarks=remarks)


def _ending(suite: Suite, ended: Ended) -> Iterator[str]:
    """What is wrong with the end of the command itself, whatever its tests did."""
    if ended.status == PAST_LIMIT:
        yield f"the command did not end within {duration(suite.minutes * 60)} and was terminated"
    elif ended.status < 0 or ended.status >= _SIGNAL:
        number = -ended.status if ended.status < 0 else ended.status - _SIGNAL
        yield f"signal {number} ended the command; {LOG} may say more"


# The results.


def _read(suite: Suite, root: Path, written: Sequence[Path], results: list[TestResult]) -> Iterator[str]:
    """Adds the results in the files `written` to `results`; yields what is wrong with the files."""
    if not written:
        yield f"the command wrote no file that matches {suite.junit}"
    for path in written:
        shown = path.relative_to(root).as_posix()
        if not _is_regular(path):
            yield f"{shown} is not a regular file"
            continue
        try:
            results += read_junit(path)
        except OSError as error:
            yield f"{shown} {why(error)}"
    if written and not results:
        yield f"the files that match {suite.junit} hold no test"


def _judge(result: TestResult, expected: Iterable[ExpectedFailure]) -> tuple[str, str]:
    """How a test counts, and why if that is a failure."""
    known = next((failure for failure in expected if _names(failure, result.check)), None)
    match result.verdict:
        case CheckVerdict.SKIPPED:
            return "skipped", ""
        case CheckVerdict.FAILED if known:
            return EXPECTED, known.because
        case CheckVerdict.FAILED:
            return "failed", result.message or "it failed without a message"
        case _ if known:
            return "failed", f"it passed, although its failure is expected ({known.because}); remove the expectation"
    return "passed", ""


def _names(expected: ExpectedFailure, test: str) -> bool:
    return bool(re.fullmatch(".*".join(map(re.escape, expected.test.split("*"))), test, re.DOTALL))


def _expired(expected: Iterable[ExpectedFailure], today: str) -> Iterator[str]:
    for failure in expected:
        if failure.until < today:
            why = f"its failure was expected until {failure.until} ({failure.because})"
            yield f"{failure.test}: {why}; fix it, or set a new date"


def _keep(root: Path, written: Iterable[Path], folder: Path) -> None:
    """Copies the JUnit files to the report, called by their paths, with names that an artifact can hold."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in filter(_is_regular, written):
        folder.mkdir(parents=True, exist_ok=True)
        name = path.relative_to(root).as_posix().replace("/", "--")
        shutil.copyfile(path, folder / re.sub(r"[^A-Za-z0-9._+-]", "_", name))


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
