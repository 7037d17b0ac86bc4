"""`ci-runner withdraw PACKAGE VERSION`: takes back a version where ready publishers published it."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import filter_of, root_of, spec_of
from ci_compiler.runner.jobs.publishers import withdraw
from ci_compiler.runner.jobs.setting import Secrets


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("package", metavar="PACKAGE", help="the package")
    parser.add_argument(
        "version", metavar="VERSION", help="the version, with its local part if only that variant is wrong"
    )
    parser.add_argument("--because", metavar="TEXT", required=True, help="what is wrong with it, for users")
    options.shared(parser, "root", "spec")


@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Prints each variant that is withdrawn. Raises InputError if the package has no such version there."""
    spec, root = spec_of(arguments), root_of(arguments)
    filter_of(arguments, "package", spec.packages, option="PACKAGE")
    for line in withdraw(spec, root, secrets, arguments.package, arguments.version, arguments.because):
        print(line)
    return 0
