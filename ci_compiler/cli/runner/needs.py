"""`ci-runner needs NAME`: the artifacts of this run with the files that a variant is built and tested with."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to
from ci_compiler.cli.where import branch_of, root_of, spec_of
from ci_compiler.runner.jobs.joined import members
from ci_compiler.runner.jobs.needed import artifacts, pattern
from ci_compiler.runner.targets import find


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "variant", "branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints their names, one per line, and writes a pattern that matches them to $GITHUB_OUTPUT."""
    spec = spec_of(arguments)
    built = find(spec, arguments.name, branch_of(arguments, spec, root_of(arguments)))
    names = artifacts(spec, members(spec, built))
    append_to("GITHUB_OUTPUT", f"artifacts={pattern(names)}\n")
    for name in names:
        print(name)
    return 0
