"""Reads act's log: which jobs ran and how they ended, their steps, and what they wrote into the run's summary.

The log identifies a job by its path of callers. Of a cell's job only its own name is kept (`engine / build`), which is
the same in another cell, without what it says about its proof; of a job that all shards call, its caller's. The journal
of the machines shows which variant a job was for; a preflight and publishing are for none (`-`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSED = {f"passed (imported only{reach})" for reach in ("", ", on a larger CPU")}
"""How a test that only imports is shown where it passed. The reach depends on the CPU that runs the tests here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that ended: its job's path, its name, its result."""

    job: str
    name: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The content of a log, in its order. `jobs` are the jobs that ended, by path, with their result.

    `started` are the paths of all jobs that a machine took; a job that a condition skipped is not among them.
    """

    started: tuple[str, ...]
    jobs: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    summary: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the machines' journal: a `ci-runner` command of a job begins, or ends with a status.

    `secret`: whether the command received one of the publishing secrets.
    """

    job: str
    variant: str
    command: str
    what: str
    secret: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: act's exit status, its log, the journal of the machines, the folder of the artifacts."""

    status: int
    log: Log
    journal: tuple[Entry, ...]
    artifacts: Path

    def ended(self, result: str) -> list[str]:
        """The paths of the jobs with this result, sorted."""
        return sorted(path for path, found in self.log.jobs if found == result)

    def did(self, variant: str) -> list[str]:
        """What the machines did for a variant, in order: `build`, or `build: 1` if it failed with that status."""
        ends = (entry for entry in self.journal if entry.variant == variant and entry.what != "begin")
        return [f"{end.job} {end.command}" + (f": {end.what}" if end.what != "0" else "") for end in ends]

    def before(self, first: tuple[str, str], second: tuple[str, str]) -> bool:
        """Whether the first (job, variant) ended before the second began; both must have run."""
        at = [
            [index for index, entry in enumerate(self.journal) if (entry.job, entry.variant) == job]
            for job in (first, second)
        ]
        return max(at[0]) < min(at[1])

    @property
    def artifact_names(self) -> set[str]:
        """The names of the run's artifacts."""
        return {path.name for path in self.artifacts.iterdir()} if self.artifacts.is_dir() else set()

    def folder(self, artifact: str) -> Path:
        """The folder of an artifact; its branch (`@main`) may be left out where the run has only one."""
        (found,) = {one for one in self.artifact_names if artifact in {one, one.partition("@")[0]}}
        return self.artifacts / found

    def files(self, artifact: str) -> set[str]:
        """The files of an artifact."""
        folder = self.folder(artifact)
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    def json(self, artifact: str, file: str) -> Any:
        """A JSON file of an artifact."""
        return json.loads((self.folder(artifact) / file).read_text("utf-8"))

    def row(self, variant: str) -> list[str]:
        """The cells of a variant's row in the table at the end of the run."""
        (found,) = (line for line in self.log.summary.splitlines() if line.startswith(f"| `{variant}` |"))
        return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in found.strip("|").split(" | ")][1:]


def read_log(text: str) -> Log:
    """Parses act's log in JSON."""
    lines = list(_lines(text))
    ends = [line for line in lines if line.get("stage") == "Main" and "stepResult" in line and _is_outer(line)]
    return Log(
        started=tuple(_path(line) for line in lines if _begins_job(line)),
        jobs=tuple((_path(line), line["jobResult"]) for line in lines if "jobResult" in line),
        steps=tuple(Step(job=_path(line), name=line["step"], result=line["stepResult"]) for line in ends),
        summary="".join(line["content"] for line in lines if line.get("command") == "summary"),
        said="".join(line["msg"] for line in lines if line.get("raw_output")),
    )


def read_journal(text: str) -> tuple[Entry, ...]:
    """The entries of a journal."""
    return tuple(map(_entry, text.splitlines()))


def _entry(line: str) -> Entry:
    job, variant, command, what, *secret = line.split()
    return Entry(job=job, variant=variant, command=command, what=what, secret=bool(secret))


def _lines(text: str) -> Iterable[Mapping[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{") and "job" in (row := json.loads(line)):
            yield row


def _path(line: Mapping[str, Any]) -> str:
    path = str(line["job"]).strip().removesuffix(" (imported only)").rpartition("/cell/")[2]
    return re.sub(r"/shard \w+/\w+$", "", path)


def _begins_job(line: Mapping[str, Any]) -> bool:
    return line.get("step") == "Set up job" and "stepResult" not in line


def _is_outer(line: Mapping[str, Any]) -> bool:
    """Whether the step belongs to the job itself instead of a composite action."""
    return len(line["stepID"]) == 1
