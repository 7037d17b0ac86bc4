"""Files in artifacts of runs, whose archives may be anything, and which runs are the repository's own.

A fork's pull request may run its own copy of a workflow, with artifacts of any name. Such a run has another event, and
is not asked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

from ci_compiler.github.actions import Json, newest_runs
from ci_compiler.github.client import Client
from ci_compiler.workflows.common import OWN_EVENTS

RUNS = 10
"""The most runs that are asked for the artifact, the newest first."""

_PACKED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""How artifacts are packed. Python unpacks other methods without a limit."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
"""What Python raises for archives that are damaged."""


def last_file(client: Client, workflow: str, branch: str, name: str, most: int) -> bytes | None:
    """The file `name`, at most `most` bytes, in the newest artifact `name` of `workflow` on `branch` that has it.

    None if there is none, or no such workflow. Raises GitHubError.
    """
    for run in _runs(client, workflow, branch):
        archive = newest(client, run["id"], name, most)
        content = next(files(archive, name, most), None) if archive else None
        if content is not None:
            return content
    return None


def newest(client: Client, run: int, name: str, most: int) -> bytes | None:
    """The newest artifact `name` of a run as an archive, at most `most` bytes; None if there is none, or no longer.

    Any job of a run can upload an artifact, so that its content is no more than a claim of the run. Makes two requests
    at most. Raises GitHubError.
    """
    path = f"actions/runs/{run}/artifacts?name={quote(name)}"
    listed = client.pages(f"list the artifacts of the run {run}", path, "artifacts", dict)
    there = (entry for entry in listed if entry["name"] == name and not entry["expired"])
    times = [(str(entry["created_at"]), int(entry["id"])) for entry in there if entry["size_in_bytes"] <= most]
    if not times:
        return None
    number = max(times)[1]
    return client.download(f"download {name} of the run {run}", f"actions/artifacts/{number}/zip", most=most)


def files(archive: bytes, name: str, most: int) -> Iterator[bytes]:
    """The files `name` in the folders of an archive, at most `most` bytes together; none that cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            for entry in packed.infolist():
                if entry.filename.rpartition("/")[2] != name or entry.compress_type not in _PACKED:
                    continue
                with packed.open(entry) as file:
                    content = file.read(most + 1)
                most -= len(content)
                if most < 0:
                    return
                yield content
    except _DAMAGE:
        return


def _runs(client: Client, workflow: str, branch: str) -> Iterator[Json]:
    """The newest runs of `workflow` on `branch` with the code of that branch; none if it was never pushed."""
    runs = newest_runs(client, f"list the runs of {workflow}", workflow, branch=branch)
    return islice((run for run in runs if run["event"] in OWN_EVENTS), RUNS)
