"""`ci-compile resume`: lifts a pause."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import note
from ci_compiler.cli.pauses import pause_lines, word_of
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.github.variables import read_variable, write_variable
from ci_compiler.plan.pause import ALL_WORD, PAUSE_VARIABLE


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--pool", metavar="P", help="only the pause of this pool")
    parser.add_argument("--branch", metavar="B", help="only the pause of this branch")
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Removes a word from the variable, or all of them, and prints what stays paused; 1 if there was nothing to lift.

    Runs that skipped jobs in the meantime are not started again.
    """
    spec = spec_of(arguments)
    word = word_of(arguments, spec)
    client = client_of(arguments, root_of(arguments))
    before = read_variable(client, PAUSE_VARIABLE)
    left = [] if word == ALL_WORD else [other for other in before.split() if other.lower() != word.lower()]
    found = left != before.split()
    if found:
        write_variable(client, PAUSE_VARIABLE, " ".join(left), before=before)
        note("resumed; a run that skipped jobs while they were paused must be run again")
    else:
        note(f"nothing to resume: {PAUSE_VARIABLE} does not contain {word}" if before else "nothing is paused")
    for line in pause_lines(spec, " ".join(left)):
        print(line)
    return 0 if found else 1
