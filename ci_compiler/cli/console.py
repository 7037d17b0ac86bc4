"""The output of the commands: tables on a terminal, plain columns in a pipe, findings on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_compiler.errors import Finding


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table: formatted on a terminal (respects NO_COLOR), plain columns in a pipe."""
    cells = [[str(cell) for cell in row] for row in rows]
    numbers = [bool(cells) and all(row[at].replace(",", "").isdigit() for row in cells) for at in range(len(headers))]
    if sys.stdout.isatty():
        _rich_table(headers, cells, numbers)
        return
    widths = [max(len(row[at]) for row in [list(headers), *cells]) for at in range(len(headers))]
    for row in [list(headers), *cells]:
        aligned = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        )
        print("  ".join(aligned).rstrip())


def _rich_table(headers: Sequence[str], rows: list[list[str]], numbers: Sequence[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD)
    for header, number in zip(headers, numbers, strict=True):
        made.add_column(header, justify="right" if number else "left")
    for row in rows:
        made.add_row(*map(Text, row))
    Console().print(made)


def print_json(value: Any) -> None:
    """Prints `value` as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Prints rows: as JSON with all keys, or as a table of `columns`, the headers by key."""
    if as_json:
        print_json(rows)
    else:
        table(list(columns.values()), ([row[key] for key in columns] for row in rows))


def print_markdown(text: str) -> None:
    """Prints Markdown: formatted on a terminal, as it is in a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="")


def print_findings(findings: Iterable[Finding], *, root: Path | None = None) -> None:
    """Prints one line per finding on standard error; on a terminal, also the line of the file, with a caret.

    `root` is the repository that the files of the findings are in, if it is not the one around this folder.
    """
    for finding in findings:
        print(f"{finding.severity}: {finding}", file=sys.stderr)
        if finding.place.line and sys.stderr.isatty():
            from ci_compiler.cli.excerpt import excerpt  # a pipe does not need it

            for line in excerpt(finding.place, root):
                print(line, file=sys.stderr)


def note(text: str) -> None:
    """Prints a line for people on standard error, so that a pipe does not carry it."""
    print(text, file=sys.stderr)


def append_to(variable: str, text: str) -> bool:
    """Appends `text` to the file that an environment variable of GitHub Actions names; False if there is none."""
    path = os.environ.get(variable)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    return bool(path)
