"""Running a package under test in a process of its own: the probe in its interpreter, or a program of the package."""

from __future__ import annotations

import os
import re
import shlex
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from ci_compiler.hardware.families.machines import known_machines
from ci_compiler.judgement import CheckVerdict
from ci_compiler.outside import WRONG_FORM, expected, object_of, open_regular
from ci_compiler.process import PAST_LIMIT, Ended, ask
from ci_compiler.runner.jobs.expectation import Expectation
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.junit import TestResult
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.suites import SmokeTest
from ci_compiler.system import SYSTEM
from ci_compiler.units import duration

DECLARED = "smoke"
"""The name of the check that the spec declares."""

START = "import sys; sys.path.insert(0, sys.argv[1]); from smoke_probe.{} import main; del sys.path[0]; main()"
"""What the interpreter runs: a script, whose folder is on the import path only while it is imported itself."""

_KEPT = ("PATH", *SYSTEM.kept, *(name for known in known_machines().values() for name in known.visible))
"""The variables that the probe inherits: where programs are, what they need, and which GPUs the job may use."""

_CRASHES = {
    "SIGILL": "it uses an instruction that this CPU lacks. The CPU supports {isa}, so the build goes beyond {isa}",
    "SIGSEGV": "a library of another build is loaded, or the driver is broken; {log} shows where it crashed",
    "SIGBUS": "it ran out of shared memory (/dev/shm), or a mapped file was truncated",
    "SIGABRT": "a library aborted; {log} shows which one",
    "SIGFPE": "it divided by zero, possibly in code for another CPU or driver; {log} shows where it crashed",
    "SIGKILL": "the system killed it, most likely because it ran out of memory",
}


class ProbeRun(NamedTuple):
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
    if wanted.targets:
        yield "gpu"
    yield from (f"{name}-gpu" for name in wanted.gpu_numerics)
    if wanted.script:
        yield DECLARED


def run_package(subject: SmokeSubject, log: Path, seconds: float, emulator: Sequence[str] = ()) -> ProbeRun:
    """Runs the declared program of the package or, without one, the probe.

    `emulator` is the command of an emulator, or (). The output of the package goes to `log`.
    """
    if subject.program:
        return _run_program(subject, subject.program, log, seconds, emulator)
    return run_probe(subject, subject.expectation, log, seconds, emulator)


def is_binary(program: Path) -> bool:
    """Whether a file is machine code of this system, and no script."""
    try:
        with open_regular(program) as file:
            return file.read(4).startswith(SYSTEM.magic)
    except OSError:
        return False


def program_of(subject: SmokeSubject, line: str) -> list[str]:
    """The command of a declared program, whose `line` starts with its path below the package's root."""
    program, *arguments = shlex.split(line)
    path = subject.home / program
    return [os.fspath(path if path.is_file() else path.with_name(f"{path.name}{SYSTEM.suffix}")), *arguments]


def script_command(subject: SmokeSubject, script: str) -> list[str]:
    """The command with which the package's interpreter runs a script of `smoke_probe`."""
    start = ["-c", START.format(script), str(Path(__file__).parent)]
    return [subject.interpreter.program, "-I", "-B", "-X", "utf8", *start]


def _run_program(
    subject: SmokeSubject, declared: SmokeTest, log: Path, seconds: float, emulator: Sequence[str]
) -> ProbeRun:
    """Runs a program of the package, and judges its status and whether what it printed is as expected."""
    name, command = shlex.split(declared.run)[0], program_of(subject, declared.run)
    if not Path(command[0]).is_file():
        missing = TestResult(DECLARED, CheckVerdict.FAILED, f"the package has no {name}")
        return ProbeRun(results=(missing,), ended=Ended(status=0))
    ended = ask_isolated(subject, [*emulator, *command], seconds)
    log.write_text(ended.out + ended.err, "utf-8")
    interrupted, verdict = "", CheckVerdict.FAILED
    if ended.status != 0:
        interrupted, message = DECLARED, crash(subject, ended, name, log)
    else:
        pattern = fill(declared.expect, {key: re.escape(value) for key, value in subject.values.items()})
        if answer := re.search(pattern, ended.out + ended.err, re.MULTILINE):
            verdict, message = CheckVerdict.OK, f"{declared.run}: {answer[0] or 'status 0'}"
        else:
            message = f"{declared.run} printed nothing like {pattern}"
        message = " ".join(message.split())
    result = TestResult(DECLARED, verdict, message, seconds=ended.seconds)
    return ProbeRun(results=(result,), ended=ended, interrupted=interrupted)


def run_probe(
    subject: SmokeSubject, wanted: Expectation, log: Path, seconds: float, emulator: Sequence[str] = ()
) -> ProbeRun:
    """Runs the probe with the expectation `wanted`. If it crashes, the check that it was running has failed."""
    command = [*emulator, *script_command(subject, "script")]
    ended = ask_isolated(subject, command, seconds, stdin=wanted.as_json())
    log.write_text(ended.err, "utf-8")
    results, begun, loaded = printed_results(ended.out)
    interrupted = ""
    if begun or ended.status != 0:
        interrupted = begun or "interpreter"
        message = crash(subject, ended, begun or "starting", log)
        results.append(TestResult(interrupted, CheckVerdict.FAILED, message))
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
                    results.append(TestResult(begun, CheckVerdict.FAILED, message))
                begun = str(row["begin"])
            elif "loaded" in row:
                loaded = tuple(map(str, row["loaded"]))
            else:
                verdict, took = CheckVerdict(row["verdict"]), float(row["seconds"])
                check, message = expected(str, row["check"]), expected(str, row["message"])
                results.append(TestResult(check, verdict, message, seconds=took))
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
    known = _CRASHES.get(name, "{log} may say more")
    return f"{at} was ended by {name}: {known.format(isa=subject.built.cell.isa, log=log.name)}"


def ask_isolated(
    subject: SmokeSubject,
    command: Sequence[str],
    seconds: float,
    *,
    stdin: str = "",
    out: IO[bytes] | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Ended:
    """Runs `command` isolated, in an empty folder that is its home, with nothing in its environment but its own.

    `variables` are added to the environment, and `out` is as for `ask`.
    """
    kept = (*_KEPT, *(() if subject.store_path else ("LD_LIBRARY_PATH",)))  # the user's interpreter may need it
    env = {name: os.environ[name] for name in kept if name in os.environ}
    if subject.declared:
        env |= subject.variables
    with tempfile.TemporaryDirectory(prefix="ci-runner-smoke-", ignore_cleanup_errors=True) as empty:
        home, driver = Path(empty, "home"), Path(empty, "driver")
        home.mkdir()
        env |= dict.fromkeys((*SYSTEM.homes, *SYSTEM.temporaries), str(home)) | {"LC_ALL": SYSTEM.locale, **variables}
        if subject.machines.link(subject.attempts, driver):
            env["LD_LIBRARY_PATH"] = str(driver)
        isolated = [*isolated_here().prefix, *command]
        return ask(isolated, seconds=seconds, env=env, folder=home, stdin=stdin, out=out)
