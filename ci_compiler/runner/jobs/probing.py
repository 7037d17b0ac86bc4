"""Running a package under test in a process of its own: the probe in its interpreter, or a program of the package."""

from __future__ import annotations

import os
import re
import shlex
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_compiler.judgement import CheckVerdict
from ci_compiler.outside import WRONG_FORM, expected, object_of
from ci_compiler.process import PAST_LIMIT, Ended, ask
from ci_compiler.runner.doctor.evidence import CudaAttempt
from ci_compiler.runner.jobs.expectation import Expectation
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.junit import TestResult
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.smoke import SmokeTest
from ci_compiler.units import duration

DECLARED = "smoke"
"""The name of the check that the spec declares."""

START = "import sys; sys.path.insert(0, sys.argv[1]); from smoke_probe.script import main; del sys.path[0]; main()"
"""What the interpreter runs: the probe, whose folder is on the import path only while it is imported itself."""

_KEPT = ("PATH", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
"""The variables that the probe inherits: where programs are, and which GPUs the job may use."""

_DRIVER = ("libcuda.so*", "libnvidia-*.so*")
"""The libraries of the driver that a program needs; their folder may have others, which must not be used."""

_CRASHES = {
    signal.SIGILL: "it uses an instruction that this CPU lacks. The CPU supports {isa}, so the build goes beyond {isa}",
    signal.SIGSEGV: "a library of another build is loaded, or the driver is broken; {log} shows where it crashed",
    signal.SIGBUS: "it ran out of shared memory (/dev/shm), or a mapped file was truncated",
    signal.SIGABRT: "a library aborted; {log} shows which one",
    signal.SIGFPE: "it divided by zero, possibly in code for another CPU or driver; {log} shows where it crashed",
    signal.SIGKILL: "the system killed it, most likely because it ran out of memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """One run of a package: the results of its checks, how the process ended, and what it had loaded at the end.

    `interrupted` is the check during which the process ended; '' if it finished.
    """

    results: tuple[TestResult, ...]
    ended: Ended
    interrupted: str = ""
    loaded: tuple[str, ...] = ()


def planned(wanted: Expectation) -> Iterator[str]:
    """The names of the checks that the probe runs, in its order."""
    if wanted.module:
        yield "import"
    yield from wanted.checks
    yield from (f"{name}-cpu" for name in wanted.numerics)
    if wanted.capability:
        yield "gpu"
    yield from (f"{name}-gpu" for name in wanted.gpu_numerics)
    if wanted.script:
        yield DECLARED


def run_package(
    subject: SmokeSubject, found: Sequence[CudaAttempt], log: Path, seconds: float, prefix: Sequence[str] = ()
) -> ProbeRun:
    """Runs the declared program of the package or, without one, the probe.

    `prefix` is the command of an emulator, or (). The output of the package goes to `log`.
    """
    if subject.program:
        return _run_program(subject, subject.program, found, log, seconds, prefix)
    return run_probe(subject, subject.expectation, found, log, seconds, prefix)


def executable(subject: SmokeSubject) -> Path:
    """The program that `run_package` starts."""
    if subject.program:
        return subject.home / shlex.split(subject.program.run)[0]
    return Path(subject.interpreter.program)


def _run_program(
    subject: SmokeSubject,
    declared: SmokeTest,
    found: Sequence[CudaAttempt],
    log: Path,
    seconds: float,
    prefix: Sequence[str],
) -> ProbeRun:
    """Runs a program of the package, and judges its status and whether what it printed is as expected."""
    program, *arguments = shlex.split(declared.run)
    path = subject.home / program
    if not path.is_file():
        missing = TestResult(check=DECLARED, verdict=CheckVerdict.FAILED, message=f"the package has no {program}")
        return ProbeRun(results=(missing,), ended=Ended(status=0))
    with package_environment(subject, found) as (env, folder):
        command = [*isolated_here().prefix, *prefix, os.fspath(path), *arguments]
        ended = ask(command, seconds=seconds, env=env, folder=folder)
    log.write_text(ended.out + ended.err, "utf-8")
    if ended.status != 0:
        message = crash(subject, ended, program, log)
        failed = TestResult(check=DECLARED, verdict=CheckVerdict.FAILED, message=message, seconds=ended.seconds)
        return ProbeRun(results=(failed,), ended=ended, interrupted=DECLARED)
    expected = fill(declared.expect, {name: re.escape(value) for name, value in subject.values.items()})
    answer = re.search(expected, ended.out + ended.err, re.MULTILINE)
    verdict = CheckVerdict.OK if answer else CheckVerdict.FAILED
    message = (
        f"{declared.run}: {answer[0] or 'status 0'}" if answer else f"{declared.run} printed nothing like {expected}"
    )
    shown = " ".join(message.split())
    result = TestResult(check=DECLARED, verdict=verdict, message=shown, seconds=ended.seconds)
    return ProbeRun(results=(result,), ended=ended)


def run_probe(
    subject: SmokeSubject,
    wanted: Expectation,
    found: Sequence[CudaAttempt],
    log: Path,
    seconds: float,
    prefix: Sequence[str] = (),
) -> ProbeRun:
    """Runs the probe with the expectation `wanted`. If it crashes, the check that it was running has failed."""
    with package_environment(subject, found) as (env, folder):
        interpreter = (subject.interpreter.program, "-I", "-B", "-c", START, str(Path(__file__).parent))
        command = [*isolated_here().prefix, *prefix, *interpreter]
        ended = ask(command, seconds=seconds, env=env, folder=folder, stdin=wanted.as_json())
    log.write_text(ended.err, "utf-8")
    results, begun, loaded = printed_results(ended.out)
    interrupted = ""
    if begun or ended.status != 0:
        interrupted = begun or "interpreter"
        message = crash(subject, ended, begun or "starting", log)
        results.append(TestResult(check=interrupted, verdict=CheckVerdict.FAILED, message=message))
    return ProbeRun(results=tuple(results), ended=ended, interrupted=interrupted, loaded=loaded)


def printed_results(text: str) -> tuple[list[TestResult], str, tuple[str, ...]]:
    """The results that the probe printed, the check that did not end ('': every one did), and the loaded libraries.

    A check has failed whose result cannot be read: the package prints to the same output.
    """
    results: list[TestResult] = []
    begun: str = ""
    loaded: tuple[str, ...] = ()
    for row in filter(None, map(_row, text.splitlines())):
        with suppress(*WRONG_FORM):
            if "begin" in row:
                if begun:
                    message = "its result cannot be read"
                    results.append(TestResult(check=begun, verdict=CheckVerdict.FAILED, message=message))
                begun = str(row["begin"])
            elif "loaded" in row:
                loaded = tuple(map(str, row["loaded"]))
            else:
                verdict, took = CheckVerdict(row["verdict"]), float(row["seconds"])
                check, message = expected(str, row["check"]), expected(str, row["message"])
                results.append(TestResult(check=check, verdict=verdict, message=message, seconds=took))
                begun = ""
    return results, begun, loaded


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = object_of(line)
    except OSError:
        return None
    return row if row.keys() & {"begin", "verdict", "loaded"} else None


def crash(subject: SmokeSubject, ended: Ended, at: str, log: Path) -> str:
    """The message for a run that did not finish."""
    if ended.status == PAST_LIMIT:
        return f"{at} did not end within {duration(ended.seconds)} and was terminated"
    if ended.status >= 0:
        what = "the program" if subject.program else "the interpreter"
        return f"{what} ended with status {ended.status} during {at}: {ended.said or 'it printed nothing'}"
    number = -ended.status
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    known = {int(one): text for one, text in _CRASHES.items()}.get(number, "{log} may say more")
    return f"{at} was ended by {name}: {known.format(isa=subject.built.cell.isa, log=log.name)}"


@contextmanager
def package_environment(subject: SmokeSubject, found: Sequence[CudaAttempt]) -> Iterator[tuple[dict[str, str], Path]]:
    """The whole environment of the package, and an empty folder that is its home and working directory."""
    kept = (*_KEPT, *(() if subject.store_path else ("LD_LIBRARY_PATH",)))  # the user's interpreter may need it
    env = {name: os.environ[name] for name in kept if name in os.environ}
    if subject.declared:
        env |= subject.variables
    with tempfile.TemporaryDirectory(prefix="ci-runner-smoke-") as empty:
        home, driver = Path(empty, "home"), Path(empty, "driver")
        home.mkdir()
        env |= {"HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}
        if link_driver(found, driver):
            env["LD_LIBRARY_PATH"] = str(driver)
        yield env, home


def link_driver(found: Sequence[CudaAttempt], folder: Path) -> bool:
    """Links the driver's libraries into `folder` if only the loader's cache has them.

    Programs of nixpkgs do not read the machine's loader cache. No link is needed if the libraries are where programs
    of nixpkgs look.
    """
    working = [one for one in found if one.devices]
    if not working or any(one.linked for one in working):
        return False
    folder.mkdir()
    for pattern in _DRIVER:
        for library in Path(working[0].library).parent.glob(pattern):
            (folder / library.name).symlink_to(library)
    return True
