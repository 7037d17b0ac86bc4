"""Durations, sizes, counts and Markdown tables, each written one way everywhere; groups, and versions as numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

GB = 10**9
"""Bytes in a gigabyte, as the spec counts them and as memory and disks are sold."""

_LIVE = re.compile(r"((?<![\w.+-])[\w.+-]*(?:@(?=\w)|://|\bwww\.)[^\s`|\\<>]*[\w/])")
"""A mention or an address without markup: GitHub Flavored Markdown, "Autolinks (extension)"."""


def duration(seconds: float) -> str:
    """A length of time in words: `40 s`, `12 min`, `3 h 5 min`; to the minute from two minutes on."""
    sign = "-" if round(seconds) < 0 else ""
    whole = round(abs(seconds))
    if whole < 120:
        return f"{sign}{whole} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return sign + " ".join([f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0))


def machine_hours(seconds: float) -> str:
    """The hours that machines work, as a number: `5.3`, `1,234`; with tenths below ten."""
    hours = seconds / 3600
    return f"{hours:,.0f}" if abs(hours) >= 10 else f"{hours:.1f}"


def size(count: int) -> str:
    """`count` bytes in words, rounded down: `124.3 GB`, `400 MB`, `5 kB`, `12 B`; gigabytes to the tenth."""
    if count >= GB:
        return f"{gigabytes(count):.15g} GB"
    unit, divisor = next((unit for unit in (("MB", 10**6), ("kB", 1000)) if count >= unit[1]), ("B", 1))
    return f"{count // divisor} {unit}"


def gigabytes(count: int) -> float:
    """`count` bytes in gigabytes, rounded down to the tenth."""
    return count * 10 // GB / 10


def counted(number: int, noun: str, several: str = "") -> str:
    """`1 variant`, `1,234 variants`; `several` is the plural if it is not `noun` with an s."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def some(names: Sequence[str], noun: str) -> str:
    """How many `names` there are, and the first five of them."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{counted(len(names), noun)} ({', '.join(names[:5])}{more})"


def guess(packages: Sequence[str]) -> str:
    """What a figure says of the packages whose minutes, which enter it, are marked as guessed; '' for none."""
    shown = ", ".join(packages) if len(packages) <= 3 else counted(len(packages), "package")
    return f" (guessed minutes: {shown})" if packages else ""


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: int = 0) -> str:
    """A Markdown table without a final newline, its last `right` columns aligned to the right.

    A cell is Markdown: it is put on one line, and a bare `|` in it is escaped. `markdown_text` escapes plain words.
    """
    rule = ["---"] * (len(headers) - right) + ["--:"] * right
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in (headers, rule, *rows))


def markdown_text(words: str) -> str:
    """`words` as Markdown that shows them as they are, in a table as well.

    What GitHub would make a link or a mention without any markup (`@org/team`, an address) becomes code.
    """
    shown = "".join(char if char.isprintable() else " " for char in words)
    parts = _LIVE.split(shown)
    plain = (re.sub(r"([\\`*_{}\[\]<>#|&!~$])", r"\\\1", part) for part in parts[::2])
    return "".join(
        text for pair in zip(plain, [*(f"`{part}`" for part in parts[1::2]), ""], strict=True) for text in pair
    )


def _cell(content: object) -> str:
    line = " ".join(str(content).split())
    return re.sub(r"(\\.)|\|", lambda found: found[1] or r"\|", line) if "|" in line else line


def reached(starts: Iterable[Key], next_to: Callable[[Key], Iterable[Key]]) -> dict[Key, None]:
    """`starts` and what they lead to, directly and transitively, each once, the nearest first."""
    found: dict[Key, None] = {}
    waiting = list(starts)
    for one in waiting:  # which grows meanwhile
        if one not in found:
            found[one] = None
            waiting += next_to(one)
    return found


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """`values` by their keys, both in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def numbers(version: str) -> tuple[int, ...]:
    """All numbers in `version`, by which versions of one form are ordered: 2.10.0 is 2, 10, 0."""
    return tuple(map(int, re.findall("[0-9]+", version)))


def release(version: str) -> tuple[int, ...]:
    """The numbers of the last version in `version` (`nix (Nix) 2.28.3` is 2, 28, 3); () if there is none."""
    found = re.findall(r"(?<![0-9.])[0-9]{1,6}(?:\.[0-9]{1,6})+", version)
    return tuple(map(int, found[-1].split("."))) if found else ()
