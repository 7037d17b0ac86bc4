"""`ci-runner checkout`: checks out what `ci-compile sync` would commit to a branch."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import branch_of, carried_of, root_of, spec_of
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.reproduce import ONTO
from ci_compiler.runner.jobs.setting import Secrets
from ci_compiler.sync.landing import check_out


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--onto",
        metavar="COMMIT[..TREE]",
        required=True,
        help="the branch's tip, and the tree that must come out (default: any)",
    )
    options.shared(parser, "branch", "root", "spec")


@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Checks out and prints the commit; returns 1 if tracked files are changed."""
    root, spec = root_of(arguments), spec_of(arguments)
    branch = branch_of(arguments, spec, root)
    git = Git(root)
    source = git.resolve("HEAD")
    print(check_out(git, plan(spec), carried_of(root, spec), branch, arguments.onto))
    append_to("GITHUB_ENV", f"{ONTO}={source} {arguments.onto}\n")
    return 0
