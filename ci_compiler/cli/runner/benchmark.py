"""`ci-runner benchmark NAME`: measures a built variant on this machine, beside a second build."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, note, print_findings, print_json, table
from ci_compiler.cli.progress import progress
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, wrong
from ci_compiler.runner.jobs.benchmark.report import HEADERS, as_json, remarks, rows, slower
from ci_compiler.runner.jobs.benchmark.results import DEVICES
from ci_compiler.runner.jobs.benchmark.run import Settings, benchmark, write
from ci_compiler.runner.jobs.manifest import expect, read_manifest
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.jobs.subject import SmokeSubject, of_manifest, of_python
from ci_compiler.runner.targets import package_of
from ci_compiler.spec.model import Spec
from ci_compiler.spec.suites import FEWEST_RUNS
from ci_compiler.stages import BENCHMARK


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--manifest", metavar="FILE", type=options.path, help="the manifest of the build to measure")
    group.add_argument(
        "--python", metavar="EXE", type=options.path, help="instead, an interpreter that has the package"
    )
    parser.add_argument(
        "--beside",
        metavar="NAME",
        default="",
        help="the variant of the second build (default: the one in its manifest, or the same one)",
    )
    second = parser.add_mutually_exclusive_group()
    second.add_argument(
        "--beside-manifest",
        metavar="FILE",
        type=options.path,
        help="the manifest of the second build; without the file, the first is measured alone",
    )
    second.add_argument(
        "--beside-python", metavar="EXE", type=options.path, help="instead, an interpreter that has the second build"
    )
    parser.add_argument(
        "--device",
        choices=DEVICES,
        help="measure only there (default: the CPU, and the GPU where the variant has one)",
    )
    parser.add_argument("--runs", metavar="N", type=int, help="the number of rounds (default: the spec's)")
    parser.add_argument(
        "--floor",
        metavar="PERCENT",
        type=float,
        help="exit 1 if the build is slower than its last publication by more than this (default: the spec's)",
    )
    options.shared(parser, "report", "if-several", "needs", "json", "root", "spec")


@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Prints what was measured. Returns 1 if the build is slower than the last publication by more than the floor."""
    spec, start = spec_of(arguments), time.monotonic()
    settings = _settings(spec, arguments)
    floor = spec.benchmark.floor if arguments.floor is None else arguments.floor
    with TemporaryDirectory(prefix="ci-runner-benchmark-", ignore_cleanup_errors=True) as scratch:
        own = _own(spec, arguments, Path(scratch, "own"))
        other, remark = _beside(spec, arguments, Path(scratch, "beside"))
        with progress(f"measuring {arguments.name}"):
            report = benchmark(own, other, settings, arguments.out, remark=remark)
    failures = [] if floor is None else list(slower(report, floor))
    digest = write(report, arguments.out, time.monotonic() - start, failures)
    append_to("GITHUB_OUTPUT", f"result={digest}\n")
    if arguments.json:
        print_json(as_json(report))
    else:
        table(HEADERS, rows(report))
        print(report)
    for one in remarks(report):
        note(f"{arguments.name}: {one}")
    place = Place(file=arguments.name)
    print_findings(Finding(place=place, code=Code.SLOWER_THAN_PUBLISHED, message=failure) for failure in failures)
    return 1 if failures else 0


def _settings(spec: Spec, arguments: argparse.Namespace) -> Settings:
    """How to measure, as the options say, else the spec."""
    runs = spec.benchmark.runs if arguments.runs is None else arguments.runs
    if runs < FEWEST_RUNS:
        message = f"{runs} is too few: the error of a gain needs at least {FEWEST_RUNS} rounds"
        raise wrong("--runs", Code.WRONG_OPTION, message)
    if arguments.floor is not None and not 0 <= arguments.floor <= 100:
        raise wrong("--floor", Code.WRONG_OPTION, f"{arguments.floor:g} is not a number of percent from 0 to 100")
    declared = package_of(spec, arguments.name).benchmark
    return Settings(runs=runs, devices=(arguments.device,) if arguments.device else DEVICES, declared=declared)


def _own(spec: Spec, arguments: argparse.Namespace, scratch: Path) -> SmokeSubject:
    name, branch = arguments.name, arguments.branch
    if arguments.python is not None:
        return of_python(spec, name, branch, BENCHMARK, arguments.python, {})
    return _of_manifest(spec, arguments.manifest, branch, scratch, name, arguments.needs)


def _beside(spec: Spec, arguments: argparse.Namespace, scratch: Path) -> tuple[SmokeSubject | None, str]:
    """The second build; if there is none, why."""
    path, name = arguments.beside_manifest, arguments.beside
    if arguments.beside_python is not None:
        chosen = name or arguments.name
        return of_python(spec, chosen, arguments.branch, BENCHMARK, arguments.beside_python, {}), ""
    if path is None:
        return None, "it was measured alone: no second build was named"
    if not path.exists():
        return None, "it was measured alone: there is no second build"
    return _of_manifest(spec, path, "", scratch, name, arguments.needs), ""


def _of_manifest(spec: Spec, path: Path, branch: str, scratch: Path, name: str, needs: Sequence[Path]) -> SmokeSubject:
    """The build in the manifest at `path`, which must be of the variant `name` ('': of any)."""
    manifest = read_manifest(path)
    if name:
        expect(manifest, path, name=name)
    scratch.mkdir()
    job = StageJob(spec, Path.cwd())
    return of_manifest(job, manifest.name, branch, BENCHMARK, path, {}, scratch=scratch, needs=needs)
