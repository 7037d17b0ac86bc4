"""`ci-compile affected`: the variants that a change rebuilds."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import print_json
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import branch_of, root_of, spec_of
from ci_compiler.git import Git
from ci_compiler.recipes.affected import affected


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--base", metavar="REV", required=True, help="the commit before the change")
    parser.add_argument(
        "--head", metavar="REV", default="HEAD", help="the commit with the change (default: %(default)s)"
    )
    options.shared(parser, "quiet", "json", "own-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the names, one per line."""
    root, spec = root_of(arguments), spec_of(arguments)
    branch = branch_of(arguments, spec, root, source=True)
    git = Git(root)
    head = git.resolve(arguments.head)
    base = git.merge_base(git.resolve(arguments.base), head)
    with progress("comparing recipes"):
        found = affected(git, base=base, head=head, spec=spec, branch=branch)
    if arguments.json:
        print_json([{"name": one.name, "branch": branch, "because": one.because} for one in found])
    else:
        for one in found:
            print(one.name)
    return 0
