"""`ci-compile site DIR`: writes the finder page, one static file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ci_compiler.cli.console import append_to
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.documents.site.page import NAME, page
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write, write_file
from ci_compiler.files.drift import FOREIGN, is_ours
from ci_compiler.units import size


def run(arguments: argparse.Namespace) -> int:
    """Writes `DIR/index.html`. Raises InputError if a foreign file is in the way or the file cannot be written."""
    repository: str = arguments.repository
    if repository and not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", repository):
        message = f"{repository!r} is not a GitHub repository such as my-org/build-pytorch"
        raise wrong("--repository", Code.WRONG_REPOSITORY, message)
    text = page(plan_of(arguments), repository)
    file: Path = arguments.folder / NAME
    if file.is_symlink() or (file.exists() and not is_ours(file)):
        raise wrong(file, Code.IN_THE_WAY, FOREIGN)
    try:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        write_file(file, text)
    except OSError as error:
        raise cannot_write(file, error) from error
    print(f"wrote {file} ({size(len(text.encode()))})")
    if arguments.pages:
        _report_pages(arguments)
    return 0


def _report_pages(arguments: argparse.Namespace) -> None:
    """Writes whether GitHub Pages is on to $GITHUB_OUTPUT, for the steps that follow. Raises GitHubError."""
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.workflows import pages_on

    on = pages_on(client_of(arguments, root_of(arguments)))
    if not on:
        print("::notice::GitHub Pages is off, so that the page is not published; Settings, Pages turns it on")
    append_to("GITHUB_OUTPUT", f"pages={'on' if on else 'off'}\n")
