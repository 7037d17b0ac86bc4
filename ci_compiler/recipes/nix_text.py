"""Nix text: strings escaped where they are made, lists and sets laid out as a Nix programmer would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

WIDTH = 80
"""Columns up to which a list is written in one line."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*")
_KEYWORDS = frozenset({"assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"})


def string(text: str) -> str:
    """`text` as a Nix string in double quotes (Nix manual, string literals)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def escape_lines(text: str) -> str:
    """`text` so that it stands for itself in a string between two single quotes."""
    return text.replace("''", "'''").replace("${", "''${")


def comment(text: str) -> str:
    """`text` as a comment line; a line break in it would end the comment, so there is none."""
    return "# " + " ".join(text.split())


def words(items: Sequence[str]) -> str:
    """A list of strings, in one line or one an entry."""
    if not items:
        return "[ ]"
    line = f"[ {' '.join(map(string, items))} ]"
    return line if len(line) <= WIDTH else block("[", map(string, items), "]")


def attributes(values: Mapping[str, str]) -> str:
    """A set of `values`, Nix expressions by name."""
    return block("{", (f"{name(key)} = {value};" for key, value in values.items()), "}") if values else "{ }"


def name(text: str) -> str:
    """`text` as an attribute's name, in quotes where it is no identifier."""
    return text if _IDENTIFIER.fullmatch(text) and text not in _KEYWORDS else string(text)


def block(head: str, entries: Iterable[str], tail: str) -> str:
    """`entries`, each indented by two, between `head` and `tail`."""
    return "\n".join([head, *map(indent, entries), tail])


def indent(text: str) -> str:
    """`text` with every line that holds anything moved right by two."""
    return "\n".join(f"  {line}" if line else line for line in text.split("\n"))


def lines(texts: Iterable[str]) -> str:
    """A string between two single quotes, on lines of its own; `texts` are escaped already."""
    return block("''", (text for group in texts for text in group.rstrip("\n").split("\n")), "''")
