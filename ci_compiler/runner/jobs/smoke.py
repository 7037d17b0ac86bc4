"""Testing a build on this machine: the hardware first, then the package in an interpreter of its own.

The package runs in another process, so that a crash is a finding and does not end the test. The hardware is checked
before the import, because a missing CPU instruction would only show as the number of a signal.

The part of a package that no test covers, instructions beyond the instruction set and libraries not loaded, is a notice
and never a failure: code that asks the CPU first may contain any instruction.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.hardware import Hardware
from ci_compiler.hardware.families.machines import Attempt
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import CheckVerdict
from ci_compiler.plan.proof import Proof, Reach, passed, proof_of
from ci_compiler.process import follow, located
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.runner.doctor.hardware_checks import CHECKS as HARDWARE
from ci_compiler.runner.jobs.device_code import Compared, compared, files_below
from ci_compiler.runner.jobs.emulation import FAILED, Claim, claimed
from ci_compiler.runner.jobs.emulation import LOG as EMULATION_LOG
from ci_compiler.runner.jobs.files import output_folder
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.junit import TestResult, junit
from ci_compiler.runner.jobs.probing import DECLARED, ProbeRun, is_binary, planned, run_package, run_probe
from ci_compiler.runner.jobs.records import NOT_RUN, keep_record, passed_before, smoke_records
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.runner.jobs.summary import add_row, add_table
from ci_compiler.runner.limits import job_seconds
from ci_compiler.stages import USABLE
from ci_compiler.units import counted, some
from ci_compiler.workflows.artifacts import RESULT

NOT_EXECUTED, NOT_LOADED = "instructions-not-covered", "libraries-not-loaded"
"""The names of the notices among the checks."""

CODE = "device-code"
"""The name of the check of the code for GPUs, which is read in the files of the build."""

SECONDS = 300.0
"""The limit on the disassembly of a package. objdump writes about 20 MB per second, which a library of 400 MB takes."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(.*)$")


def uncovered(subject: SmokeSubject, loaded: Collection[str], reach: Reach, seconds: float) -> Iterator[TestResult]:
    """The notices for the package's own objects; `loaded` are the files that the tested process had mapped.

    Nothing for an interpreter of the user, whose environment has more than the package.
    """
    if not subject.store_path:
        return
    objects = tuple(_objects(subject.home))
    if not subject.program and objects and not loaded:
        message = "this system does not say which libraries a process has loaded"
        yield TestResult(NOT_LOADED, CheckVerdict.SKIPPED, message)
    elif not subject.program and objects:
        absent = [path for path in objects if ".so" in path.name and os.fspath(path) not in loaded]
        yield _notice(NOT_LOADED, _listed(absent, subject.home), "the test loaded every library of the package")
    if objects:
        yield _instructions(subject, objects, reach, min(SECONDS, seconds))


def _objects(home: Path) -> Iterator[Path]:
    """The programs and libraries below `home`, by their real paths."""
    yield from filter(is_binary, files_below(home))


def _instructions(subject: SmokeSubject, objects: tuple[Path, ...], reach: Reach, seconds: float) -> TestResult:
    isa = subject.built.cell.isa
    program = located("objdump")
    if program is None:
        message = f"objdump is not on PATH, so that nothing says whether the package has instructions beyond {isa}"
        return TestResult(NOT_EXECUTED, CheckVerdict.SKIPPED, message)
    patterns, end = beyond_patterns(subject.spec.hardware, isa), time.monotonic() + seconds
    found: dict[str, str] = {}
    unread: list[Path] = []
    for path in objects:
        functions = disassembled(program, path, patterns, end - time.monotonic())
        if functions is None:
            unread.append(path)
        else:
            found |= {f"{name} in {path.name} ({beyond})": beyond for name, beyond in functions.items()}
    said = []
    if found:
        covered = "the test did not execute them" if reach is Reach.EMULATED else "the test may not have executed them"
        said.append(f"{some(list(found), 'function')} with instructions beyond {isa}; {covered}")
    if unread:
        said.append(f"not read within {seconds:.0f} s: {_listed(unread, subject.home)}")
    return _notice(NOT_EXECUTED, "; ".join(said), f"no instruction beyond {isa} in {counted(len(objects), 'object')}")


def beyond_patterns(hardware: Hardware, isa: str) -> dict[str, re.Pattern[str]]:
    """The patterns of the instructions of each ISA of the same system that `isa` does not include."""
    own, system = hardware.runs([isa]), hardware.isa(isa).system
    others = [one for name, one in hardware.isas.items() if name not in own and one.system == system]
    return {other.name: re.compile(other.instructions) for other in reversed(others) if other.instructions}


def disassembled(
    objdump: str, path: Path, patterns: Mapping[str, re.Pattern[str]], seconds: float
) -> dict[str, str] | None:
    """The functions of an object with an instruction that one of `patterns` matches, with that pattern's name.

    None if objdump fails, or does not end within `seconds`.
    """
    found: dict[str, str] = {}
    function = "code without a name"

    def read(line: str) -> None:
        nonlocal function
        if heading := _FUNCTION.match(line):
            function = heading[1]
        elif function not in found and (instruction := _INSTRUCTION.match(line)):
            name = next((name for name, one in patterns.items() if one.search(instruction[1])), "")
            if name:
                found[function] = name

    if seconds <= 0 or not patterns:
        return None if patterns else {}
    command = [objdump, "--disassemble", "--no-show-raw-insn", "--demangle", os.fspath(path)]
    ended = follow(command, read, seconds=seconds, env={**os.environ, "LC_ALL": "C"})
    return None if ended.status != 0 else found


def _notice(check: str, message: str, nothing: str) -> TestResult:
    verdict = CheckVerdict.SKIPPED if message else CheckVerdict.OK
    return TestResult(check, verdict, message or nothing)


def _listed(paths: list[Path], home: Path) -> str:
    return some([path.relative_to(home.resolve()).as_posix() for path in paths], "file") if paths else ""


JUNIT, LOG, WAY_LOG = "junit.xml", "probe.log", "import-{way}.log"
"""The files that a test writes in addition to `RESULT`: the results as JUnit XML, and the output of the package."""


def smoke(subject: SmokeSubject, out: Path, *, again: bool = False) -> tuple[tuple[TestResult, ...], str]:
    """Tests `subject`, and writes the report to `out` and a table to the summary. Raises InputError and StageError.

    Returns the results and the digest of the file `RESULT`. A test that passed before on the same content is left out,
    unless `again` is set.
    """
    if not subject.interpreter.program and subject.program is None:
        raise failure(subject.interpreter.home, Code.NO_PYTHON_PACKAGE, subject.interpreter.lacks)
    ways = [way.name for way in subject.interpreter.ways]
    output_folder(out, (RESULT, JUNIT, LOG, EMULATION_LOG, *(WAY_LOG.format(way=way) for way in ways)))
    start = time.monotonic()
    records = smoke_records(subject)
    remark = ""
    before = "" if again else passed_before(subject, subject.stage.name, list(records))
    if before:
        results = [TestResult("record", CheckVerdict.SKIPPED, NOT_RUN)]
        claim = Claim(reach=records[before], because=NOT_RUN, recorded=True)
    else:
        results, claim = _results(subject, out, start + job_seconds(subject.spec.timeouts[subject.stage]))
        record = next((text for text, reach in records.items() if reach is claim.reach), "")
        remark = keep_record(subject, record) if record and not _failed(results) else ""
    return tuple(results), _report(subject, results, claim, out, time.monotonic() - start, remark)


def hardware(subject: SmokeSubject, machine: Machine, runs: str = "") -> tuple[list[TestResult], tuple[Attempt, ...]]:
    """The results of the doctor's hardware checks for the variant, and the attempts to use a GPU.

    `runs` is how a GPU runs the build, as `Compared` has it.
    """
    work = work_of(subject.spec, stage=subject.stage, name=subject.name)
    on_gpu, own = subject.stage.needs_gpu, bool(subject.store_path)
    evidence = Evidence(
        machine=machine,
        clock=ClockReading(now=int(time.time())),
        attempts=tuple(work.machines.attempts()) if on_gpu and own else (),
        runs=runs,
    )
    names = [name for name in HARDWARE if name in subject.stage.checks and (own or name != USABLE)]
    judged = {name: HARDWARE[name](work, evidence) for name in names}
    return [TestResult(f"machine-{name}", one.verdict, one.message) for name, one in judged.items()], evidence.attempts


def _results(subject: SmokeSubject, out: Path, end: float) -> tuple[list[TestResult], Claim]:
    """The results of the hardware and of the package, and what they prove of the instruction set.

    `end` is the time by which the test ends, as `time.monotonic` counts.
    """

    def left() -> float:
        return max(1.0, end - time.monotonic())

    machine = this_machine(subject.spec.hardware, software=False)
    code = compared(subject.built, subject.files)
    results, attempts = hardware(subject, machine, code.runs)
    results += device_code(code) if subject.files else ()
    subject = replace(subject, attempts=attempts)
    if _failed(results):
        why = "the build is not what the variant declares" if code.wrong else "this machine cannot run the variant"
        return [*results, *_skipped(subject, (), f"{why}, so it was not imported")], FAILED
    run = run_package(subject, out / LOG, left())
    results += [*run.results, *_skipped(subject, run.results, "not reached, because an earlier check ended the test")]
    if not subject.program:
        results += _imports(subject, run, out, left())
    if _failed(results):
        return results, FAILED
    claim, emulated = claimed(subject, machine, run, out, left())
    results += emulated
    if not subject.stage.needs_gpu and claim.reach is not Reach.OWN and not _failed(emulated):
        results += uncovered(subject, run.loaded, claim.reach, left())
    return results, claim


def device_code(code: Compared) -> Iterator[TestResult]:
    """The result of comparing the code for GPUs in a build with its variant."""
    found = f"code for {', '.join(code.architectures) or 'no GPU'}"
    verdict = CheckVerdict.FAILED if code.wrong else CheckVerdict.SKIPPED if code.runs else CheckVerdict.OK
    yield TestResult(CODE, verdict, "; ".join([*(code.wrong or [found]), *code.remarks]))


def _imports(subject: SmokeSubject, run: ProbeRun, out: Path, seconds: float) -> Iterator[TestResult]:
    """The result of importing the package once in each way in which a user gets it, other than the tested one."""
    for way in subject.interpreter.ways:
        check = f"import-{way.name}"
        if way.lacks or _failed(run.results) or not subject.expectation.module:
            reason = way.lacks or "a check of the package failed, or no module is known to import"
            yield TestResult(check, CheckVerdict.SKIPPED, reason)
            continue
        wanted = subject.expectation.only_imported(way.paths)
        run_of_way = run_probe(subject, wanted, out / WAY_LOG.format(way=way.name), seconds)
        yield from (result._replace(check=check) for result in run_of_way.results)


def _skipped(subject: SmokeSubject, results: Iterable[TestResult], reason: str) -> list[TestResult]:
    """A result for each planned check that has none."""
    made = {result.check for result in results}
    names = [DECLARED] if subject.program else planned(subject.expectation)
    return [TestResult(name, CheckVerdict.SKIPPED, reason) for name in names if name not in made]


def _failed(results: Iterable[TestResult]) -> list[TestResult]:
    return [result for result in results if result.verdict is CheckVerdict.FAILED]


def _report(
    subject: SmokeSubject, results: list[TestResult], claim: Claim, out: Path, seconds: float, remark: str
) -> str:
    """Writes the files and the rows of a test. Returns the digest of the file `RESULT`."""
    stage, failed = subject.stage.name, _failed(results)
    proof = proof_of(subject.spec.packages[subject.built.variant.package], subject.stage)
    digest = subject.write_result(
        out / RESULT,
        passed=not failed,
        recorded=claim.recorded,
        seconds=seconds,
        proof=proof.value,
        reach=claim.reach.value,
        reach_because=claim.because,
        ran=isolated_here().found,
        store_path=subject.store_path,
        python=subject.interpreter.program,
        checks=[result._asdict() for result in results],
    )
    (out / JUNIT).write_text(junit(subject.name, stage, results), "utf-8")
    only = proof is Proof.IMPORTED_ONLY
    how = "failed" if failed else passed(imported_only=only, reach=claim.reach, recorded=claim.recorded)
    remarks = [f"{result.check}: {result.message}" for result in failed] or [claim.because, remark]
    remarks += [result.message for result in results if (result.check, result.verdict) == (CODE, CheckVerdict.SKIPPED)]
    remarks += [] if claim.recorded or isolated_here().prefix else [f"it ran {isolated_here().found}"]
    add_row(name=subject.name, stage=stage, result=how, seconds=seconds, remarks=filter(None, remarks))
    add_table(
        ("check", "result", "found"), ((result.check, result.verdict.value, result.message) for result in results)
    )
    return digest
