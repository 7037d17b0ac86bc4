"""What a stage shows on GitHub: rows of a Markdown table in the summary of its step."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ci_compiler.errors import InputError, StageError
from ci_compiler.outside import text_of
from ci_compiler.stages import Stage
from ci_compiler.units import duration, markdown_table, markdown_text
from ci_compiler.units import size as size_in_words

VARIABLE = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub's runner names the file for a step's summary."""

HEADERS = ("variant", "stage", "result", "time", "size", "remarks")


def add_row(*, name: str, stage: str, result: str, seconds: float, size: int = 0, remarks: Iterable[str] = ()) -> None:
    """Adds the row of a stage; `size` is in bytes (0: unknown)."""
    add_table(
        HEADERS, [(name, stage, result, duration(seconds), size_in_words(size) if size else "", "; ".join(remarks))]
    )


@contextmanager
def reporting(name: str, stage: Stage) -> Iterator[None]:
    """Adds a row if `stage` fails for the variant `name`, with the time that it took until then."""
    start = time.monotonic()
    try:
        yield
    except (StageError, InputError) as error:
        seconds, remarks = time.monotonic() - start, [error.findings[0].message]
        add_row(name=name, stage=stage.name, result="failed", seconds=seconds, remarks=remarks)
        raise


def add_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Adds rows to the table at the end of the summary if it has the same headers, else to a new table.

    Does nothing outside a job of GitHub.
    """
    head = f"{markdown_table(headers, [])}\n"
    table = markdown_table(headers, [[*map(markdown_text, row)] for row in rows])

    def block(before: str) -> str:
        goes_on = before.rsplit("\n\n", 1)[-1].startswith(head)
        return table.removeprefix(head) if goes_on else _gap(before) + table

    _append(block)


def add_text(title: str, parts: Mapping[str, Sequence[str]]) -> None:
    """Adds a section with lines of code under each heading of `parts`. Does nothing outside a job of GitHub."""
    blocks = [f"### {markdown_text(title)}"]
    for heading, lines in parts.items():
        text = "\n".join(lines)
        fence = "`" * (1 + max(map(len, re.findall("`+", f"``{text}"))))  # longer than any in the text
        blocks.append(f"{markdown_text(heading)}\n\n{fence}text\n{text}\n{fence}")
    _append(lambda before: _gap(before) + "\n\n".join(blocks))


def _append(block: Callable[[str], str]) -> None:
    """Adds what `block` makes of the summary so far."""
    if target := os.environ.get(VARIABLE, ""):
        path = Path(target)
        before = text_of(path) if path.exists() else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{block(before)}\n")


def _gap(before: str) -> str:
    """What separates a new block from the text `before` it."""
    return "\n" if before.endswith("\n") else "\n\n" if before else ""
