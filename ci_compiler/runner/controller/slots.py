"""A place for one runner on this machine: its phase, and when its runner counts as stuck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from ci_compiler.clock import Clock, back_off
from ci_compiler.runner.controller.engine import JobNeeds, RunnerEngine, RunnerState
from ci_compiler.units import duration

if TYPE_CHECKING:
    from ci_compiler.github.inventory import Runner
    from ci_compiler.github.registration import Registrar

READY = 300.0
"""Seconds within which a new runner must connect to GitHub."""

YOUNG = 2 * READY
"""Seconds by which a registration without a container may be older, or newer, than the clock says and still starts."""

MEASURE = 60.0
"""Seconds between two looks at how much a job has written."""

LOST = 900.0
"""Seconds for which a runner may lose its connection; GitHub gives up on its job earlier."""

CHECK, STEADY = 120.0, 600.0
"""Seconds between two looks at a runner on GitHub: until it is connected or while it is away, and otherwise."""

SHARE = 36.0
"""Seconds per runner of the fleet between two looks on GitHub at a runner whose own output says that it is well, and
between two pages of lists of runners: each is at most 100 requests an hour, whatever the size of the fleet."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds to wait after a first failure, and the most to wait after any."""

FIRST_REFUSAL, LONGEST_REFUSAL = 60.0, 3600.0
"""The same after GitHub refused the version of a runner; by then, a tag may name a newer image."""


def pause_after(failures: int, seed: str) -> float:
    """Seconds to wait after a further failure, when there were `failures` before it."""
    return back_off(failures, first=FIRST_PAUSE, most=LONGEST_PAUSE, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPlan(JobNeeds):
    """The runners of a pool on this machine: their labels and runner group, their number, and what a job needs.

    `gpu` and `gpus`: the architecture and number of GPUs that each runner is given; 0 for none, or for all of the
    machine's. `fleet`: the machines of all pools, with which it shares GitHub's limits. `longest`: seconds after which
    a job counts as hung. `disk`: bytes that it may have written outside the store; 0 for no bound. `spec`: the spec as
    JSON, against which the doctor checks. `health`: the socket of the host's health service; '' for none.
    """

    labels: tuple[str, ...]
    group: int
    gpu: str
    gpus: int
    count: int
    fleet: int
    host: str
    longest: float
    spec: str
    health: str = ""
    disk: int = 0


@dataclass(slots=True)
class ControllerPart:
    """What the parts of a controller work with. `_say` receives their messages."""

    _work: RunnerPlan
    _engine: RunnerEngine
    _github: Registrar
    _clock: Clock
    _say: Callable[[str], None]


class Phase(StrEnum):
    """Where a slot is in its cycle; SHOWN: its registration shows the quarantine of another slot."""

    FREE = "free"
    RUNNING = "running"
    CLEANING = "cleaning"
    SHOWN = "shown"
    DONE = "done"


@dataclass(slots=True, kw_only=True)
class Slot:
    """A place for one runner; a slot beyond the plan's count is only cleaned up. Times are the clock's `passed()`.

    `next_cleanup`, `next_round`, `next_look` and `next_measure`: the earliest times of its next cleanup, its next
    cycle, and the next looks at its runner and at what its job has written. `asked`: when GitHub was last asked about
    it. `may_be_registered`: whether the answer to its registration was lost, so that GitHub may have a runner whose id
    is unknown. `trouble_since`: when the step that it is at first failed. `asked_to_end`: whether the runner itself
    decides when to end, since GitHub could not be asked. `overdue`: whether it is ended even if it has a job. `words`:
    what the runner said last, if it ended with 0 and its output shows no job. `result`: whether its job failed.

    `gpus`: the UUIDs of its GPUs. `refused`: those with which it failed a proof. `sick`: why it is in quarantine, or
    ''. `mark`: the slot whose registration shows that. In a row, `checks` counts failed proofs, `strikes` failed
    runners. `suspect`: its last job or runner failed, so that its next proof is the deeper one.
    """

    number: int
    phase: Phase = Phase.FREE
    name: str = ""
    registration: int = 0
    may_be_registered: bool = False
    since: float = 0.0
    next_cleanup: float = 0.0
    next_round: float = 0.0
    next_look: float = 0.0
    next_measure: float = 0.0
    asked: float = 0.0
    failures: int = 0
    trouble_since: float | None = None
    connected: bool = False
    away_since: float | None = None
    busy_since: float | None = None
    ending_since: float | None = None
    asked_to_end: bool = False
    overdue: bool = False
    kept: bool = False
    ended_well: bool = False
    words: str = ""
    result: bool | None = None
    gpus: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()
    sick: str = ""
    mark: Slot | None = None
    checks: int = 0
    strikes: int = 0
    suspect: bool = False

    def enter(self, phase: Phase) -> None:
        """Goes on to `phase`."""
        self.phase, self.trouble_since = phase, None

    def look(self, runner: Runner | RunnerState | None, now: float) -> None:
        """Records what GitHub, or the runner, says of it at the time `now`; None: GitHub has no such runner."""
        self.next_look = now + (STEADY if self.connected and runner and runner.online else CHECK)
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
        """Resets the slot for its next cycle; its GPUs, its health and the count of its failures stay."""
        fresh = Slot(number=self.number)
        for field in fields(self):
            if field.name not in _LASTING:
                setattr(self, field.name, getattr(fresh, field.name))


_LASTING = frozenset({"next_round", "failures", "gpus", "refused", "sick", "mark", "checks", "strikes", "suspect"})
"""The fields of a slot that outlast its cycles."""
