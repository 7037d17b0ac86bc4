"""`ci-runner build NAME`: build a variant, and tell what came of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_branch, add_spec, branch_of, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.runner.jobs.secrets import Secrets


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the variant and where its manifest and log go."""
    parser.add_argument("name", metavar="NAME", help="the variant")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("build-output"), help="for manifest and log; build-output"
    )
    add_branch(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Builds; prints the store path behind the log, or the end of the log on standard error and returns 1."""
    from ci_compiler.cli.runner.stage import reported
    from ci_compiler.runner.jobs.build import build

    def work(secrets: Secrets) -> int:
        spec, root = spec_of(arguments), root_of(arguments)
        branch = branch_of(arguments, spec, root)
        manifest = build(spec, root, arguments.name, branch, arguments.out, secrets)
        print(manifest.store_path)
        return 0

    return reported(work)
