"""`ci-compile overlay DIR`: writes the builds of the fleet as an overlay, a flake and a NixOS module."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ci_compiler.backends.checkout import REMOTE
from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings
from ci_compiler.cli.drift import write_or_check
from ci_compiler.cli.where import plan_of, records_of, root_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.documents.overlay.written import Fetched, cache_of, fetched_branches, overlay, territory
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write
from ci_compiler.plan.pipeline import Plan
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("folder", metavar="DIR", type=options.path, help="the folder that the files are written to")
    parser.add_argument(
        "--repository",
        metavar="OWNER/NAME",
        default="",
        help="the repository on GitHub from which branches are fetched that cannot be "
        "copied (default: GITHUB_REPOSITORY, or else this checkout's remote)",
    )
    options.shared(parser, "results", "check", "diff", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the folder; with `--check` returns 1 on drift."""
    decided, root = plan_of(arguments), root_of(arguments)
    spec = decided.spec
    if not spec.backend.has_recipes:
        raise wrong(
            "backend", Code.WRONG_VALUE, f"the backend {spec.backend} builds no recipes, and so no Nix packages"
        )
    folder = arguments.folder.resolve()
    if folder.is_file():
        raise cannot_write(arguments.folder, NotADirectoryError())
    if not folder.name:
        raise wrong("DIR", Code.WRONG_VALUE, f"{folder} cannot be replaced in one step; name a folder below it")
    branches = fetched_branches(decided)
    fetched = _fetched(arguments, root, decided, branches) if branches else {}
    made = overlay(decided, templates_of(root, spec), fetched, records_of(arguments))
    _warn(spec)
    files = {f"{folder.name}/{path}": text for path, text in made.items()}
    count = counted(made["fleet.nix"].count("name = "), "variant")
    command = ["ci-compile", "overlay", str(arguments.folder)]
    places = [territory(folder.name)]

    def done(counts: str) -> None:
        print(f"{count} from {spec.document.file} in {arguments.folder}: {counts}; see README.md there")

    return write_or_check(arguments, command, folder.parent, files, places, done)


def _warn(spec: Spec) -> None:
    """Warns if no binary cache serves what is published."""
    if cache_of(spec) is None:
        message = "no binary cache serves what is published, so that whoever uses the overlay builds for hours; "
        remedy = "publish with `backend: nix` into a `cache`"
        print_findings([spec.finding(("backend",), Code.NO_CACHE, message + remedy)])


def _fetched(arguments: argparse.Namespace, root: Path, decided: Plan, branches: tuple[str, ...]) -> dict[str, Fetched]:
    """Where the recipes of `branches` are on GitHub: the commits that were fetched last. Raises InputError."""
    from ci_compiler.git import Git  # recipes that are compiled need no repository
    from ci_compiler.github.access import address_of
    from ci_compiler.sync.branches import found_heads

    heads = found_heads(decided.spec, branches, Git(root).heads(f"remotes/{REMOTE}"))
    url = address_of(os.environ, root, arguments.repository)
    return {branch: Fetched(url=url, commit=commit) for branch, commit in heads.items()}
