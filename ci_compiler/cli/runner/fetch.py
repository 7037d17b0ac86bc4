"""`ci-runner fetch MANIFEST`: fetches the closure of a build into this machine's store."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.runner.jobs.setting import Secrets


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the manifest and `--beside`."""
    parser.add_argument("manifest", type=Path, metavar="MANIFEST", help="the manifest of the build")
    parser.add_argument("--beside", metavar="NAME", default="", help="another variant of the checkout to fetch as well")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fetches and prints the store path; returns 1 if that fails."""
    from ci_compiler.cli.console import note
    from ci_compiler.cli.runner.stage import reported
    from ci_compiler.runner.jobs.fetch import fetch, fetch_beside

    def work(_: Secrets) -> int:
        spec, root = spec_of(arguments), root_of(arguments)
        manifest, fetched = fetch(spec, root, arguments.manifest)
        if arguments.beside:
            fetch_beside(spec, root, arguments.beside)
        print(manifest.store_path)
        note(f"{manifest.name}: {'fetched from the cache' if fetched else 'already in the store'}")
        return 0

    return reported(work)
