"""Nix text: strings, always escaped, and lists and sets in the layout that Nix programmers use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

WIDTH = 80
"""The longest list that is written on one line, in columns."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*")
_LINE = re.compile(r"^(?=[^\n])", re.MULTILINE)
_KEYWORDS = frozenset({"assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"})


def string(text: str) -> str:
    """`text` as a Nix string in double quotes (Nix manual, string literals)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


_IN_LINES = re.compile(r"'+(?=\$\{)|''|\$\{")
"""What means something else in an indented string. A lone quote before `${` would take the `''` that escapes it."""


def escape_lines(text: str) -> str:
    """`text` escaped for an indented string (`''…''`)."""

    def escaped(match: re.Match[str]) -> str:
        if match[0] == "${":
            return "''${"
        pairs, lone = divmod(len(match[0]), 2)
        return "'''" * pairs + "''\\'" * lone

    return _IN_LINES.sub(escaped, text)


def comment(text: str) -> str:
    """`text` as a comment on one line: line breaks, which would end the comment, become spaces."""
    return "# " + " ".join(text.split())


def words(items: Sequence[str]) -> str:
    """A list of strings, on one line or one line per entry."""
    return listed(list(map(string, items)))


def value(item: object, text: Callable[[str], str] = string) -> str:
    """A JSON value as a Nix expression; `text` makes the expression of a text."""
    if isinstance(item, str):
        return text(item)
    if item is None or isinstance(item, bool):
        return "null" if item is None else str(item).lower()
    if isinstance(item, Mapping):
        return attributes({key: value(one, text) for key, one in item.items()})
    if isinstance(item, Sequence):
        return listed([value(one, text) for one in item])
    return str(item) if item >= 0 else f"({item})"  # type: ignore[operator]


def listed(items: Sequence[str]) -> str:
    """A list of Nix expressions, on one line or one line per entry."""
    if not items:
        return "[ ]"
    line = f"[ {' '.join(items)} ]"
    return line if len(line) <= WIDTH and "\n" not in line else block("[", items, "]")


def attributes(values: Mapping[str, str]) -> str:
    """A set of `values`, Nix expressions by name."""
    return block("{", (f"{name(key)} = {value};" for key, value in values.items()), "}") if values else "{ }"


def name(text: str) -> str:
    """`text` as an attribute's name, quoted unless it is an identifier."""
    return text if _IDENTIFIER.fullmatch(text) and text not in _KEYWORDS else string(text)


def block(head: str, entries: Iterable[str], tail: str) -> str:
    """`entries`, each indented by two, between `head` and `tail`."""
    return "\n".join([head, *map(indent, entries), tail])


def indent(text: str) -> str:
    """`text` with every line that is not empty indented by two."""
    return _LINE.sub("  ", text) if "\n" in text else text and f"  {text}"


def lines(texts: Iterable[str]) -> str:
    """An indented string (`''…''`) of `texts`, which are escaped already."""
    return block("''", (text for group in texts for text in group.rstrip("\n").split("\n")), "''")
