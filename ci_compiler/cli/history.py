"""The history of a repository so far: in the folder of the site, or in the artifact of the last `pages.yml`."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.cli.console import note
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.drift import FOREIGN
from ci_compiler.github.artifacts import last_file
from ci_compiler.github.client import Client
from ci_compiler.outside import bytes_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Records
from ci_compiler.reports.history_file import LARGEST, NAME, begins_as_history, parsed
from ci_compiler.spec.carried import default_branch
from ci_compiler.workflows.common import PAGES


def last_history(client: Client, plan: Plan, folder: Path) -> Records:
    """The history so far; an empty one if there is none, or none that is valid and of this repository.

    Raises GitHubError, and InputError if the folder has a file of that name that is no history.
    """
    repository = client.access.repository
    empty = Records(repository=repository)
    file = folder / NAME
    here = file.exists() or file.is_symlink()
    try:
        last = None if here else last_file(client, PAGES, default_branch(plan.spec), NAME, LARGEST)
        data = bytes_of(file, LARGEST) if here else last
    except OSError:
        raise wrong(file, Code.IN_THE_WAY, FOREIGN) from None
    if data is None:
        return empty
    try:
        records = parsed(data)
    except ValueError as error:
        if here and not begins_as_history(data):
            raise wrong(file, Code.IN_THE_WAY, FOREIGN) from None
        whence = str(file) if here else f"the history of the last {PAGES}"
        note(f"warning: {whence} {error}; the history starts again from nothing")
        return empty
    if records.repository != repository:
        note(f"warning: the history is that of {records.repository!r}; the history starts again from nothing")
        return empty
    return records
