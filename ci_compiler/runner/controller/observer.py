"""What the controller sees: its runners on this machine, and their registrations on GitHub.

Neither is asked more often than it can take: the engine after a pause that doubles with every failure, GitHub every
`CHECK` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ci_compiler.clock import Clock
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import Runner
from ci_compiler.runner.controller.containers import EngineError, RunnerInstance
from ci_compiler.runner.controller.slots import pause_after
from ci_compiler.units import duration

CHECK = 120.0
"""Seconds between two listings of the registrations; each takes one of the 5,000 hourly requests of a token."""


@dataclass(slots=True)
class Observer:
    """Lists runners and registrations; reports what it cannot list. The seed tells machines apart."""

    _instances: Callable[[], Iterable[RunnerInstance]]
    _registrations: Callable[[], Iterable[Runner]]
    _clock: Clock
    _say: Callable[[str], None]
    _seed: str
    _instances_due: float = 0.0
    _registrations_due: float = 0.0
    _failures: int = 0

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
            self._say(f"{error}; asking again in {duration(pause)}")
            return None
        self._failures = 0
        return found

    def registrations(self) -> Mapping[int, Runner] | None:
        """The registrations by id; None if GitHub fails, or the next listing is not due."""
        now = self._clock.passed()
        if now < self._registrations_due:
            return None
        self._registrations_due = now + CHECK
        try:
            return {runner.id: runner for runner in self._registrations()}
        except GitHubError as error:
            self._registrations_due = now + max(CHECK, error.wait)
            self._say(f"{error.line}; asking again in {duration(self._registrations_due - now)}")
            return None
