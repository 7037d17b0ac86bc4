"""What a stage shows of itself on GitHub: rows of Markdown in its step's summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ci_compiler.clock import span
from ci_compiler.hardware.machine import gigabytes
from ci_compiler.reports.summary import escape

VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where GitHub's runner names the file that it takes a step's summary from."""

HEADERS = ("variant", "stage", "result", "time", "size", "remarks")


def add_row(*, name: str, stage: str, result: str, seconds: float, size: int = 0, remarks: Iterable[str] = ()) -> None:
    """Adds a stage's row; `size` in bytes (0: not told)."""
    add_table(HEADERS, [(name, stage, result, span(seconds), _size(size), "; ".join(remarks))])


def add_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Adds rows, to the table of the same headers that the summary ends with, if it does; nothing without a runner."""
    target = os.environ.get(VARIABLE, "")
    if not target:
        return
    path = Path(target)
    before = path.read_text("utf-8") if path.exists() else ""
    head = f"{_line(headers)}{_line('---' for _ in headers)}"
    gap = "\n" if before.endswith("\n") else "\n\n" if before else ""
    start = "" if before.rsplit("\n\n", 1)[-1].startswith(head) else f"{gap}{head}"
    with path.open("a", encoding="utf-8") as file:
        file.write(start + "".join(_line(map(escape, row)) for row in rows))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _size(size: int) -> str:
    if not size:
        return ""
    return f"{gigabytes(size)} GB" if size >= 10**8 else f"{-(-size // 1000)} kB"
