"""How one measurement is timed: the first call, the warm-up, then samples for a fixed time."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable

WARM_UP = 0.5
"""The time of a warm-up, as a share of the time of the samples."""

BATCH = 0.005
"""Seconds that a sample takes at least: calls that are shorter are timed several at once."""

FEWEST, MOST = 3, 1000
"""The number of samples."""


Call = Callable[[], object]
Clock = Callable[[], float]


def measure(call: Call, finish: Call, seconds: float, clock: Clock, *, awake: float = 0.0) -> tuple[float, list[float]]:
    """The seconds of the first call, and those of a call in each sample of the steady state.

    `finish` waits for the device. The samples take about `seconds`, without Python's garbage collector, and the warm-up
    takes `awake` seconds in addition.
    """
    begun = clock()
    call()
    finish()
    first = clock() - begun
    gc.collect()
    gc.disable()
    try:
        once = _warm_up(call, finish, seconds * WARM_UP + awake, clock)
        return first, _samples(call, finish, seconds, max(1, math.ceil(BATCH / max(once, 1e-9))), clock)
    finally:
        gc.enable()


def _warm_up(call: Call, finish: Call, seconds: float, clock: Clock) -> float:
    """Calls for `seconds`, at least twice; returns the seconds of one call."""
    begun, calls = clock(), 0
    while calls < 2 or clock() - begun < seconds:
        call()
        finish()
        calls += 1
    return (clock() - begun) / calls


def _samples(call: Call, finish: Call, seconds: float, batch: int, clock: Clock) -> list[float]:
    samples: list[float] = []
    begun = clock()
    while len(samples) < FEWEST or (clock() - begun < seconds and len(samples) < MOST):
        start = clock()
        for _ in range(batch):
            call()
        finish()
        samples.append((clock() - start) / batch)
    return samples
