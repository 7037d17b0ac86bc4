"""`ci-runner checkout`: checks out what `ci-compile sync` would commit to a branch."""

from __future__ import annotations

import argparse
import re

from ci_compiler.cli.console import append_to
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import branch_of, carried_of, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.reproduce import ONTO
from ci_compiler.runner.jobs.setting import Secrets
from ci_compiler.sync.fork_code import check_out_fork
from ci_compiler.sync.landing import check_out

_HASH = re.compile("[0-9a-f]{40}")


@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Checks out and prints the commit; returns 1 if tracked files are changed."""
    root, spec = root_of(arguments), spec_of(arguments)
    branch = branch_of(arguments, spec, root)
    git, fork = Git(root), whole_hash(arguments.fork)
    source = git.resolve("HEAD")
    if fork:
        print(check_out_fork(git, spec, branch, arguments.onto, fork))
    else:
        print(check_out(git, plan(spec), carried_of(root, spec), branch, arguments.onto))
    append_to("GITHUB_ENV", f"{ONTO}={source} {arguments.onto} {fork}".rstrip() + "\n")
    return 0


def whole_hash(text: str) -> str:
    """`text` if it is the whole hash of a commit, or ''. Raises InputError for anything else."""
    if text and not _HASH.fullmatch(text):
        raise wrong("--fork", Code.WRONG_OPTION, f"{text!r} is not the whole hash of a commit (40 digits)")
    return text
