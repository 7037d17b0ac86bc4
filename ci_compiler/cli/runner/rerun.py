"""`ci-runner rerun`: runs jobs again that lost their runner."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.units import markdown_text


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--dry-run", action="store_true", help="only show them")
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each run that it starts again, in the summary of its own run too. Raises GitHubError."""
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.lost import lost_runs, rerun

    decided, client = plan_of(arguments), client_of(arguments, root_of(arguments))
    for lost in lost_runs(client, decided):
        if not arguments.dry_run:
            rerun(client, lost)
        line = f"{'would run' if arguments.dry_run else 'runs'} again: {lost}"
        print(line)
        append_to("GITHUB_STEP_SUMMARY", f"{markdown_text(line)}\n\n")
    return 0
