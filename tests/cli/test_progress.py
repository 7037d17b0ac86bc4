"""Progress: shown on a terminal after a while, and removed again; never in a pipe."""

from __future__ import annotations

import io
import re
import time
from contextlib import redirect_stderr, suppress

import pytest

from ci_compiler.cli import progress
from tests.processes import until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *, patience: float, monkeypatch: pytest.MonkeyPatch, printed: bool = False) -> str:
    """What is printed while something takes a tenth of a second, or, if `printed`, until there is a text."""
    monkeypatch.setattr(progress, "PATIENCE", patience)
    with redirect_stderr(stream), suppress(KeyError), progress.progress("looking for releases"):
        time.sleep(0.1)
        if printed:
            until(stream.getvalue)
        raise KeyError
    return stream.getvalue()


def test_progress_is_shown_after_a_while_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(Terminal(), patience=0.01, monkeypatch=monkeypatch, printed=True)
    assert re.search("looking for releases, [0-9]+ s", text)
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text


def test_nothing_is_shown_for_what_is_fast_or_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Terminal(), patience=60, monkeypatch=monkeypatch) == ""
    assert shown(io.StringIO(), patience=0, monkeypatch=monkeypatch) == ""
