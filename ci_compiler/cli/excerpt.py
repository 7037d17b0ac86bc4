"""The line of a file that a finding is about, with a caret below the column: for people at a terminal."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size

from ci_compiler.checkout import checkout_around
from ci_compiler.errors import Place
from ci_compiler.secret import hide_secrets
from ci_compiler.spec.build import BUNDLED, BUNDLED_SHOWN

CUT = "…"


def excerpt(place: Place, root: Path | None = None) -> list[str]:
    """The line at `place` and the line with the caret; nothing if the file cannot be read, or has no such line.

    A line that is wider than the terminal is cut on both sides of the column. Secrets are hidden.
    """
    line = _line(place, root)
    if not line.strip() or place.column > len(line) + 1:
        return []
    margin = f"{place.line:>5} | "
    width = max(get_terminal_size().columns - len(margin), 20)
    plain = "".join(char if char.isprintable() else " " for char in line)
    if (safe := hide_secrets(plain)) != plain:
        return [margin + _around(safe, 0, width)[0]]
    shown, at = _around(plain, place.column - 1, width)
    return [margin + shown, f"{'|':>{len(margin) - 1}} {' ' * at}^"]


def _line(place: Place, root: Path | None) -> str:
    folders = (root or Path(), checkout_around(Path.cwd()))
    paths = (BUNDLED,) if place.file == BUNDLED_SHOWN else (folder / place.file for folder in folders)
    for path in paths:
        try:
            lines = path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else []
        except OSError:
            continue
        if place.line <= len(lines):
            return lines[place.line - 1].rstrip()
    return ""


def _around(line: str, at: int, width: int) -> tuple[str, int]:
    """The part of `line` around the column `at` that fits `width`, and the column's place in it."""
    if len(line) <= width:
        return line, at
    start = max(0, min(at - width // 2, len(line) - width))
    part = line[start : start + width]
    part = (CUT if start else "") + part[bool(start) :]
    return (part[:-1] + CUT if start + width < len(line) else part), at - start
