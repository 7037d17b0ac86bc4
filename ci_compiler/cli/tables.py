"""Tables on a terminal and in a pipe. Nothing is ever cropped.

In a pipe, a table has no header and is as wide as its longest cells. On a terminal, it fits the width: columns with
several words become narrower and wrap between words. If that is not enough, columns that the caller can spare are left
out. Without any, the first cell of a row has a line of its own, and the others follow below it, each after its header.

rich's tables are not used: they cut or fold words that do not fit, and their import takes longer than most commands.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TextIO

_GAP = "  "

_SHORT = 20
"""A cell up to this many characters is not wrapped."""

_PROSE = 40
"""The characters that the last column gets for words of any length."""

_RED, _GREEN, _YELLOW, _BOLD, _DIM = "31", "32", "33", "1", "2"

_STATES: Mapping[str, str] = {
    **dict.fromkeys(("failed", "not safe", "nobody", "offline", "no"), _RED),
    **dict.fromkeys(("ok", "passed", "safe", "online", "yes"), _GREEN),
    **dict.fromkeys(("cancelled", "skipped", "not known"), _YELLOW),
}
"""The colours of the words for a state."""


def coloured(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in a pipe."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = _numbers(rows, len(widths))
    for row in rows:
        yield _line(row, widths, numbers)


def spared(headers: Sequence[str], rows: Sequence[Sequence[str]], spare: Collection[str]) -> Collection[str]:
    """The columns to leave out on this terminal: `spare` if the table fits without them alone, else none."""
    width = shutil.get_terminal_size().columns
    kept = [at for at, header in enumerate(headers) if header not in spare]
    if not spare or _widths(headers, rows, width):
        return ()
    return spare if _widths([headers[at] for at in kept], [[row[at] for at in kept] for row in rows], width) else ()


def fitted(
    headers: Sequence[str], rows: Sequence[Sequence[str]], states: Collection[str], stream: TextIO
) -> Iterator[str]:
    """The lines of a table on the terminal `stream`; the columns called `states` are coloured."""
    width, paints = shutil.get_terminal_size().columns, coloured(stream)
    widths = _widths(headers, rows, width)
    if not widths:
        yield from _stacked(headers, rows, states, width, paints=paints)
        return
    numbers = _numbers(rows, len(headers))
    for number, row in enumerate([headers, *rows]):
        styles = [_style(cell, paints=paints and head in states) for head, cell in zip(headers, row, strict=True)]
        styles = styles if number else [_BOLD if paints else ""] * len(headers)
        wrapped = [_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            yield _line(parts, widths, numbers, styles)


def _numbers(rows: Sequence[Sequence[str]], count: int) -> list[bool]:
    """Whether each column holds only whole numbers, which are aligned to the right."""
    return [bool(rows) and all(row[at].replace(",", "").isdigit() for row in rows) for at in range(count)]


def _line(
    cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool], styles: Sequence[str] | None = None
) -> str:
    aligned = [
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numbers, strict=True)
    ]
    last = max((at for at, cell in enumerate(cells) if cell), default=-1)
    aligned = [*aligned[:last], aligned[last].rstrip()] if last >= 0 else []
    return _GAP.join(map(_painted, aligned, styles) if styles else aligned)


def _painted(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def _style(cell: str, *, paints: bool) -> str:
    """The colour of a state: `failed`, `1 of 3 failed`, or `not safe: and why`."""
    words = (cell.partition(":")[0], cell.rpartition(" ")[2]) if paints else ()
    return next((_STATES[word] for word in words if word in _STATES), "")


def _wrapped(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of the columns, none below its longest word but the last; empty if the table does not fit."""
    columns = list(zip(headers, *rows, strict=True))
    widest = [max(map(len, column)) for column in columns]
    least = [
        max(*(len(word) for cell in column for word in cell.split() or [""]), *(min(len(c), _SHORT) for c in rest), 0)
        for column in columns
        for rest in [column[1:] or [""]]
    ]
    room = width - len(_GAP) * (len(headers) - 1)
    if (rest := room - sum(least[:-1])) >= _PROSE:
        least[-1] = min(least[-1], rest)  # a longer word, such as a path, goes on in the next line of the terminal
    if sum(least) > room:
        return []
    while sum(widest) > room:
        at = max((at for at in range(len(widest)) if widest[at] > least[at]), key=widest.__getitem__)
        widest[at] -= 1
    return widest


def _stacked(
    headers: Sequence[str], rows: Sequence[Sequence[str]], states: Collection[str], width: int, *, paints: bool
) -> Iterator[str]:
    """Each row as its first cell and, below it, the others with their headers, as many in a line as fit."""
    for first, *others in rows:
        yield _painted(first, _BOLD if paints else "")
        line, used = "", 0
        for header, cell in zip(headers[1:], others, strict=True):
            if not cell:
                continue
            head, *more = _wrapped(cell, max(width - len(header) - 5, _SHORT))
            if line and used + len(header) + len(head) + 5 > width:
                yield line
                line, used = "", 0
            style = _style(cell, paints=paints and header in states)
            line += f"{_GAP}{_painted(header, _DIM if paints else '')} {_painted(head, style)}"
            used += len(header) + len(head) + 3
            for part in more:
                yield line
                line, used = f"{' ' * (len(header) + 3)}{_painted(part, style)}", len(header) + 3 + len(part)
        if line:
            yield line
