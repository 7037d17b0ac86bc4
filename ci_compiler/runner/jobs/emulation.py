"""Which instruction set a test proves: the variant's own, or that of a larger CPU.

Where the machine has more than the variant's instruction set, what passed there may still use an instruction that the
variant must not. The test is then repeated under emulation of a small CPU with the instruction set, where the first
such instruction ends it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.hardware import Emulator, Hardware, Isa
from ci_compiler.hardware.features import more_than
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import CheckVerdict
from ci_compiler.plan.proof import Reach
from ci_compiler.process import PAST_LIMIT, ask, located
from ci_compiler.runner.jobs.junit import TestResult
from ci_compiler.runner.jobs.probing import ProbeRun, is_binary, program_of, run_package
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.units import counted, duration, release

CHECK = "emulated-cpu"
"""The name of the repeated test among the checks."""

LOG = "emulated.log"
"""The output of the repeated test."""

_VERSION_SECONDS = 30.0


class Claim(NamedTuple):
    """What a test proves of the instruction set, and why only that of the machine ('': the variant's own).

    `recorded`: it passed before on the same content, and was left out.
    """

    reach: Reach
    because: str = ""
    recorded: bool = False


FAILED = Claim(reach=Reach.LARGER, because="the test failed")


class Emulation(NamedTuple):
    """An emulator on this machine: its command with the CPU, and what to call it; or the reason why there is none."""

    command: tuple[str, ...] = ()
    title: str = ""
    lacking: str = ""
    stray: str = ""


def emulation(hardware: Hardware, isa: Isa) -> Emulation:
    """The first emulator on this machine that has a CPU for `isa`."""
    reasons = []
    for emulator in hardware.emulators_of(isa):
        program = located(emulator.program)
        reason = f"{emulator.program} is not on PATH" if program is None else _too_old(emulator, program)
        if program and not reason:
            options = [option.format(model=emulator.model(isa)) for option in emulator.options]
            return Emulation(
                command=(program, *options), title=f"{emulator.title}'s {emulator.model(isa)}", stray=emulator.stray
            )
        reasons.append(reason)
    return Emulation(lacking=" and ".join(reasons) or f"no emulator is known for {isa.name}")


def _too_old(emulator: Emulator, program: str) -> str:
    """Why this version of the emulator is of no use; '' if it is."""
    if not emulator.lowest:
        return ""
    ended = ask([program, "--version"], seconds=_VERSION_SECONDS)
    match = re.search(r"version ([0-9]+(?:\.[0-9]+)+)", ended.out)
    if match and release(match[1]) >= release(emulator.lowest):
        return ""
    return f"{emulator.program} {match[1] if match else 'of unknown version'} is older than {emulator.lowest}"


def claimed(
    subject: SmokeSubject, machine: Machine, native: ProbeRun, out: Path, seconds: float
) -> tuple[Claim, tuple[TestResult, ...]]:
    """What a test that passed as `native` proves, and the result of repeating it under emulation, if that was needed.

    `seconds` limits the repetition; its output goes to a log in `out`.
    """
    isa = subject.spec.hardware.isas.get(subject.built.cell.isa)
    more = more_than(isa, machine.flags) if isa else ""
    if not isa or not more:
        return Claim(reach=Reach.OWN), ()
    if subject.stage.needs_gpu:
        return Claim(reach=Reach.LARGER, because=f"the CPU also has {more}; no emulator has the GPU"), ()
    emulator = emulation(subject.spec.hardware, isa)
    program = Path(program_of(subject, subject.program.run)[0] if subject.program else subject.interpreter.program)
    script = "" if is_binary(program) else f"{program.name} is a script, which emulators do not run"
    if lacking := emulator.lacking or script:
        return _not_proved(f"the CPU also has {more}; {lacking}")
    run = run_package(replace(subject, attempts=()), out / LOG, seconds, emulator.command)
    stray = _stray(subject, run, emulator)
    if run.interrupted and not stray:  # by something else, which the emulator may have caused
        return _not_proved(f"the CPU also has {more}; {_interruption(run)} under {emulator.title}; {LOG} may say more")
    failed = (one for one in run.results if one.verdict is CheckVerdict.FAILED)
    wrong = stray or next((f"{one.check} under {emulator.title}: {one.message}" for one in failed), "")
    if wrong:
        result = TestResult(CHECK, CheckVerdict.FAILED, wrong)
        return Claim(reach=Reach.LARGER, because=wrong), (result,)
    message = f"{len(run.results)} of {counted(len(native.results), 'check')} passed under {emulator.title}"
    passed = TestResult(CHECK, CheckVerdict.OK, message, seconds=run.ended.seconds)
    return Claim(reach=Reach.EMULATED), (passed,)


def _not_proved(because: str) -> tuple[Claim, tuple[TestResult, ...]]:
    result = TestResult(CHECK, CheckVerdict.SKIPPED, f"{Reach.LARGER}: {because}")
    return Claim(reach=Reach.LARGER, because=because), (result,)


def _stray(subject: SmokeSubject, run: ProbeRun, emulator: Emulation) -> str:
    """The message for an instruction that the emulated CPU lacks; '' if none was executed."""
    said = [line for line in run.ended.err.splitlines() if emulator.stray and re.search(emulator.stray, line)]
    if run.ended.status != -signal.SIGILL and not said:
        return ""
    isa, where = subject.built.cell.isa, next(iter(said), next(_python_frames(run), LOG + " may say more"))
    what = f"{run.interrupted or CHECK} executes an instruction that {isa} lacks"
    fails = f"so that it fails on a CPU with no more than {isa}: illegal instruction under {emulator.title}"
    return f"{what}, {fails}; {where}"


def _python_frames(run: ProbeRun) -> Iterator[str]:
    """Where the package was in Python, as faulthandler wrote it, the innermost frame first."""
    for file, line, name in re.findall(r'^  File "(.+)", line ([0-9]+) in (.+)$', run.ended.err, re.MULTILINE):
        yield f"in {name}, {file}:{line}"


def _interruption(run: ProbeRun) -> str:
    """How a run ended that did not finish."""
    if run.ended.status == PAST_LIMIT:
        return f"{run.interrupted} did not end within {duration(run.ended.seconds)}"
    how = f"signal {-run.ended.status}" if run.ended.status < 0 else f"status {run.ended.status}"
    return f"{run.interrupted} ended with {how}"
