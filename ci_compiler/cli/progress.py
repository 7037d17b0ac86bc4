"""Progress on a terminal: a line on standard error with the seconds that something takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds after which the line appears."""

_EVERY = 0.5

_CLEAR = "\r\x1b[K"


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Shows `what` with the seconds since the start, from two seconds on, while the block runs; nothing in a pipe.

    The block gets a function that changes `what`. Nothing else may be printed in it.
    """
    shown = [what]
    if not sys.stderr.isatty():
        yield shown.append
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(shown, ended), daemon=True)
    thread.start()
    try:
        yield shown.append
    finally:
        ended.set()
        thread.join()


def _show(what: Sequence[str], ended: threading.Event) -> None:
    start, shown = time.monotonic(), False
    while not ended.wait(_EVERY if shown else PATIENCE):
        shown = True
        print(f"{_CLEAR}{what[-1]}, {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)
    if shown:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
