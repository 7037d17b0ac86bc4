"""`ci-compile`: compiles into the repository; with `--check`, reports files that are not as compiled."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "check", "diff", "own-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Compiles; with `--check` returns 1 on drift. Raises InputError if a newer version compiled the tree."""
    from ci_compiler.cli.compiling import compile_or_check  # the help of the program does without it

    return compile_or_check(arguments, ["ci-compile"])
