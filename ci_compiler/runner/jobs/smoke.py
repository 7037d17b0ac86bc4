"""Testing a build on this machine: the hardware first, then the package in an interpreter of its own.

The package runs in another process, so that a crash is a finding and does not end the test. The hardware is checked
before the import, because a missing CPU instruction would only show as the number of a signal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ci_compiler.backends.job import Interpreter
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.judgement import CheckVerdict
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.proof import Proof, proof_of
from ci_compiler.process import PAST_LIMIT, Ended, ask
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.doctor import probes
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, CudaAttempt, Evidence
from ci_compiler.runner.doctor.hardware_checks import CHECKS as HARDWARE
from ci_compiler.runner.jobs.expectation import Expectation, expectation
from ci_compiler.runner.jobs.isolation import Isolation, isolation
from ci_compiler.runner.jobs.junit import TestResult, junit
from ci_compiler.runner.jobs.manifest import expect, read_manifest
from ci_compiler.runner.jobs.setting import output_folder, programs_of
from ci_compiler.runner.jobs.summary import add_row, add_table
from ci_compiler.runner.limits import job_seconds
from ci_compiler.runner.targets import find
from ci_compiler.spec.model import Spec
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.smoke import SmokeTest
from ci_compiler.spec.values import variant_values
from ci_compiler.stages import Stage
from ci_compiler.units import duration
from ci_compiler.workflows.variant import RESULT

DECLARED = "smoke"
"""The name of the check that the spec declares."""

PROBE = Path(__file__).with_name("smoke_probe.py")
JUNIT, LOG = "junit.xml", "probe.log"
"""The files that a test writes in addition to `RESULT`: the results as JUnit XML, and the output of the package."""

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
class SmokeSubject:
    """What to test: a variant, by a stage, in an interpreter. `store_path` is '' for an interpreter of the user.

    `given`: expectations of the user in place of the spec's, by the fields of `Expectation`.
    """

    spec: Spec
    built: BuiltVariant
    stage: Stage
    interpreter: Interpreter
    given: Mapping[str, Any]
    store_path: str = ""

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.built.variant.name

    @property
    def expectation(self) -> Expectation:
        """What the test expects."""
        own = {"paths": self.interpreter.paths, "store_path": self.store_path}
        wanted = expectation(self.spec, self.built, self.stage, **own, **self.given)
        return replace(wanted, script=os.fspath(Path(wanted.script).absolute()) if wanted.script else "")

    @property
    def declared(self) -> SmokeTest | None:
        """The test that the spec declares for the stage."""
        smoke = self.spec.packages[self.built.variant.package].smoke
        return smoke.on(gpu=self.stage.needs_gpu) if smoke else None

    @property
    def program(self) -> SmokeTest | None:
        """The declared test that runs a program of the package; None for a test by the interpreter."""
        return self.declared if self.declared and self.declared.run else None

    @property
    def values(self) -> dict[str, str]:
        """The values of the variant by name."""
        variant, cell = self.built.variant, self.built.cell
        return variant_values(self.spec, cell.branch, variant.package, variant.name, cell)

    @property
    def variables(self) -> dict[str, str]:
        """The values of the variant as environment variables."""
        return {f"VARIANT_{name.upper()}": value for name, value in self.values.items()}


def of_manifest(
    spec: Spec, name: str, branch: str, stage: Stage, path: Path, given: Mapping[str, Any], *, scratch: Path
) -> SmokeSubject:
    """The build of the manifest at `path`, in its own interpreter. Raises InputError and StageError.

    `scratch` is an empty folder for what the interpreter needs; it must outlive the test.
    """
    manifest = read_manifest(path)
    expect(manifest, path, name=name, branch=branch or manifest.branch)
    built = find(spec, name, manifest.branch)
    programs = programs_of(spec, Path.cwd(), {}, spec.timeouts[stage], built=built, folder=path.parent)
    if not programs.closure(manifest):
        message = f"{manifest.store_path} is not in this machine's store; `ci-runner fetch {path}` brings it there"
        raise failure(name, Code.CLOSURE_MISSING, message)
    interpreter = programs.interpreter(manifest, scratch)
    return SmokeSubject(
        spec=spec,
        built=built,
        stage=stage,
        interpreter=interpreter,
        store_path=interpreter.home,
        given=given,
    )


def of_python(spec: Spec, name: str, branch: str, stage: Stage, python: Path, given: Mapping[str, Any]) -> SmokeSubject:
    """The package in the interpreter `python`, whoever built it. Raises InputError and StageError."""
    program = shutil.which(python)
    if program is None:
        raise failure(str(python), Code.NO_PYTHON, "is not an executable program")
    # The link is not resolved: Python finds a virtual environment by the path of the link.
    interpreter = Interpreter(program=os.path.abspath(program))  # noqa: PTH100
    built = find(spec, name, branch)
    return SmokeSubject(spec=spec, built=built, stage=stage, interpreter=interpreter, given=given)


def smoke(subject: SmokeSubject, out: Path) -> tuple[TestResult, ...]:
    """Tests `subject`, and writes the report to `out` and a table to the summary. Raises InputError and StageError."""
    if not subject.interpreter.program and subject.program is None:
        raise failure(subject.interpreter.home, Code.NO_PYTHON_PACKAGE, subject.interpreter.lacks)
    output_folder(out, (RESULT, JUNIT, LOG))
    start = time.monotonic()
    results, found = hardware(subject)
    isolated = isolation(os.environ, kept=(Path(tempfile.gettempdir()), PROBE))
    if any(result.verdict is CheckVerdict.FAILED for result in results):
        results += _skipped(subject, results, "this machine cannot run the variant, so it was not imported")
    elif subject.program:
        results.append(run_program(subject, subject.program, found, out / LOG, isolated))
    else:
        results += probed(subject, found, out / LOG, isolated)
    made = tuple(results)
    _report(subject, made, out, time.monotonic() - start, isolated)
    return made


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


# Before the import.


def hardware(subject: SmokeSubject) -> tuple[list[TestResult], tuple[CudaAttempt, ...]]:
    """The results of the doctor's hardware checks for the variant, and the attempts to use CUDA."""
    work = work_of(subject.spec, stage=subject.stage, name=subject.name)
    on_gpu, own = subject.stage.needs_gpu, bool(subject.store_path)
    evidence = Evidence(
        machine=this_machine(subject.spec.hardware, trial=False),
        clock=ClockReading(now=int(time.time())),
        cuda=tuple(probes.cuda()) if on_gpu and own else (),
    )
    names = [name for name in HARDWARE if name in subject.stage.checks and (own or name != "cuda")]
    judged = [(name, HARDWARE[name](work, evidence)) for name in names]
    results = [TestResult(check=f"machine-{name}", verdict=one.verdict, message=one.message) for name, one in judged]
    return results, evidence.cuda


# The declared program.


def run_program(
    subject: SmokeSubject, declared: SmokeTest, found: Sequence[CudaAttempt], log: Path, isolated: Isolation
) -> TestResult:
    """The result of a program of the package: its status, and whether what it printed is as expected."""
    program, *arguments = shlex.split(declared.run)
    home = Path(subject.store_path) if subject.store_path else Path(subject.interpreter.program).parents[1]
    if not (home / program).is_file():
        return TestResult(check=DECLARED, verdict=CheckVerdict.FAILED, message=f"the package has no {program}")
    with _environment(subject, found) as (env, folder):
        command = [*isolated.prefix, os.fspath(home / program), *arguments]
        ended = ask(command, seconds=job_seconds(subject.spec.timeouts[subject.stage]), env=env, folder=folder)
    log.write_text(ended.out + ended.err, "utf-8")
    if ended.status != 0:
        message = _crash(subject, ended, program, log)
        return TestResult(check=DECLARED, verdict=CheckVerdict.FAILED, message=message, seconds=ended.seconds)
    expected = fill(declared.expect, {name: re.escape(value) for name, value in subject.values.items()})
    answer = re.search(expected, ended.out + ended.err, re.MULTILINE)
    verdict = CheckVerdict.OK if answer else CheckVerdict.FAILED
    message = (
        f"{declared.run}: {answer[0] or 'status 0'}" if answer else f"{declared.run} printed nothing like {expected}"
    )
    return TestResult(check=DECLARED, verdict=verdict, message=" ".join(message.split()), seconds=ended.seconds)


# The probe.


def probed(subject: SmokeSubject, found: Sequence[CudaAttempt], log: Path, isolated: Isolation) -> list[TestResult]:
    """The results of the probe. If it crashes, the check that it was running gets a failed result."""
    limit = job_seconds(subject.spec.timeouts[subject.stage])
    with _environment(subject, found) as (env, folder):
        command = [*isolated.prefix, subject.interpreter.program, "-I", str(PROBE)]
        ended = ask(command, seconds=limit, env=env, folder=folder, stdin=subject.expectation.as_json())
    log.write_text(ended.err, "utf-8")
    results: list[TestResult] = []
    begun = ""
    for row in filter(None, map(_row, ended.out.splitlines())):
        if "begin" in row:
            begun = str(row["begin"])
        else:
            verdict, seconds = CheckVerdict(row["verdict"]), float(row["seconds"])
            results.append(TestResult(check=row["check"], verdict=verdict, message=row["message"], seconds=seconds))
            begun = ""
    if begun or ended.status != 0:
        message = _crash(subject, ended, begun or "starting", log)
        results.append(TestResult(check=begun or "interpreter", verdict=CheckVerdict.FAILED, message=message))
    return results + _skipped(subject, results, "not reached, because an earlier check ended the test")


def _skipped(subject: SmokeSubject, results: Iterable[TestResult], reason: str) -> list[TestResult]:
    """A result for each planned check that has none."""
    made = {result.check for result in results}
    names = [DECLARED] if subject.program else planned(subject.expectation)
    left = [name for name in names if name not in made]
    return [TestResult(check=name, verdict=CheckVerdict.SKIPPED, message=reason) for name in left]


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and ("begin" in row or "verdict" in row) else None


def _crash(subject: SmokeSubject, ended: Ended, at: str, log: Path) -> str:
    """The message for a probe that did not finish."""
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
def _environment(subject: SmokeSubject, found: Sequence[CudaAttempt]) -> Iterator[tuple[dict[str, str], Path]]:
    """The whole environment of the probe, and an empty folder that is its home and working directory."""
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


# The report.


def _report(
    subject: SmokeSubject, results: tuple[TestResult, ...], out: Path, seconds: float, isolated: Isolation
) -> None:
    stage, failed = subject.stage.name, [one for one in results if one.verdict is CheckVerdict.FAILED]
    proof = proof_of(subject.spec.packages[subject.built.variant.package], subject.stage)
    content = {
        "name": subject.name,
        "branch": subject.built.cell.branch,
        "stage": stage,
        "passed": not failed,
        "proof": proof.value,
        "seconds": round(seconds, 1),
        "ran": isolated.found,
        "store_path": subject.store_path,
        "python": subject.interpreter.program,
        "checks": [asdict(result) for result in results],
    }
    (out / RESULT).write_text(f"{json.dumps(content, indent=2, ensure_ascii=False)}\n", "utf-8")
    (out / JUNIT).write_text(junit(subject.name, stage, results), "utf-8")
    remarks = [f"{one.check}: {one.message}" for one in failed]
    remarks += [] if isolated.prefix else [f"it ran {isolated.found}"]
    passed = f"passed ({proof.value})" if proof is Proof.IMPORTED_ONLY else "passed"
    add_row(name=subject.name, stage=stage, result="failed" if failed else passed, seconds=seconds, remarks=remarks)
    add_table(("check", "result", "found"), ((one.check, one.verdict.value, one.message) for one in results))
