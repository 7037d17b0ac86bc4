"""Running a benchmark: the hardware first, then rounds of processes on each device, then the report."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError, failure
from ci_compiler.hardware import CPU as NO_GPU
from ci_compiler.hardware.machine import Machine
from ci_compiler.judgement import CheckVerdict
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.doctor import probes
from ci_compiler.runner.jobs.benchmark import cores
from ci_compiler.runner.jobs.benchmark.arms import (
    CPU,
    DEVICES,
    GPU,
    Arm,
    Bench,
    DeclaredProgram,
    measured_by,
    order,
    run_process,
)
from ci_compiler.runner.jobs.benchmark.lines import Output
from ci_compiler.runner.jobs.benchmark.report import HEADERS, Circumstances, Report, as_json, remarks, rows
from ci_compiler.runner.jobs.benchmark.results import BESIDE, OWN, Results, Times, import_times
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.manifest import digest_of
from ci_compiler.runner.jobs.setting import output_folder
from ci_compiler.runner.jobs.smoke import hardware
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.runner.jobs.summary import add_row, add_table
from ci_compiler.runner.limits import job_seconds
from ci_compiler.stages import CPU_TEST
from ci_compiler.workflows.artifacts import BENCHMARK, RESULT

LOG = "benchmark.log"
"""What the processes wrote to standard error, in addition to `BENCHMARK` and `RESULT`."""

SECONDS = 0.2
"""How long the samples of one measurement take in each process."""

AWAKE = 0.5
"""How much longer the first warm-up of a process takes: devices raise their clocks meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure: the number of rounds, the declared program (None: those of this package), and where."""

    runs: int
    devices: tuple[str, ...] = DEVICES
    declared: DeclaredProgram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build to measure; `commit` and `size`, that of its closure in bytes, are '' and 0 for unknown."""

    subject: SmokeSubject
    commit: str = ""
    size: int = 0


@dataclass(kw_only=True)
class _Session:
    """One benchmark while it runs: the remarks so far, and the time until which it may run."""

    bench: Bench
    runs: int
    end: float
    remarks: list[str] = field(default_factory=list)

    def run(self, arm: Arm, device: str, *, measures: bool = True) -> Output | None:
        """What a process of `arm` printed; None if it failed and the benchmark goes on without the arm.

        Raises StageError if the own arm failed.
        """
        left = self.end - time.monotonic()
        if left <= 0:
            message = f"it did not finish in time: {self.runs} rounds take longer than the stage's timeout"
            raise failure(arm.subject.name, Code.BENCHMARK_FAILED, message)
        found = run_process(arm, device, self.bench, left, measures=measures)
        self.remark(*(f"{arm.name} on the {device}: {one}" for one in found.output.problems))
        if found.failed and arm.name == OWN:
            raise failure(arm.subject.name, Code.BENCHMARK_FAILED, found.failed)
        if found.failed:
            self.remark(f"{arm.name} was left out: {found.failed}")
        return None if found.failed else found.output

    def rounds(self, arms: Sequence[Arm], device: str) -> dict[str, list[Output]]:
        """What the processes of each arm printed in all rounds, without those of a build that failed."""
        found: dict[str, list[Output]] = {arm.name: [] for arm in arms}
        for arm in (arm for number in range(self.runs) for arm in order(arms, number)):
            if arm.name not in found:
                continue
            output = self.run(arm, device)
            if output is None:
                del found[arm.name]
            else:
                found[arm.name].append(output)
        return found

    def remark(self, *texts: str) -> None:
        """Adds remarks that are new."""
        self.remarks += [text for text in dict.fromkeys(texts) if text not in self.remarks]


def benchmark(build: Build, other: Build | None, settings: Settings, out: Path, *, remark: str = "") -> Report:
    """Measures a build, beside another one if there is one, with its log in `out`. Raises InputError and StageError."""
    own, declared = build.subject, settings.declared
    for subject in (one.subject for one in (build, other) if one):
        if not subject.interpreter.program and not (declared and declared.run):
            raise failure(subject.interpreter.home, Code.NO_PYTHON_PACKAGE, subject.interpreter.lacks)
    output_folder(out, (BENCHMARK, RESULT, LOG))
    machine = this_machine(own.spec.hardware, software=False)
    _refuse_wrong_machine(own, machine)
    chosen = cores.chosen(cores.available(), machine.cores)
    session = _Session(
        bench=Bench(cores=chosen, seconds=SECONDS, awake=AWAKE, log=out / LOG, declared=declared),
        runs=settings.runs,
        end=time.monotonic() + job_seconds(own.spec.timeouts[own.stage]),
    )
    session.remark(*filter(None, [remark, cores.disturbed(os.getloadavg()[0], os.cpu_count() or 1)]))
    gpu = _gpu_of(own, machine, session) if GPU in settings.devices else ""
    arms = [Arm(name=OWN, subject=own, size=build.size, found=tuple(probes.cuda()) if gpu and own.store_path else ())]
    arms += [replace(arms[0], name=BESIDE, subject=other.subject, size=other.size)] if other else []
    devices = [one for one in settings.devices if one == CPU or gpu]
    if not devices:
        raise failure(own.name, Code.BENCHMARK_FAILED, "there is no GPU to measure it on")
    results = _results(session, arms, devices)
    if declared and not results.measurements:
        raise failure(own.name, Code.BENCHMARK_FAILED, _nothing(declared, results, session))
    both = all(BESIDE in outputs for outputs in results.devices.values())
    return Report(
        own=own.built,
        beside=other.subject.built if other and both else None,
        machine=Circumstances(cpu=machine.cpu, gpu=gpu, cores=chosen, clocks=cores.clocks(chosen)),
        results=results,
        commit=build.commit,
        content=own.content,
        ran=isolated_here().found,
        remarks=tuple(session.remarks),
    )


def _nothing(declared: DeclaredProgram, results: Results, session: _Session) -> str:
    """The message for a declared program that measured nothing."""
    reasons = [one for one in session.remarks if one.startswith(f"{OWN} on the ")]
    reasons += [f"{one.name} was left out: {one.because}" for one in results.skipped]
    why = "; ".join(reasons) or "none of its lines is JSON with a name"
    return f"{declared.run or declared.python} printed no measurement: {why}"


def _refuse_wrong_machine(own: SmokeSubject, machine: Machine) -> None:
    """Raises StageError if the CPU cannot run the variant. Without its GPU, the CPU alone is measured."""
    checked, _ = hardware(replace(own, stage=CPU_TEST), machine)
    failed = [one for one in checked if one.verdict is CheckVerdict.FAILED]
    if failed:
        place = Place(file=own.name)
        messages = (f"{one.check}: {one.message}" for one in failed)
        raise StageError([Finding(place=place, code=Code.BENCHMARK_FAILED, message=one) for one in messages])


def _gpu_of(own: SmokeSubject, machine: Machine, session: _Session) -> str:
    """The name of the GPU of this machine that runs the variant; '' for a CPU-only variant, and if there is none."""
    tables, gpu = own.spec.hardware, own.built.cell.target
    if gpu == NO_GPU:
        return ""
    found = next((one.name for one in machine.gpus if one.runs(tables, tables.gpu(gpu))), "")
    if not found:
        session.remark(f"it was not measured on a GPU: no GPU here runs code built for {gpu}")
    return found


def _results(session: _Session, given: Sequence[Arm], wanted: Sequence[str]) -> Results:
    """The results of all rounds on each of the `wanted` devices."""
    primes = {arm.name: session.run(arm, CPU, measures=False) for arm in given}
    arms = [arm for arm in given if primes[arm.name] is not None]
    made = {name: one for name, one in primes.items() if one is not None}
    devices: dict[str, dict[str, list[Output]]] = {}
    for device in wanted:
        if device == CPU or session.bench.declared or measured_by(given[0], device):
            left = [arm for arm in arms if all(arm.name in outputs for outputs in devices.values())]
            devices[device] = session.rounds(left, device)
    return Results(
        runs=session.runs,
        devices=devices,
        imports=dict(_imports(made, next(iter(devices.values()), {}))),
        sizes={arm.name: arm.size or made[arm.name].size for arm in arms},
        dispatch={name: one.dispatch for name, one in made.items()},
    )


def _imports(primes: Mapping[str, Output], outputs: Mapping[str, Sequence[Output]]) -> Iterator[tuple[str, Times]]:
    for name, prime in primes.items():
        if name in outputs and (times := import_times(prime, outputs[name])):
            yield name, times


def write(report: Report, out: Path, seconds: float, failures: Sequence[str], *, stage: str) -> str:
    """Writes the files and adds the table to GitHub's summary. Returns the digest of the file `RESULT`."""
    (out / BENCHMARK).write_text(f"{json.dumps(as_json(report), indent=2, ensure_ascii=False)}\n", "utf-8")
    name = report.own.variant.name
    content = {
        "name": name,
        "branch": report.own.cell.branch,
        "stage": stage,
        "passed": not failures,
        "recorded": False,
        "content": report.content,
        "seconds": round(seconds, 1),
    }
    raw = f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode()
    (out / RESULT).write_bytes(raw)
    notable = [*failures, str(report), *remarks(report)]
    add_row(name=name, stage=stage, result="failed" if failures else "passed", seconds=seconds, remarks=notable)
    add_table(HEADERS, rows(report))
    return digest_of(raw)
