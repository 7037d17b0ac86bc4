"""`ci-runner verify NAME|PATH`: verifies what was published, for whoever uses it."""

from __future__ import annotations

import argparse
import os

from ci_compiler.cli import options
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import filter_of, root_of, spec_of
from ci_compiler.github.access import repository_of
from ci_compiler.runner.jobs.setting import Secrets
from ci_compiler.runner.jobs.verify import verify


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "target", metavar="NAME|PATH", help="the variant, whose outputs in the cache are verified, or a store path"
    )
    parser.add_argument("--branch", metavar="B", help="the branch, if several build the variant")
    parser.add_argument(
        "--commit",
        metavar="SHA",
        default="",
        help="accept only what was built from this commit (default: any commit of the branch)",
    )
    options.shared(parser, "repository", "root", "spec")


@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Prints each path that is verified, with its commit; returns 1 at the first that is not."""
    spec, root = spec_of(arguments), root_of(arguments)
    branch = filter_of(arguments, "branch", spec.branches) or ""
    repository = repository_of(os.environ, root, arguments.repository)
    for path in verify(spec, root, arguments.target, repository, branch=branch, commit=arguments.commit):
        print(
            f"{path.path}: signed, {path.tested}, attested, built from {path.commit} by a run of {path.ref}", flush=True
        )
    return 0
