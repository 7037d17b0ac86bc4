"""The arms of a benchmark, and one process of an arm: the programs of this package, or the declared one."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ci_compiler.plan.proof import checks
from ci_compiler.process import ask
from ci_compiler.runner.doctor.evidence import CudaAttempt
from ci_compiler.runner.jobs.benchmark.cores import pinned
from ci_compiler.runner.jobs.benchmark.lines import MOST_BYTES, Output, read_output
from ci_compiler.runner.jobs.isolation import isolated_here
from ci_compiler.runner.jobs.probing import crash, package_environment
from ci_compiler.runner.jobs.subject import SmokeSubject

DEVICES = CPU, GPU = "cpu", "gpu"
"""The devices."""

START = "import sys; sys.path.insert(0, sys.argv[1]); from smoke_probe.benchmark import main; del sys.path[0]; main()"
"""What the interpreter runs: the script, whose folder is on the import path only while it is imported itself."""


class DeclaredProgram(Protocol):
    """A program that the spec declares: a Python file of the repository, or a command line of the package."""

    @property
    def python(self) -> str:
        """The path of the file, which the built interpreter runs; '' for none."""

    @property
    def run(self) -> str:
        """A program by its path below the package's root, with arguments; '' for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A build to measure. `size` is in bytes (0: unknown)."""

    name: str
    subject: SmokeSubject
    size: int = 0
    found: tuple[CudaAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the processes of all arms have in common: the cores, the declared program, and the seconds of a measurement.

    The first warm-up of a process takes `awake` seconds longer. `log` gets what the processes write to standard error.
    """

    cores: tuple[int, ...]
    seconds: float
    awake: float
    log: Path
    declared: DeclaredProgram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRun:
    """One process: what it printed, and why it failed ('': it did not)."""

    output: Output
    failed: str = ""


def run_process(arm: Arm, device: str, bench: Bench, limit: float, *, measures: bool = True) -> ProcessRun:
    """Measures `arm` on `device` in a fresh process, or with `measures` off only imports it."""
    subject = arm.subject
    if not measures and not subject.interpreter.program:
        return ProcessRun(output=Output(readings={}))
    with package_environment(subject, arm.found) as (env, folder), tempfile.TemporaryFile() as printed:
        program, given = _program(arm, device, bench, measures=measures)
        command = [*isolated_here().prefix, *program]
        whole = env | _variables(arm, device, bench)
        with pinned(bench.cores):
            ended = ask(command, seconds=limit, env=whole, folder=folder, stdin=given, out=printed)
        printed.seek(0)
        output = read_output(printed.read(MOST_BYTES + 1), device)
    with bench.log.open("a", encoding="utf-8") as log:
        log.write(f"# {arm.name} on the {device}\n{ended.err}")
    failed = crash(subject, ended, f"the benchmark ({arm.name}, {device})", bench.log) if ended.status else ""
    return ProcessRun(output=output, failed=failed)


def measured_by(arm: Arm, device: str) -> list[str]:
    """The names of the programs of this package that measure the package of `arm` on `device`."""
    package = arm.subject.spec.packages[arm.subject.built.variant.package]
    row: Mapping[str, Any] = checks()["packages"].get(package.attribute, {})
    return list(row.get("benchmarks", {}).get(device, ()))


def _program(arm: Arm, device: str, bench: Bench, *, measures: bool) -> tuple[list[str], str]:
    """The command of a process, and its standard input."""
    subject, declared = arm.subject, bench.declared if measures else None
    if declared and declared.run:
        program, *arguments = shlex.split(declared.run)
        return [os.fspath(subject.home / program), *arguments], ""
    script = os.fspath(Path(declared.python).absolute()) if declared else ""
    cell = subject.built.cell
    wanted = {
        "module": subject.expectation.module,
        "paths": subject.interpreter.paths,
        "programs": measured_by(arm, device) if measures and not bench.declared else [],
        "device": device,
        "capability": subject.spec.hardware.gpu(cell.target).capability if device == GPU else (),
        "seconds": bench.seconds,
        "awake": bench.awake,
        "script": script,
    }
    folder = os.fspath(Path(__file__).parents[1])
    return [subject.interpreter.program, "-I", "-B", "-c", START, folder], json.dumps(wanted)


def _variables(arm: Arm, device: str, bench: Bench) -> dict[str, str]:
    """What the environment of a process has in addition to that of a smoke test."""
    given = {"OMP_NUM_THREADS": str(len(bench.cores))}
    if bench.declared:
        given |= arm.subject.variables
        given |= {"BENCHMARK_DEVICE": device, "BENCHMARK_SECONDS": f"{bench.seconds:g}"}
    return given


def order(arms: Sequence[Arm], number: int) -> Sequence[Arm]:
    """The arms in the order of round `number`: every second round runs them in reverse."""
    return arms if number % 2 == 0 else arms[::-1]
