"""`ci-runner smoke NAME`: tests a built variant on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, print_findings, print_rows
from ci_compiler.cli.progress import progress
from ci_compiler.cli.stage import reported, reproducible, wants_again
from ci_compiler.cli.where import spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.judgement import CheckVerdict
from ci_compiler.runner.jobs.reproduce import smoke_command
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.jobs.smoke import LOG, WAY_LOG, smoke
from ci_compiler.runner.jobs.subject import SmokeSubject, of_manifest, of_python
from ci_compiler.stages import stage_of, stages_that_test


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant")
    parser.add_argument(
        "--stage",
        choices=[one.name for one in stages_that_test() if one.proves],
        default=next(one.name for one in stages_that_test() if one.proves),
        help="the stage (default: %(default)s)",
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--manifest", metavar="FILE", type=options.path, help="the manifest of the build to test")
    group.add_argument(
        "--python", metavar="EXE", type=options.path, help="instead, an interpreter that has the package"
    )
    options.shared(parser, "report", "if-several")
    parser.add_argument("--expect-version", metavar="V", help="the version, instead of the branch's")
    parser.add_argument(
        "--expect-cuda",
        dest="expect_toolkit",
        metavar="V",
        help="the CUDA version, instead of the branch's; '' for none",
    )
    parser.add_argument(
        "--expect-archs", metavar="LIST", help="the compiled architectures (sm_80,sm_90), instead of the variant's"
    )
    options.shared(parser, "again", "needs", "json", "root", "spec")


@reproducible([LOG, WAY_LOG.format(way="*")], lambda one: smoke_command(one.name, one.stage))
@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Prints every check; one that failed is also a finding on standard error. Returns 1 if any failed."""
    with TemporaryDirectory(prefix="ci-runner-test-", ignore_cleanup_errors=True) as scratch:
        subject = _subject(arguments, Path(scratch))
        with progress(f"testing {arguments.name}"):
            results, digest = smoke(subject, arguments.out, again=wants_again(arguments))
    append_to("GITHUB_OUTPUT", f"result={digest}\n")
    rows = [{"check": result.check, "result": result.verdict.value, "found": result.message} for result in results]
    columns = ("check", "result", "found")
    print_rows(rows, dict(zip(columns, columns, strict=True)), as_json=arguments.json, states=["result"])
    failed = [result for result in results if result.verdict is CheckVerdict.FAILED]
    place = Place(file=arguments.name)
    print_findings(
        Finding(place=place, code=Code.TEST_FAILED, message=f"{result.check}: {result.message}") for result in failed
    )
    return 1 if failed else 0


def _subject(arguments: argparse.Namespace, scratch: Path) -> SmokeSubject:
    spec, stage = spec_of(arguments), stage_of(arguments.stage)
    archs = arguments.expect_archs
    expected = {
        "version": arguments.expect_version,
        "toolkit": arguments.expect_toolkit,
        "architectures": None if archs is None else tuple(archs.replace(",", " ").split()),
    }
    given = {name: value for name, value in expected.items() if value is not None}
    if arguments.python is not None:
        return of_python(spec, arguments.name, arguments.branch, stage, arguments.python, given)
    job = StageJob(spec, Path.cwd())
    return of_manifest(
        job, arguments.name, arguments.branch, stage, arguments.manifest, given, scratch=scratch, needs=arguments.needs
    )
