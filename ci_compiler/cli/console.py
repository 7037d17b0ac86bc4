"""The output of the commands: data on standard output, findings and notes on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ci_compiler.errors import Finding, escaped, shortened

_LONGEST_NOTE = 10_000
"""The most characters of a note, which may list all variants of a branch."""


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    states: Collection[str] = (),
    spare: Collection[str] = (),
) -> None:
    """Prints a table: with a header, at the width of the terminal, or without a header in a pipe.

    states: the headers of the columns whose words have a colour on a terminal, such as `failed`.
    spare: the headers of the columns that a terminal too narrow for the table leaves out, with a note.
    """
    from ci_compiler.cli.tables import fitted, plain, spared  # a check prints no table

    cells = [[escaped(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print(*plain(cells), sep="\n", end="\n" * bool(cells))
        return
    gone = spared(headers, cells, spare)
    kept = [at for at, header in enumerate(headers) if header not in gone]
    shown = [[row[at] for at in kept] for row in cells]
    print(*fitted([headers[at] for at in kept], shown, states, sys.stdout), sep="\n")
    if gone:
        note(f"the terminal is too narrow for {' and '.join(gone)}; --json shows everything")


def print_json(value: Any) -> None:
    """Prints `value` as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    as_json: bool,
    states: Collection[str] = (),
    spare: Collection[str] = (),
) -> None:
    """Prints rows: as JSON with all keys, or as a table (`table`) of `columns`, the headers by key."""
    if as_json:
        print_json(rows)
    else:
        table(list(columns.values()), ([row[key] for key in columns] for row in rows), states=states, spare=spare)


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

            print(*excerpt(finding.place, root), sep="\n", file=sys.stderr)


def note(text: str) -> None:
    """Prints text for people on standard error, so that a pipe does not carry it. A full disk there ends no command."""
    with suppress(OSError):
        print(*map(escaped, shortened(text, _LONGEST_NOTE).split("\n")), sep="\n", file=sys.stderr)


def append_to(variable: str, text: str) -> bool:
    """Appends `text` to the file that an environment variable of GitHub Actions names; False if there is none."""
    path = os.environ.get(variable)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    return bool(path)
