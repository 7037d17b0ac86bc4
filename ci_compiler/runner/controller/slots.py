"""A place for one runner on this machine: its phase, and when its runner counts as stuck."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from ci_compiler.clock import back_off
from ci_compiler.github.inventory import Runner
from ci_compiler.units import duration

READY = 300.0
"""Seconds within which a new runner must connect to GitHub."""

LOST = 900.0
"""Seconds for which a runner may lose its connection; GitHub gives up on its job earlier."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds to wait after a first failure, and the most to wait after any."""


def pause_after(failures: int, seed: str) -> float:
    """Seconds to wait after a further failure, when there were `failures` before it."""
    return back_off(failures, first=FIRST_PAUSE, most=LONGEST_PAUSE, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPlan:
    """The runners of a pool on this machine: their labels and runner group, their number, and what a job needs.

    `scope`: the repository or organisation that they are registered in. `builds`: whether jobs build with Nix. `cores`:
    those of the machine. `room`: bytes of disk that must be free before a job. `longest`: seconds after which a job
    counts as hung. `store`, `fresh_store` and `trusted_keys` are those of `RunnerOrder`.
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
    store: bool = True
    fresh_store: bool = False
    trusted_keys: tuple[str, ...] = ()


class Phase(StrEnum):
    """Where a slot is in its cycle."""

    FREE = "free"
    RUNNING = "running"
    CLEANING = "cleaning"
    DONE = "done"


@dataclass(slots=True, kw_only=True)
class Slot:
    """A place for one runner; a slot beyond the plan's count is only cleaned up. Times are the clock's `passed()`.

    `next_cleanup` and `next_round`: the earliest times of its next cleanup and its next cycle. `may_be_registered`:
    whether the answer to its registration was lost, so that GitHub may have a runner whose id is unknown.
    """

    number: int
    phase: Phase = Phase.FREE
    name: str = ""
    registration: int = 0
    may_be_registered: bool = False
    since: float = 0.0
    next_cleanup: float = 0.0
    next_round: float = 0.0
    failures: int = 0
    connected: bool = False
    away_since: float | None = None
    busy_since: float | None = None
    ending_since: float | None = None
    kept: bool = False
    ended_well: bool = False

    def look(self, runner: Runner | None, now: float) -> None:
        """Records what GitHub says of the slot's runner at the time `now`; None: it has no such runner."""
        if runner is None or not runner.online:
            self.away_since = now if self.away_since is None else self.away_since
            return
        self.connected, self.away_since = True, None
        if not runner.busy:
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = now

    def stuck(self, now: float, longest: float) -> str:
        """Why the runner will not end by itself; '' if it may."""
        if self.away_since is None:
            working = now - self.busy_since if self.busy_since is not None else 0.0
            long = f"has been working on one job for {duration(working)}, longer than any may take"
            return long if working > longest else ""
        if self.connected and now - self.away_since > LOST:
            return f"lost its connection to GitHub {duration(now - self.away_since)} ago"
        if not self.connected and now - self.since > READY:
            return f"did not connect to GitHub in {duration(now - self.since)}"
        return ""

    def failed(self, seed: str, least: float = 0.0) -> float:
        """Counts a failure. Returns the seconds to wait after it, `least` or more."""
        self.failures += 1
        return max(pause_after(self.failures - 1, seed), least)

    def forget(self) -> None:
        """Resets the slot for its next cycle; the count of its failures stays."""
        fresh = Slot(number=self.number, next_round=self.next_round, failures=self.failures)
        for field in fields(self):
            setattr(self, field.name, getattr(fresh, field.name))
