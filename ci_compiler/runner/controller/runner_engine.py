"""What the controller needs of whatever runs runners: containers, or processes."""

from __future__ import annotations

from typing import Protocol

from ci_compiler.runner.controller.containers import RunnerInstance, RunnerOrder
from ci_compiler.secret import Secret


class RunnerEngine(Protocol):
    """Runs runners. Every method raises EngineError."""

    def prepare(self, order: RunnerOrder) -> None:
        """Prepares the image and the store of `order`, before its runner is registered."""

    def room(self) -> int:
        """Free bytes on the file system of builds and stores."""

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Collects the garbage in the store of `order`, which nothing may be using."""

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts the runner of `order`."""

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The runners of the controller that run, or ended and were not removed."""

    def end(self, name: str) -> None:
        """Asks the idle runner `name` to end."""

    def remove(self, name: str) -> None:
        """Removes `name`, even if it runs. Does nothing if it does not exist."""

    def keep_log(self, name: str) -> None:
        """Keeps the output of `name`, whose runner is lost, beyond its removal."""

    def last_words(self, name: str) -> str:
        """The last line of output of `name`."""
