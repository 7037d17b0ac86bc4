"""The clock as a parameter: code that waits does so on a `Clock`, so that tests can pass one that does not."""

from __future__ import annotations

import time
import zlib

TOLERANCE = 300
"""Seconds by which clocks of machines may differ."""


class Clock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since 1970, UTC; comparable with the times that GitHub states."""
        return time.time()

    def passed(self) -> float:
        """Seconds on a monotonic clock, for measuring how long something takes."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


def back_off(attempt: int, *, first: float, most: float, seed: str) -> float:
    """Seconds to wait after failed attempt number `attempt`, counted from 0: doubles from `first` up to `most`.

    The upper half is random, so that a fleet does not retry all at once. The random part is derived from `seed`, so
    that a machine waits equally long in every test.
    """
    whole = min(first * 2.0 ** min(attempt, 60), most)
    chance = zlib.crc32(f"{seed} {attempt}".encode()) / 2**32
    return whole * (1 + chance) / 2


def time_of_day(seconds: float) -> str:
    """A time in seconds since 1970 as a time of day: `14:05:00 UTC`."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(seconds))


def minute_of(seconds: float) -> str:
    """A time in seconds since 1970 as a date and time: `2026-11-21 14:05 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def day_of(seconds: float) -> str:
    """A time in seconds since 1970 as a date, UTC: `2026-11-21`."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
