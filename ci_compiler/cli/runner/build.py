"""`ci-runner build NAME`: build a variant, and report the result."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_branch, add_output, add_spec, branch_of, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.runner.jobs.setting import Secrets


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the variant, and the folder for manifest and log."""
    parser.add_argument("name", metavar="NAME", help="the variant")
    add_output(parser, "build-output", "manifest and log")
    add_branch(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Builds and prints the store path after the log; if it fails, prints the end of the log and returns 1."""
    from ci_compiler.cli.runner.stage import reported
    from ci_compiler.runner.jobs.build import build

    def work(secrets: Secrets) -> int:
        spec, root = spec_of(arguments), root_of(arguments)
        branch = branch_of(arguments, spec, root)
        manifest = build(spec, root, arguments.name, branch, arguments.out, secrets)
        print(manifest.store_path)
        return 0

    return reported(work)
