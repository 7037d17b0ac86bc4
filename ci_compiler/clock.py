"""Time, handed in: what waits does so on a `Clock`, so that its tests do not."""

from __future__ import annotations

import time
import zlib
from typing import Protocol


class Clock(Protocol):
    """What tells the time and waits."""

    def now(self) -> float:
        """Seconds since 1970, UTC, for times of day that GitHub says."""

    def passed(self) -> float:
        """Seconds on a clock that only goes forward, for how long something takes."""

    def sleep(self, seconds: float) -> None:
        """Waits."""


class SystemClock:
    """This machine's clock."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def passed(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


def back_off(attempt: int, *, first: float, most: float, seed: str) -> float:
    """Seconds to wait behind the failure number `attempt` (from 0): doubled each time from `first` up to `most`.

    The upper half is left to chance, so that a fleet does not come back all at once; the chance is drawn from `seed`,
    so that the same machine waits the same in every test.
    """
    whole = min(first * 2.0 ** min(attempt, 60), most)
    chance = zlib.crc32(f"{seed} {attempt}".encode()) / 2**32
    return whole * (1 + chance) / 2


def time_of_day(seconds: float) -> str:
    """A moment since 1970 as people read it: `14:05:00 UTC`."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(seconds))


def span(seconds: float) -> str:
    """A length of time as people read it: `40 s`, `12 min`, `3 h 5 min`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
