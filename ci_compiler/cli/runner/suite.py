"""`ci-runner suite NAME`: runs a shard of a test suite of a built variant on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings
from ci_compiler.cli.stage import reported, reproducible, wants_again
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.runner.jobs.reproduce import suite_command
from ci_compiler.runner.jobs.setting import Secrets, StageJob
from ci_compiler.runner.jobs.subject import of_manifest
from ci_compiler.runner.jobs.suite import LOG, run_suite, shard_of, suite_of
from ci_compiler.runner.targets import package_of


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant")
    parser.add_argument("--suite", metavar="S", required=True, help="a test suite of the package")
    parser.add_argument(
        "--shard", metavar="K/N", default="1/1", help="the shard, and the number of all shards (default: %(default)s)"
    )
    parser.add_argument(
        "--manifest", metavar="FILE", type=options.path, required=True, help="the manifest of the build to test"
    )
    options.shared(parser, "report", "if-several", "again", "needs", "root", "spec")


@reproducible([LOG], lambda one: suite_command(one.name, one.suite, one.shard))
@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Prints the output of the suite; each failure is also a finding on standard error. Returns 1 if there are any."""
    spec, name, root = spec_of(arguments), arguments.name, root_of(arguments)
    shard = shard_of(arguments.shard)
    suite = suite_of(package_of(spec, name), arguments.suite)
    with TemporaryDirectory(prefix="ci-runner-suite-", ignore_cleanup_errors=True) as scratch:
        job, path = StageJob(spec, Path.cwd()), arguments.manifest
        subject = of_manifest(
            job, name, arguments.branch, suite.stage, path, {}, scratch=Path(scratch), needs=arguments.needs
        )
        outcome = run_suite(subject, suite, shard, root, arguments.out, again=wants_again(arguments))
    print(f"{name}: {suite.name} {arguments.shard}: {outcome}")
    place = Place(file=name)
    messages = (f"{suite.name}: {failure}" for failure in outcome.failures)
    print_findings(Finding(place=place, code=Code.TEST_FAILED, message=message) for message in messages)
    return 1 if outcome.failures else 0
