"""The two commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Makes Ctrl-C end the program without a word, also while it imports its modules.

    Python 3.11 makes a RuntimeError of an interrupt that comes while it makes a class.
    """
    try:
        yield
    except BaseException as error:
        if not any(isinstance(one, KeyboardInterrupt) for one in (error, error.__cause__)):
            raise
        raise SystemExit(130) from None  # ExitCode.INTERRUPTED, whose own import may be what was interrupted
