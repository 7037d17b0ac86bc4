"""What earlier runs completed: variants for which no machine needs to be asked again.

A run that succeeded notes the variants of which every stage left its result (`reports.summary.complete`). The note is
an artifact, and so a claim of the run. It counts if GitHub says that the run succeeded, that it is one that is
believed (`github.earlier`), and that its commit has the very tree of this run: then it ran the same workflow and
the same code. What `git` does not know of, such as the drivers of the machines, is not compared.
"""

from __future__ import annotations

from typing import NamedTuple

from ci_compiler.github.actions import file_of, run_of
from ci_compiler.github.artifacts import files, newest
from ci_compiler.github.client import Client
from ci_compiler.github.earlier import believed
from ci_compiler.outside import object_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.workflows.artifacts import COMPLETE_FILE

LARGEST = 5_000_000
"""The most bytes of a note, which has the names of the variants of a run."""


class WantedNotes(NamedTuple):
    """What a run looks for: the notes in artifacts `name`, of runs of the workflow `file` with this `trust`.

    `tree` is the git tree of the run for `branch`. `publish`: only notes of runs that published count. The notes of
    the run with the id `own` do not: who runs it again wants it to run.
    """

    name: str
    file: str
    trust: str
    branch: str
    tree: str
    publish: bool
    own: str


def completed(client: Client, plan: Plan, wanted: WantedNotes) -> dict[str, str]:
    """The variants that an earlier run completed, each with the URL of the run. Raises GitHubError."""
    found: dict[str, str] = {}
    for entry in believed(client, plan, wanted.branch, wanted.trust, wanted.name):
        run = run_of(entry)
        stated = (run["conclusion"], file_of(run), (entry.get("head_commit") or {}).get("tree_id"))
        if str(run["id"]) == wanted.own or stated != ("success", wanted.file, wanted.tree):
            continue
        archive = newest(client, run["id"], wanted.name, LARGEST)
        for content in files(archive, COMPLETE_FILE, LARGEST) if archive else ():
            found = {name: str(run["html_url"]) for name in _noted(content, wanted)} | found
    return found


def _noted(content: bytes, wanted: WantedNotes) -> list[str]:
    """The variants in a note; none of one that has another form."""
    try:
        note = object_of(content)
        names = note["variants"].get(wanted.branch, []) if note["publish"] or not wanted.publish else []
        return [name for name in names if isinstance(name, str)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
