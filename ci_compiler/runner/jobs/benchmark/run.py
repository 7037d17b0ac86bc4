"""Running a benchmark: the hardware first, then rounds of processes on each device, then the report."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError, failure
from ci_compiler.hardware import CPU as NO_GPU
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import CheckVerdict
from ci_compiler.plan.proof import checks
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.jobs.benchmark import cores
from ci_compiler.runner.jobs.benchmark.lines import MOST_BYTES, Output, read_output
from ci_compiler.runner.jobs.benchmark.report import HEADERS, Circumstances, Report, as_json, remarks, rows
from ci_compiler.runner.jobs.benchmark.results import BESIDE, CPU, DEVICES, GPU, OWN, Results, import_times
from ci_compiler.runner.jobs.expectation import targets_in_pytorch
from ci_compiler.runner.jobs.files import output_folder, write_json
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.probing import ask_isolated, crash, program_of, script_command
from ci_compiler.runner.jobs.smoke import hardware
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.runner.jobs.summary import add_row, add_table
from ci_compiler.runner.limits import job_seconds
from ci_compiler.spec.suites import DeclaredBenchmark
from ci_compiler.stages import CPU_TEST
from ci_compiler.workflows.artifacts import BENCHMARK, RESULT

LOG = "benchmark.log"
"""What the processes wrote to standard error, in addition to `BENCHMARK` and `RESULT`."""

SECONDS = 0.2
"""How long the samples of one measurement take in each process."""

AWAKE = 0.5
"""How much longer the first warm-up of a process takes: devices raise their clocks meanwhile."""


class Settings(NamedTuple):
    """How to measure: the number of rounds, the declared program (None: those of this package), and where."""

    runs: int
    devices: tuple[str, ...] = DEVICES
    declared: DeclaredBenchmark | None = None


class Arm(NamedTuple):
    """A build to measure."""

    name: str
    subject: SmokeSubject

    def measured_by(self, device: str) -> list[str]:
        """The names of the programs of this package that measure the package on `device`."""
        package = self.subject.spec.packages[self.subject.built.variant.package]
        row: Mapping[str, Any] = checks()["packages"].get(package.attribute, {})
        return list(row.get("benchmarks", {}).get(device, ()))


@dataclass(kw_only=True)
class _Session:
    """One benchmark while it runs: the remarks so far, and the time until which it may run.

    `cores` are those on which all processes run. `log` gets what they write to standard error.
    """

    settings: Settings
    cores: tuple[int, ...]
    log: Path
    end: float
    remarks: list[str] = field(default_factory=list)

    def run(self, arm: Arm, device: str, *, measures: bool = True) -> Output | None:
        """What a fresh process of `arm` printed that measures on `device`, or with `measures` off only imports it.

        None if it failed and the benchmark goes on without the arm. Raises StageError if the own arm failed.
        """
        subject, left = arm.subject, self.end - time.monotonic()
        if left <= 0:
            message = f"it did not finish in time: {self.settings.runs} rounds take longer than the stage's timeout"
            raise failure(subject.name, Code.BENCHMARK_FAILED, message)
        if not measures and not subject.interpreter.program:
            return Output(readings={})
        with tempfile.TemporaryFile() as printed:
            program, given = self._program(arm, device, measures=measures)
            with cores.pinned(self.cores):
                more = self._variables(subject, device)
                ended = ask_isolated(subject, program, left, stdin=given, out=printed, variables=more)
            printed.seek(0)
            output = read_output(printed.read(MOST_BYTES + 1), device)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"# {arm.name} on the {device}\n{ended.err}")
        self.remark(*(f"{arm.name} on the {device}: {problem}" for problem in output.problems))
        if not ended.status:
            return output
        why = crash(subject, ended, f"the benchmark ({arm.name}, {device})", self.log)
        if arm.name == OWN:
            raise failure(subject.name, Code.BENCHMARK_FAILED, why)
        self.remark(f"{arm.name} was left out: {why}")
        return None

    def _program(self, arm: Arm, device: str, *, measures: bool) -> tuple[list[str], str]:
        """The command of a process, and its standard input."""
        subject, declared = arm.subject, self.settings.declared if measures else None
        if declared and declared.run:
            return program_of(subject, declared.run), ""
        gpu = subject.spec.hardware.gpu(subject.built.cell.target) if device == GPU else None
        wanted = {
            "module": subject.expectation.module,
            "paths": subject.interpreter.paths,
            "programs": arm.measured_by(device) if measures and not declared else [],
            "device": device,
            "device_kind": subject.expectation.device_kind,
            "probe": subject.expectation.probe,
            "targets": (targets_in_pytorch(gpu) or ("",)) if gpu else (),
            "seconds": SECONDS,
            "awake": AWAKE,
            "script": os.fspath(Path(declared.python).absolute()) if declared else "",
        }
        return script_command(subject, "benchmark"), json.dumps(wanted)

    def _variables(self, subject: SmokeSubject, device: str) -> dict[str, str]:
        """What the environment of a process has in addition to that of a smoke test."""
        given = {"OMP_NUM_THREADS": str(len(self.cores))}
        if self.settings.declared:
            given |= subject.variables | {"BENCHMARK_DEVICE": device, "BENCHMARK_SECONDS": f"{SECONDS:g}"}
        return given

    def rounds(self, arms: Sequence[Arm], device: str) -> dict[str, list[Output]]:
        """What the processes of each arm printed in all rounds, without those of a build that failed.

        Every second round runs the arms in reverse.
        """
        outputs: dict[str, list[Output]] = {arm.name: [] for arm in arms}
        for arm in (arm for number in range(self.settings.runs) for arm in arms[:: -1 if number % 2 else 1]):
            if arm.name not in outputs:
                continue
            output = self.run(arm, device)
            if output is None:
                del outputs[arm.name]
            else:
                outputs[arm.name].append(output)
        return outputs

    def remark(self, *texts: str) -> None:
        """Adds remarks that are new."""
        self.remarks += [text for text in dict.fromkeys(texts) if text not in self.remarks]


def benchmark(
    own: SmokeSubject, other: SmokeSubject | None, settings: Settings, out: Path, *, remark: str = ""
) -> Report:
    """Measures a build, beside another one if there is one, with its log in `out`. Raises InputError and StageError."""
    declared = settings.declared
    for interpreter in (subject.interpreter for subject in (own, other) if subject):
        if not interpreter.program and not (declared and declared.run):
            raise failure(interpreter.home, Code.NO_PYTHON_PACKAGE, interpreter.lacks)
    output_folder(out, (BENCHMARK, RESULT, LOG))
    machine = this_machine(own.spec.hardware, software=False)
    _refuse_wrong_machine(own, machine)
    chosen = cores.chosen(cores.available(), machine.cores)
    end = time.monotonic() + job_seconds(own.spec.timeouts[own.stage])
    session = _Session(settings=settings, cores=chosen, log=out / LOG, end=end)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    session.remark(*filter(None, [remark, cores.disturbed(load, os.cpu_count() or 1)]))
    gpu = _gpu_of(own, machine, session) if GPU in settings.devices else ""
    attempts = tuple(own.machines.attempts()) if gpu and own.store_path else ()
    arms = [Arm(name, replace(build, attempts=attempts)) for name, build in ((OWN, own), (BESIDE, other)) if build]
    devices = [device for device in settings.devices if device == CPU or gpu]
    if not devices:
        raise failure(own.name, Code.BENCHMARK_FAILED, "there is no GPU to measure it on")
    results = _results(session, arms, devices)
    if declared and not results.measurements:
        raise failure(own.name, Code.BENCHMARK_FAILED, _nothing(declared, results, session))
    both = all(BESIDE in outputs for outputs in results.devices.values())
    return Report(
        own=own,
        beside=other if both else None,
        machine=Circumstances(cpu=machine.cpu, gpu=gpu, cores=chosen, clocks=cores.clocks(chosen)),
        results=results,
        ran=isolated_here().found,
        remarks=tuple(session.remarks),
    )


def _nothing(declared: DeclaredBenchmark, results: Results, session: _Session) -> str:
    """The message for a declared program that measured nothing."""
    reasons = [remark for remark in session.remarks if remark.startswith(f"{OWN} on the ")]
    reasons += [f"{skipped.name} was left out: {skipped.because}" for skipped in results.skipped]
    why = "; ".join(reasons) or "none of its lines is JSON with a name"
    return f"{declared.run or declared.python} printed no measurement: {why}"


def _refuse_wrong_machine(own: SmokeSubject, machine: Machine) -> None:
    """Raises StageError if the CPU cannot run the variant. Without its GPU, the CPU alone is measured."""
    checked, _ = hardware(replace(own, stage=CPU_TEST), machine)
    failed = [result for result in checked if result.verdict is CheckVerdict.FAILED]
    if failed:
        place = Place(file=own.name)
        messages = (f"{result.check}: {result.message}" for result in failed)
        raise StageError([Finding(place=place, code=Code.BENCHMARK_FAILED, message=message) for message in messages])


def _gpu_of(own: SmokeSubject, machine: Machine, session: _Session) -> str:
    """The name of the GPU of this machine that runs the variant; '' for a CPU-only variant, and if there is none."""
    tables, gpu = own.spec.hardware, own.built.cell.target
    if gpu == NO_GPU:
        return ""
    found = next((device.name for device in machine.gpus if device.runs(tables, tables.gpu(gpu))), "")
    if not found:
        session.remark(f"it was not measured on a GPU: no GPU here runs code built for {gpu}")
    return found


def _results(session: _Session, given: Sequence[Arm], wanted: Sequence[str]) -> Results:
    """The results of all rounds on each of the `wanted` devices."""
    primes = {arm.name: session.run(arm, CPU, measures=False) for arm in given}
    made = {name: output for name, output in primes.items() if output is not None}
    arms = [arm for arm in given if arm.name in made]
    devices: dict[str, dict[str, list[Output]]] = {}
    for device in wanted:
        if device == CPU or session.settings.declared or given[0].measured_by(device):
            left = [arm for arm in arms if all(arm.name in outputs for outputs in devices.values())]
            devices[device] = session.rounds(left, device)
    first = next(iter(devices.values()), {})
    imports = {name: import_times(prime, first[name]) for name, prime in made.items() if name in first}
    builds = {arm.name: arm.subject.build for arm in arms}
    return Results(
        runs=session.settings.runs,
        devices=devices,
        imports={name: times for name, times in imports.items() if times},
        sizes={name: (build and build.closure_size) or made[name].size for name, build in builds.items()},
        dispatch={name: output.dispatch for name, output in made.items()},
    )


def write(report: Report, out: Path, seconds: float, failures: Sequence[str]) -> str:
    """Writes the files and adds the table to GitHub's summary. Returns the digest of the file `RESULT`."""
    own, stage = report.own, report.own.stage.name
    write_json(out / BENCHMARK, as_json(report))
    digest = own.write_result(out / RESULT, passed=not failures, recorded=False, seconds=seconds)
    notable = [*failures, str(report), *remarks(report)]
    add_row(name=own.name, stage=stage, result="failed" if failures else "passed", seconds=seconds, remarks=notable)
    add_table(HEADERS, rows(report))
    return digest
