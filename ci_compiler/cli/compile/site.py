"""`ci-compile site DIR`: writes the finder page, one static file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.console import append_to, note
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.documents.site.page import NAME, page
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write, write_file
from ci_compiler.files.drift import FOREIGN, is_ours
from ci_compiler.units import size

if TYPE_CHECKING:
    from ci_compiler.github.benchmarks import LastBenchmark
    from ci_compiler.github.status import LastBuild
    from ci_compiler.plan.pipeline import Plan


def run(arguments: argparse.Namespace) -> int:
    """Writes `DIR/index.html`. Raises InputError if a foreign file is in the way or the file cannot be written."""
    repository: str = arguments.repository
    if repository and not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", repository):
        message = f"{repository!r} is not a GitHub repository such as my-org/build-pytorch"
        raise wrong("--repository", Code.WRONG_REPOSITORY, message)
    file: Path = arguments.folder / NAME
    if file.is_symlink() or (file.exists() and not is_ours(file)):
        raise wrong(file, Code.IN_THE_WAY, FOREIGN)
    decided, on = plan_of(arguments), _report_pages(arguments) if arguments.pages else True
    lasts, measured = _known(arguments, decided) if arguments.status and on else ([], [])
    text = page(decided, repository, lasts, measured)
    try:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        write_file(file, text)
    except OSError as error:
        raise cannot_write(file, error) from error
    print(f"wrote {file} ({size(len(text.encode()))})")
    return 0


def _known(arguments: argparse.Namespace, decided: Plan) -> tuple[list[LastBuild], list[LastBenchmark]]:
    """The last results of all variants, and those of their benchmarks.

    None if GitHub does not say them, since the page is of use without them.
    """
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.benchmarks import benchmarks
    from ci_compiler.github.errors import GitHubError
    from ci_compiler.github.status import status

    lasts: list[LastBuild] = []
    measured: list[LastBenchmark] = []
    try:
        client = client_of(arguments, root_of(arguments))
        lasts = [last for shard in status(client, decided) for last in shard]
        measured = [one for shard in benchmarks(client, decided) for one in shard]
    except GitHubError as error:
        what = "benchmarks" if lasts else "last runs"
        note(f"warning: {error.findings[0]}; the page does not show the {what}")
    return lasts, measured


def _report_pages(arguments: argparse.Namespace) -> bool:
    """Whether GitHub Pages is on, which is also written to $GITHUB_OUTPUT. Raises GitHubError."""
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.workflows import pages_on

    on = pages_on(client_of(arguments, root_of(arguments)))
    if not on:
        print("::notice::GitHub Pages is off, so that the page is not published; Settings, Pages turns it on")
    append_to("GITHUB_OUTPUT", f"pages={'on' if on else 'off'}\n")
    return on
