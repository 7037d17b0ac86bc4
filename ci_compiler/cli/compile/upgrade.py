"""`ci-compile upgrade`: what this version compiles differently from the one that compiled the tree."""

from __future__ import annotations

import argparse

from ci_compiler import __version__
from ci_compiler.cli import options
from ci_compiler.cli.compiling import compile_or_check
from ci_compiler.cli.console import note
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.files.compiled_by import compiled_by, is_older
from ci_compiler.plan.document import renamed

CHANGES = "https://github.com/flox-cuda/ci-compiler/blob/main/.github/docs/changelog.md"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--write", action="store_true", help="write the files")
    options.shared(parser, "branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the differences and writes nothing; returns 1 if there are any. With `--write`, compiles.

    Raises InputError if the spec makes hosted jobs install an older version.
    """
    spec, before = spec_of(arguments, compiles=True), compiled_by(root_of(arguments))
    name, _, pinned = spec.toolkit.partition("==")
    if pinned and is_older(pinned, __version__):
        message = f"hosted jobs would install {spec.toolkit}, which is older; write {name}=={__version__}"
        raise InputError([spec.finding(("toolkit",), Code.OLDER_TOOLKIT, message)])
    arguments.check = arguments.diff = not arguments.write
    code = compile_or_check(arguments, ["ci-compile", "upgrade", "--write"])
    since, changes = renamed()
    if before and is_older(before, since):
        note(changes)
    if before and before != __version__:
        note(f"compiled by {before}, this is {__version__}: {CHANGES} lists what is new")
    if arguments.write:
        note("commit the files, run `ci-compile sync`, and update ci-runner on the machines before the next run")
    return code
