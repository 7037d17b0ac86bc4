"""`ci-compile hash`: fills in the hash of every nixpkgs commit of the spec."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import editable_spec, spec_of
from ci_compiler.files.atomic import write_text
from ci_compiler.outside import text_of
from ci_compiler.recipes.nixpkgs_hash import fetched_hash, with_hashes


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Edits the spec, and prints what changed. Raises InputError."""
    spec = spec_of(arguments)
    file = editable_spec(arguments, spec)
    with progress("fetching nixpkgs"):
        text, changes = with_hashes(text_of(file), spec, fetched_hash)
    if changes:
        write_text(file, text)
    print(*(changes or ["every nixpkgs commit has its hash"]), sep="\n")
    return 0
