"""Removing a runner: its registration first, since GitHub refuses that for a busy runner, then its container.

So no job is cut short by accident: a container that still runs is removed only when GitHub no longer has its runner.
The exceptions are a job that takes longer than any may, and a second SIGTERM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ci_compiler.clock import back_off
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import Runner
from ci_compiler.github.registration import Removal
from ci_compiler.runner.controller.engine import EngineError, InstanceStatus, RunnerInstance
from ci_compiler.runner.controller.runner_names import read_name
from ci_compiler.runner.controller.slots import CHECK, SHARE, YOUNG, ControllerPart, Phase, Slot
from ci_compiler.units import duration

GRACE = 30.0
"""Seconds that an idle runner gets to exit by itself."""

SWEEP = 24 * 3600.0
"""Seconds between two sweeps of a controller, at least. Each lists every runner, 100 per request. A runner that it
misses for long is removed by GitHub: one that took no job, after a day."""


class StillBusyError(EngineError):
    """GitHub counts a runner as busy whose container is gone."""


@dataclass(slots=True)
class Remover(ControllerPart):
    """Removes the runners of a pool's slots, and the registrations that no slot knows."""

    _sweep_due: float = 0.0

    def __post_init__(self) -> None:
        # Not at once: an earlier controller may have registered a runner just before it was killed.
        spread = 2 * self._pause(self._work.fleet)
        self._sweep_due = self._clock.passed() + YOUNG + back_off(0, first=spread, most=spread, seed=self._work.host)

    def take_back(self, slot: Slot, *, unreachable: bool) -> None:
        """Ends the idle runner of `slot`; GitHub refuses to remove the registration of a busy one.

        If GitHub is `unreachable`, or does not find the runner, the runner decides: its entry point finishes a job
        first. Raises EngineError and, unless GitHub is unreachable, GitHubError.
        """
        try:
            removal = self._github.remove(slot.registration)
        except GitHubError as error:
            if not unreachable:
                raise
            self._say(f"{error.line}; {slot.name} ends as soon as it has no job")
            removal = Removal.ABSENT
        if removal is Removal.BUSY:
            slot.kept = True
            self._say(f"{slot.name}: finishing its job")
        elif removal is Removal.REMOVED:
            slot.ending_since = self._clock.passed()
            self._engine.end(slot.name)
        else:
            self._engine.end(slot.name)
            slot.asked_to_end, slot.ending_since = True, self._clock.passed()

    def clean(
        self, slot: Slot, instance: RunnerInstance | None, *, aborting: bool, had_job: bool = False
    ) -> Removal | None:
        """Removes the registration and the container of `slot`; None if that is not done yet.

        `had_job`: its output shows the result of a job, after which GitHub itself removes the registration.
        Raises EngineError, GitHubError.
        """
        runs = instance is not None and instance.status is InstanceStatus.RUNNING
        if not runs or aborting:
            self._engine.remove(slot.name)
        if not slot.registration and slot.may_be_registered and not self._found(slot):
            return None
        gone = had_job or not slot.registration  # Assumes `jit-one-job`.
        removal = Removal.ABSENT if gone else self._github.remove(slot.registration)
        if removal is Removal.BUSY:
            self._busy(slot, runs=runs and not aborting)
            return None
        # "Not found" also answers a token that may not remove runners. GitHub itself removes one that had its job.
        certain = had_job or (slot.ended_well and slot.connected)
        if removal is Removal.ABSENT and slot.registration and not certain and self._github.named(slot.name):
            raise EngineError(f"{slot.name}: GitHub lists it but does not find it")
        self._engine.remove(slot.name)
        return removal

    def leftovers(self, slots: Iterable[Slot]) -> Iterator[Runner]:
        """The registrations of this machine and pool that no slot knows, if a sweep is due."""
        now = self._clock.passed()
        if now < self._sweep_due:
            return
        try:
            runners = list(self._github.runners())
        except GitHubError as error:
            self._sweep_due = now + max(CHECK, error.wait)
            self._say(f"{error.line}; asking again in {duration(self._sweep_due - now)}")
            return
        self._sweep_due = now + max(SWEEP, self._pause(len(runners)))
        taken, names = {slot.registration for slot in slots}, {slot.name for slot in slots}
        for runner in runners:
            name = read_name(runner.name)
            if name is None or runner.online or runner.busy or runner.id in taken or runner.name in names:
                continue
            mine = runner.name == str(replace(name, host=self._work.host, pool=self._work.pool))
            if mine and abs(self._clock.now() - name.made) > YOUNG:
                yield runner

    def _pause(self, runners: int) -> float:
        """Seconds between two lists of `runners` by one machine, with which the whole fleet keeps to its share."""
        return SHARE * self._work.fleet * -(-runners // 100)

    def _found(self, slot: Slot) -> bool:
        """Looks for a registration whose answer was lost; whether the slot's cleanup may go on."""
        runner = self._github.named(slot.name)
        if runner is None:
            # GitHub may still be creating it: only a second look proves that it is absent.
            slot.may_be_registered, slot.next_cleanup = False, self._clock.passed() + GRACE
            return False
        slot.registration = runner.id
        return True

    def _busy(self, slot: Slot, *, runs: bool) -> None:
        if not runs:
            raise StillBusyError(f"{slot.name}: its container is gone, but GitHub still counts it as busy")
        if slot.overdue:
            self._engine.remove(slot.name)
            raise StillBusyError(f"{slot.name}: its job took too long and was ended; GitHub still counts it as busy")
        self._say(f"{slot.name}: GitHub counts it as busy, so it finishes its job")
        slot.away_since, slot.connected, slot.since = None, True, self._clock.passed()
        slot.enter(Phase.RUNNING)
