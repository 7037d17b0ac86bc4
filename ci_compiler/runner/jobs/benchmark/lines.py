"""What a process of the benchmark printed: lines of JSON from code under test, checked and bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from ci_compiler.outside import UnreadableError, object_of

MOST_BYTES = 1 << 20
"""The most that is read of the output of a process; a process that prints more has failed."""

_MOST_MEASUREMENTS, _MOST_SAMPLES = 100, 10_000
_LONGEST, _SHORTEST = 100_000.0, 1e-9
"""The seconds that a call can take."""

_MOST_CHARACTERS = 200
_LARGEST = 1 << 50
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?")
_LEVEL = re.compile(r"[A-Z0-9][A-Z0-9 ]{0,15}")


class Sample(NamedTuple):
    """One measurement in one process: the first call and the median of the steady state, or why it was left out."""

    name: str
    first: float | None = None
    steady: float = 0.0
    skipped: str = ""


class Output(NamedTuple):
    """What a process printed: readings by name, the import's seconds (None: no import), and facts about the module.

    `size` is in bytes, `dispatch` the level of ATen's kernels ('': unknown). `problems` say which lines are not as the
    protocol wants them.
    """

    readings: dict[str, Sample]
    imported: float | None = None
    size: int = 0
    dispatch: str = ""
    problems: tuple[str, ...] = ()


def read_output(raw: bytes, device: str) -> Output:
    """The output of a process that measured on `device`. Lines that are no measurements are ignored."""
    readings: dict[str, Sample] = {}
    problems: list[str] = []
    facts: dict[str, Any] = {}
    if len(raw) > MOST_BYTES:
        problems.append(f"it printed more than {MOST_BYTES >> 20} MiB")
    for row in _rows(raw[:MOST_BYTES], problems):
        try:
            if "name" not in row:
                facts = facts or _facts(row)
                continue
            reading = _reading(row, device)
            if reading.name in readings or len(readings) == _MOST_MEASUREMENTS:
                problems.append(f"{reading.name} is measured twice, or after {_MOST_MEASUREMENTS} others")
                continue
            readings[reading.name] = reading
        except KeyError as error:
            problems.append(_problem(row, f"it has no {error}"))
        except (ValueError, TypeError) as error:
            problems.append(_problem(row, str(error)))
    return Output(readings=readings, problems=tuple(problems[:_MOST_MEASUREMENTS]), **facts)


def _problem(row: dict[str, Any], reason: str) -> str:
    return f"{_text(str(row.get('name', 'import')))} is not as the protocol says: {_text(reason)}"


def _rows(raw: bytes, problems: list[str]) -> Iterator[dict[str, Any]]:
    """The objects in the lines of `raw` that are measurements. One that is out of bounds is among the `problems`."""
    for line in raw.decode(errors="replace").splitlines():
        try:
            row = object_of(line)
        except UnreadableError as error:
            if not error.line and ('"name"' in line or '"import"' in line):
                problems.append(f"a line {error}")
            continue
        if row.keys() & {"name", "import"}:
            yield row


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    dispatch, size = row.get("dispatch", ""), row.get("size", 0)
    if type(size) is not int or not 0 <= size < _LARGEST:
        raise ValueError("the size is no number of bytes")
    if dispatch and not _LEVEL.fullmatch(dispatch):
        raise ValueError("the level of the dispatch is none")
    return {"imported": _seconds(row["import"]), "size": size, "dispatch": dispatch}


def _reading(row: dict[str, Any], device: str) -> Sample:
    name = row["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a name has at most 64 small letters, digits, '-', '_' and '.'")
    if row["device"] != device:
        raise ValueError(f"it ran to measure on the {device}")
    if "skipped" in row:
        return Sample(name=name, skipped=_text(str(row["skipped"])) or "no reason is given")
    seconds = row["seconds"]
    if type(seconds) in {int, float}:
        seconds = [seconds]
    if type(seconds) is not list or not 1 <= len(seconds) <= _MOST_SAMPLES:
        raise ValueError(f"`seconds` is a number, or a list of 1 to {_MOST_SAMPLES:,} numbers")
    first = None if row.get("first") is None else _seconds(row["first"])
    return Sample(name=name, first=first, steady=median(map(_seconds, seconds)))


def _seconds(value: Any) -> float:
    if type(value) not in {int, float} or not math.isfinite(value) or not _SHORTEST <= value <= _LONGEST:
        raise ValueError(f"seconds are numbers between {_SHORTEST:g} and {_LONGEST:,.0f}")
    return float(value)


def _text(words: str) -> str:
    """`words` on one line, and not too long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in words[: 4 * _MOST_CHARACTERS]).split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
