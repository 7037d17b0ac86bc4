"""`ci-runner fetch MANIFEST`: fetches the closure of a build into this machine's store."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import note
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import object_of, reading
from ci_compiler.runner.jobs.second_build import fetch, fetch_second
from ci_compiler.runner.jobs.setting import Secrets, StageJob


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("manifest", metavar="MANIFEST", type=options.path, help="the manifest of the build")
    options.shared(parser, "digest")
    parser.add_argument("--beside", metavar="NAME", default="", help="another variant of the checkout to fetch as well")
    parser.add_argument(
        "--beside-manifest",
        metavar="FILE",
        type=options.path,
        help="the manifest of that build, which is written; the last publication takes the place "
        "of a build that is not available, and without either there is no file",
    )
    options.shared(parser, "root", "spec")


@reported
def run(arguments: argparse.Namespace, _: Secrets) -> int:
    """Fetches and prints the store path; returns 1 if that fails."""
    job = StageJob(spec_of(arguments), root_of(arguments))
    if arguments.beside and not arguments.beside_manifest:
        raise wrong("--beside", Code.WRONG_OPTION, "needs --beside-manifest, the file for the manifest of that build")
    manifest, fetched = fetch(job, arguments.manifest, _digest(arguments.digest, arguments.manifest.parent.name))
    if arguments.beside_manifest:
        second, reasons = fetch_second(job, manifest, arguments.beside, arguments.beside_manifest)
        note(f"second build: {second.name} at {second.commit[:12]}" if second else "second build: none")
        for reason in reasons:
            note(f"  {reason}")
    print(manifest.store_path)
    note(f"{manifest.name}: {'fetched from the cache' if fetched else 'already in the store'}")
    return 0


def _digest(text: str | None, name: str) -> str | None:
    """The digest in `text`, or that of the variant `name` in what a build of several variants reported.

    Raises InputError for a mapping that is not one of digests.
    """
    if not text or not text.startswith("{"):
        return text
    with reading("--digest", Code.WRONG_OPTION):
        return str(object_of(text.encode()).get(name, ""))
