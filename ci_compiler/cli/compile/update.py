"""`ci-compile update`: finds newer releases, and edits the spec."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from ci_compiler.cli.console import note, print_findings, print_markdown, table
from ci_compiler.cli.where import SPEC, check_branches, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write, write_file
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.diff import diff
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.spec.model import Spec
from ci_compiler.update.choice import Asked, Move
from ci_compiler.update.remote import Remote
from ci_compiler.update.updating import Updated, updated


def run(arguments: argparse.Namespace) -> int:
    """Edits the spec, and prints what changes. Raises InputError, and writes nothing then."""
    root, spec = root_of(arguments), spec_of(arguments)
    file: Path = getattr(arguments, "spec", None) or root / SPEC
    if not file.exists():
        raise wrong(SPEC, Code.SPEC_MISSING, "no such file; `ci-compile init` writes a first one")
    text = file.read_bytes().decode("utf-8")
    with Remote(os.environ) as remote:
        done = updated(text, spec, _asked(arguments, spec), remote, new_branch=arguments.new_branch)
    print_findings(done.findings)
    if not done.moves:
        print("every branch has the newest release of its line")
        return 0
    meaning = _judged(spec, done)
    table(["branch", "package", "before", "after"], _rows(done.moves))
    print_markdown(f"\n{meaning}\n")
    if arguments.dry_run:
        return 0
    _write(file, done.text)
    note(f"{spec.document.file} is edited; `ci-compile` and `ci-compile recipes` write what it compiles to")
    return 0


def _asked(arguments: argparse.Namespace, spec: Spec) -> Asked:
    """What the options ask for. Raises InputError for options that contradict each other."""
    check_branches(spec, branch=arguments.branch)
    if arguments.new_branch and len(arguments.branch) != 1:
        raise wrong("--new-branch", Code.WRONG_OPTION, "name the one branch to copy with --branch")
    return Asked(tuple(arguments.packages), arguments.to.removeprefix("v"), tuple(arguments.branch))


def _rows(moves: Iterable[Move]) -> list[tuple[str, str, str, str]]:
    return [(one.branch, one.package, one.before, one.release.version) for one in moves]


def _judged(spec: Spec, done: Updated) -> str:
    """What the change means, as Markdown. Raises InputError if the edited spec does not compile."""
    return markdown(diff(plan(spec), plan(done.spec)))


def _write(file: Path, text: str) -> None:
    try:
        write_file(file, text)
    except OSError as error:
        raise cannot_write(file, error) from error
