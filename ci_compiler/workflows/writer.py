"""YAML text: a tree of mappings, sequences and scalars in the block style in which people write workflows.

It covers only what workflows need: strings, integers, booleans, nested mappings and sequences, remarks after a value,
and a blank line between jobs. Text that YAML 1.1 or 1.2 could read as something else is quoted, so that every reader
agrees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Self

Node = str | int | bool | None | Mapping[str, "Node"] | Sequence["Node"]
"""The values that can be written. None is a key without a value (`workflow_dispatch:`)."""

WIDTH = 120
"""The most columns of a line of a sequence of plain words."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN = re.compile(r"(?:[A-Za-z_$/(]|\./)(?:[A-Za-z0-9_ $./@{}()'\"!=&|<>,*+~^%?\[\];-]|:(?=[^ ]))*(?<![ :])")
_FLOW = re.compile(r"[A-Za-z_$/][A-Za-z0-9_$./@*+=~^%-]*")
_BLOCK = re.compile(r"[!-~][ -~\t]*(?:\n+[ \t]*[!-~][ -~\t]*)*\n?")
"""Lines that a block (`|`) can hold: none only of blanks, the first not indented, at most one line break at the end."""

_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class Remarked(str):
    """A string that is followed by a remark (`# v7.0.1`)."""

    __slots__ = ("remark",)
    remark: str

    def __new__(cls, text: str, remark: str) -> Self:
        """`text` with `remark`, both on one line."""
        self = super().__new__(cls, text)
        self.remark = remark
        return self


class Spaced(dict[str, Node]):
    """A mapping that is written with a blank line between its entries."""


def dump(document: Mapping[str, Node], *, header: Sequence[str] = ()) -> str:
    """The YAML text of `document` after the lines of `header` as comments, with blank lines around top-level blocks."""
    lines = [f"# {line}" if line else "#" for line in header]
    apart = False
    for key, value in document.items():
        block = isinstance(value, Mapping) and bool(value)
        if lines and (apart or block):
            lines.append("")
        _entry(key, value, "", lines)
        apart = block
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Node, indent: str, lines: list[str]) -> None:
    head = f"{indent}{_key(key)}:"
    if isinstance(value, str):
        _string(head, value, indent, lines)
    elif not isinstance(value, (list, tuple)) and isinstance(value, (dict, Mapping)):
        # exact types come first: checks against abstract classes are slow
        if not value:
            lines.append(f"{head} {{}}")
        elif pair := _flow_pair(value):
            lines.append(f"{head} {pair}")
        else:
            lines.append(head)
            _mapping(value, indent + "  ", lines)
    elif isinstance(value, (list, Sequence)):
        if all(isinstance(item, str) and _is_word(item) for item in value):
            _words(head, value, indent, lines)
            return
        lines.append(head)
        _sequence(value, indent + "  ", lines)
    else:
        lines.append(head if value is None else f"{head} {_scalar(value)}")


def _mapping(value: Mapping[str, Node], indent: str, lines: list[str]) -> None:
    apart = isinstance(value, Spaced)
    for index, (key, item) in enumerate(value.items()):
        if apart and index:
            lines.append("")
        if type(item) is str and "\n" not in item:  # the usual case, in place of two calls
            lines.append(f"{indent}{_key(key)}: {quoted(item)}")
        else:
            _entry(key, item, indent, lines)


def _sequence(value: Iterable[Node], indent: str, lines: list[str]) -> None:
    for item in value:
        if isinstance(item, (str, int)):
            lines.append(f"{indent}- {_scalar(item)}")
        elif isinstance(item, (dict, Mapping)):
            start = len(lines)
            _mapping(item, indent + "  ", lines)
            lines[start] = f"{indent}- {lines[start].lstrip()}"
        else:
            message = "an item of a sequence must be a mapping or a scalar"
            raise TypeError(message)


def _string(head: str, value: str, indent: str, lines: list[str]) -> None:
    if "\n" in value and _BLOCK.fullmatch(value):
        lines.append(f"{head} |" if value.endswith("\n") else f"{head} |-")
        lines.extend(f"{indent}  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
        return
    remark = f" # {value.remark}" if isinstance(value, Remarked) else ""
    lines.append(f"{head} {quoted(value)}{remark}")


def _words(head: str, words: Iterable[Node], indent: str, lines: list[str]) -> None:
    """`[a, b]` after `head`, on as many lines as it takes."""
    line = f"{head} ["
    for index, word in enumerate(words):
        if index and len(line) + len(str(word)) + 2 > WIDTH:
            lines.append(f"{line},")
            line = f"{indent}  {word}"
        else:
            line += f", {word}" if index else str(word)
    lines.append(f"{line}]")


def _flow_pair(value: Mapping[str, Node]) -> str:
    """`{a: b}` for one plain word without a remark; '' for anything else."""
    if len(value) != 1 or isinstance(value, Spaced):
        return ""
    ((key, item),) = value.items()
    return f"{{{_key(key)}: {item}}}" if type(item) is str and _is_word(item) else ""


@lru_cache(maxsize=65536)
def _is_word(text: str) -> bool:
    return _FLOW.fullmatch(text) is not None and text.lower() not in _WORDS


@lru_cache(maxsize=4096)
def _key(key: str) -> str:
    plain = _KEY.fullmatch(key) and (key == "on" or key.lower() not in _WORDS)  # GitHub's own key is always plain
    return key if plain else _escaped(key)


def _scalar(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else quoted(value)


@lru_cache(maxsize=65536)
def quoted(text: str) -> str:
    """`text` as a YAML scalar on one line: plain if every reader takes it for a string, else in quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return str(text)
    if '"' in text and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return _escaped(text)


def _escaped(text: str) -> str:
    """`text` in double quotes, with unprintable characters escaped."""
    return "".join(
        char if char.isprintable() else f"\\U{ord(char):08x}" for char in json.dumps(text, ensure_ascii=False)
    )
