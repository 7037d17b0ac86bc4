"""Files in artifacts of runs that are trusted: those of one workflow, started on the default branch by its own events.

A fork's pull request may run its own copy of a workflow, with artifacts of any name. Such a run has another event, and
is not asked.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ci_compiler.github.client import Client

RUNS = 10
"""The most runs that are asked for the artifact, the newest first."""

_OWN_EVENTS = frozenset({"push", "schedule", "workflow_dispatch"})


def last_file(client: Client, workflow: str, branch: str, name: str, most: int) -> bytes | None:
    """The file `name`, at most `most` bytes, in the newest artifact `name` of `workflow` on `branch`; None for none.

    A damaged archive has none either. Raises GitHubError.
    """
    for run in _runs(client, workflow, branch):
        artifacts = f"/repos/{client.access.repository}/actions/runs/{run['id']}/artifacts?name={name}"
        for one in client.pages(f"list the artifacts of the run {run['id']}", artifacts, "artifacts", dict):
            if not one["expired"] and one["size_in_bytes"] <= most:
                path = f"/repos/{client.access.repository}/actions/artifacts/{one['id']}/zip"
                return _unpacked(client.download(f"download the artifact {name}", path, most=most), name, most)
    return None


def _runs(client: Client, workflow: str, branch: str) -> Iterator[Mapping[str, Any]]:
    query = f"branch={quote(branch, safe='')}&per_page={RUNS}"
    path = f"/repos/{client.access.repository}/actions/workflows/{workflow}/runs?{query}"
    runs = client.request(f"list the runs of {workflow}", "GET", path, read=lambda found: list(found["workflow_runs"]))
    for run in runs[:RUNS]:
        if run["event"] in _OWN_EVENTS:
            yield run


def _unpacked(archive: bytes, name: str, most: int) -> bytes | None:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found, found.open(name) as file:
            data = file.read(most + 1)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        return None
    return data if len(data) <= most else None
