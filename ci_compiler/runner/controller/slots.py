"""A place for one runner on this machine: where it is in its round, and when its runner counts as stuck."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from ci_compiler.clock import span
from ci_compiler.github.inventory import Runner

READY = 300.0
"""Seconds within which a new runner must have connected to GitHub."""

LOST = 900.0
"""Seconds for which a runner may be without its connection; GitHub gives its job up before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPlan:
    """What the runners are: pool, labels and group, whose they are, how many, and where.

    `builds`: whether its jobs build with Nix. `cores`: the machine's. `room`: bytes that must be free before a job.
    `longest`: seconds after which a job hangs.
    """

    pool: str
    scope: str
    labels: tuple[str, ...]
    group: int
    image: str
    gpus: bool
    builds: bool
    cores: int
    count: int
    host: str
    room: int
    longest: float


class Phase(StrEnum):
    """Where a slot is in its round."""

    FREE = "free"
    RUNNING = "running"
    CLEANING = "cleaning"
    DONE = "done"


@dataclass(slots=True, kw_only=True)
class Slot:
    """A place for one runner; one beyond the work's count is only cleaned up. Times are of the clock's `passed()`.

    `due`: when its cleaning, `rest`: when its next round may go on. `doubt`: a registration may be there unseen.
    """

    number: int
    phase: Phase = Phase.FREE
    name: str = ""
    registration: int = 0
    doubt: bool = False
    since: float = 0.0
    due: float = 0.0
    rest: float = 0.0
    failures: int = 0
    connected: bool = False
    away_since: float | None = None
    busy_since: float | None = None
    ending_since: float | None = None
    kept: bool = False
    ended_well: bool = False

    def look(self, runner: Runner | None, now: float) -> None:
        """Keeps what GitHub says of the slot's runner (None: it does not know it) at the moment `now`."""
        if runner is None or not runner.online:
            self.away_since = now if self.away_since is None else self.away_since
            return
        self.connected, self.away_since = True, None
        if not runner.busy:
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = now

    def stuck(self, now: float, longest: float) -> str:
        """Why the runner will not come to an end by itself; '' where it may."""
        if self.away_since is None:
            working = now - self.busy_since if self.busy_since is not None else 0.0
            return f"has been at one job for {span(working)}, longer than any may take" if working > longest else ""
        if self.connected and now - self.away_since > LOST:
            return f"lost its connection to GitHub {span(now - self.away_since)} ago"
        if not self.connected and now - self.since > READY:
            return f"has not connected to GitHub in {span(now - self.since)}"
        return ""

    def forget(self) -> None:
        """Ready for the next round; how often it failed stays."""
        fresh = Slot(number=self.number, rest=self.rest, failures=self.failures)
        for field in fields(self):
            setattr(self, field.name, getattr(fresh, field.name))
