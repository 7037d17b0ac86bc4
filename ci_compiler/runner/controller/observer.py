"""What the controller sees: its runners on this machine, and their registrations on GitHub.

Neither is asked more often than it can take: the engine after a pause that doubles with every failure, GitHub only for
the controller's own runners, by conditional requests, every few minutes (`slots.CHECK` and `slots.STEADY`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ci_compiler.clock import Clock
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import Runner
from ci_compiler.runner.controller.engine import EngineError, RunnerInstance
from ci_compiler.runner.controller.slots import CHECK, Slot, pause_after
from ci_compiler.units import duration


@dataclass(slots=True)
class Observer:
    """Lists the runners of this machine, and looks at them on GitHub; reports what fails.

    The seed tells machines apart. `silent_since`: since when the engine has not answered.
    """

    _instances: Callable[[], Iterable[RunnerInstance]]
    _registered: Callable[[int], Runner | None]
    _clock: Clock
    _say: Callable[[str], None]
    _seed: str
    _instances_due: float = 0.0
    _looks_due: float = 0.0
    _failures: int = 0
    silent_since: float | None = None

    def instances(self) -> Mapping[str, RunnerInstance] | None:
        """The containers by name; None if the engine fails, or is not due after a failure."""
        now = self._clock.passed()
        if now < self._instances_due:
            return None
        try:
            found = {instance.name: instance for instance in self._instances()}
        except EngineError as error:
            pause = pause_after(self._failures, self._seed)
            self._failures += 1
            self._instances_due = now + pause
            self.silent_since = now if self.silent_since is None else self.silent_since
            self._say(f"{error}; asking again in {duration(pause)}")
            return None
        self._failures, self.silent_since = 0, None
        return found

    def watch(self, slot: Slot) -> None:
        """Schedules the first look at a runner that was just started."""
        slot.next_look = self._clock.passed() + CHECK

    def look(self, slot: Slot) -> bool:
        """Looks at the slot's runner on GitHub; False if that is not due, or fails."""
        now = self._clock.passed()
        if now < max(slot.next_look, self._looks_due):
            return False
        try:
            slot.look(self._registered(slot.registration), now)
        except GitHubError as error:
            self._looks_due = now + max(CHECK, error.wait)
            self._say(f"{error.line}; asking again in {duration(self._looks_due - now)}")
            return False
        return True
