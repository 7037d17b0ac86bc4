"""`ci-compile pause`: stops new jobs on self-hosted machines at once, by a repository variable."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.pauses import pause_lines, word_of
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.github.variables import read_variable, write_variable
from ci_compiler.plan.pause import PAUSE_VARIABLE


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--pool", metavar="P", help="only on this pool")
    options.shared(parser, "only-branch", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Adds a word to the variable, and prints everything that is paused."""
    spec = spec_of(arguments)
    word = word_of(arguments, spec)
    client = client_of(arguments, root_of(arguments))
    before = read_variable(client, PAUSE_VARIABLE)
    words = list(dict.fromkeys([*before.split(), word]))
    if words != before.split():
        write_variable(client, PAUSE_VARIABLE, " ".join(words), before=before)
    for line in pause_lines(spec, " ".join(words)):
        print(line)
    return 0
