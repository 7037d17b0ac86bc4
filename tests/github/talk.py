"""A client for tests, with a clock that jumps instead of waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ci_compiler.github.access import Access
from ci_compiler.github.client import PATIENT, Client, Patience
from ci_compiler.secret import Secret

from .state import NOW, REPOSITORY, TOKEN, GitHub


@dataclass
class Jumping:
    """A clock whose sleeps take no time; `slept` records them. `off`: by how many seconds its wall clock is wrong."""

    at: float = 1000.0
    slept: list[float] = field(default_factory=list)
    on_sleep: Callable[[], None] = lambda: None
    off: float = 0.0

    def now(self) -> float:
        return NOW + self.at - 1000.0 + self.off

    def passed(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.at += seconds
        self.on_sleep()


@dataclass
class Talk:
    """A client, its clock and its messages."""

    client: Client
    clock: Jumping
    said: list[str]


def talk(github: GitHub, *, token: str = TOKEN, repository: str = REPOSITORY, patience: Patience = PATIENT) -> Talk:
    """A client of `github`."""
    clock, said = Jumping(), []
    access = Access(api=github.url, repository=repository, credential=Secret(token))
    return Talk(client=Client(access, say=said.append, clock=clock, patience=patience), clock=clock, said=said)
