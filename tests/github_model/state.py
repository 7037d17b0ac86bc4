"""The state of a GitHub repository in which compiled workflows run: small values that can be compared and hashed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SUCCESS, FAILURE, CANCELLED, SKIPPED = "success", "failure", "cancelled", "skipped"

ALL, FAILED, ONE = "all", "failed", "one"
"""The kinds of re-runs."""


class Frozen(dict[Any, Any]):
    """A mapping that is not changed after it was made."""

    __slots__ = ("_hash",)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash(frozenset(self.items()))
            return self._hash


class Event(NamedTuple):
    """What started a run: the event, its ref and commit, its inputs and payload as JSON, and who needs its outcome."""

    name: str
    ref: str
    sha: str
    inputs: str = "{}"
    payload: str = "{}"

    @property
    def branch(self) -> str:
        """The branch of the ref."""
        return self.ref.removeprefix("refs/heads/")


class JobState(NamedTuple):
    """A job of a run.

    `status` is blocked, group or approval (it waits for one), running, open (a call or a matrix whose jobs go on), or
    done. `given` are the inputs of a call, `seen` is what the job read of the world when it began, and `kept` are the
    outputs of the attempt before.
    """

    status: str = "blocked"
    result: str = ""
    outputs: str = "{}"
    given: str = "{}"
    matrix: str = "null"
    attempt: int = 1
    seen: tuple[str, frozenset[Any]] = ("", frozenset())
    kept: str = "{}"
    approved: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.status == "done"


class Artifact(NamedTuple):
    """An artifact of a run: the attempt that uploaded it, its name, and the files in it."""

    attempt: int
    name: str
    files: tuple[Any, ...]


class Run(NamedTuple):
    """A run of a workflow. `variables` is the pause that held when the first attempt began."""

    number: int
    file: str
    event: Event
    attempt: int = 1
    rerun: str = ""
    status: str = "waiting"
    cancelled: str = ""
    jobs: Mapping[str, JobState] = Frozen()
    artifacts: tuple[Artifact, ...] = ()
    approved: frozenset[str] = frozenset()
    asked: int = 0
    pause: str = ""
    group: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the attempt has ended."""
        return self.status == "done"

    @property
    def conclusion(self) -> str:
        """How the attempt ended."""
        results = {job.result for path, job in self.jobs.items() if "/" not in path and "#" not in path}
        if self.cancelled or CANCELLED in results:
            return FAILURE if not self.cancelled and FAILURE in results else CANCELLED
        return FAILURE if FAILURE in results else SUCCESS


Entity = tuple[int, str]
"""What a concurrency group is held by: the number of a run, and the path of one of its jobs ('' for the run)."""


class Publication(NamedTuple):
    """A variant that was published: from a commit, with a content, by a run."""

    variant: str
    commit: str
    content: str
    run: int


class State(NamedTuple):
    """All of it. `settings` are the switches that mattered so far; `tested` is what passed its tests in truth."""

    tip: str = ""
    pause: str = ""
    runs: tuple[Run, ...] = ()
    groups: Mapping[str, tuple[Entity, ...]] = Frozen()
    published: tuple[Publication, ...] = ()
    tested: frozenset[tuple[str, str, str]] = frozenset()
    settings: Mapping[str, bool] = Frozen()
    happened: frozenset[str] = frozenset()
    mishaps: int = 0
    wrong: tuple[str, ...] = ()
