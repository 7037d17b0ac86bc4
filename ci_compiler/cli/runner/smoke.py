"""`ci-runner smoke NAME`: tests a built variant on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_output, add_spec, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from ci_compiler.errors import Finding
    from ci_compiler.runner.jobs.junit import TestResult
    from ci_compiler.runner.jobs.setting import Secrets
    from ci_compiler.runner.jobs.smoke import SmokeSubject


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the variant, the stage, the subject of the test, and expectations that differ from the spec."""
    from ci_compiler.stages import stages_that_test

    parser.add_argument("name", metavar="NAME", help="the variant")
    parser.add_argument(
        "--stage",
        choices=[stage.name for stage in stages_that_test()],
        default=stages_that_test()[0].name,
        help=f"the stage (default: {stages_that_test()[0].name})",
    )
    tested = parser.add_mutually_exclusive_group(required=True)
    tested.add_argument("--manifest", type=Path, metavar="FILE", help="the manifest of the build to test")
    tested.add_argument("--python", type=Path, metavar="EXE", help="instead, an interpreter that has the package")
    add_output(parser, "test-output", "the report")
    parser.add_argument("--branch", metavar="B", default="", help="the branch, if several build the variant")
    parser.add_argument("--expect-version", metavar="V", help="the version, instead of the branch's")
    parser.add_argument("--expect-cuda", metavar="V", help="the CUDA version, instead of the branch's; '' for none")
    parser.add_argument(
        "--expect-archs", metavar="LIST", help="the compiled architectures (sm_80,sm_90), instead of the variant's"
    )
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints every check; one that failed is also a finding on standard error. Returns 1 if any failed."""
    from ci_compiler.cli.console import print_findings, table
    from ci_compiler.cli.runner.stage import reported
    from ci_compiler.judgement import CheckVerdict
    from ci_compiler.runner.jobs.smoke import smoke

    def work(_: Secrets) -> int:
        with TemporaryDirectory(prefix="ci-runner-test-") as scratch:
            results = smoke(_subject(arguments, Path(scratch)), arguments.out)
        table(["check", "result", "found"], ([one.check, one.verdict.value, one.message] for one in results))
        failed = [one for one in results if one.verdict is CheckVerdict.FAILED]
        print_findings(_findings(arguments.name, failed))
        return 1 if failed else 0

    return reported(work)


def _subject(arguments: argparse.Namespace, scratch: Path) -> SmokeSubject:
    from ci_compiler.runner.jobs.smoke import of_manifest, of_python
    from ci_compiler.stages import stage_of

    spec, stage = spec_of(arguments), stage_of(arguments.stage)
    archs = arguments.expect_archs
    expected = {
        "version": arguments.expect_version,
        "cuda": arguments.expect_cuda,
        "architectures": None if archs is None else tuple(archs.replace(",", " ").split()),
    }
    given = {name: value for name, value in expected.items() if value is not None}
    if arguments.python is not None:
        return of_python(spec, arguments.name, arguments.branch, stage, arguments.python, given)
    return of_manifest(spec, arguments.name, arguments.branch, stage, arguments.manifest, given, scratch=scratch)


def _findings(name: str, failed: list[TestResult]) -> Iterator[Finding]:
    from ci_compiler.errors import Finding, Place

    for one in failed:
        yield Finding(place=Place(file=name), code=Code.TEST_FAILED, message=f"{one.check}: {one.message}")
