"""The identifiers, members and paths that a Nix file mentions, found among its tokens.

The stand-in for nixpkgs (`standin/`) must know all names beforehand, since Nix cannot catch the use of a missing
attribute. So the names are read from the recipes, and each unknown name becomes a made-up package. A superfluous name
does no harm; a missing one makes an evaluation fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_EXPRESSION = re.compile(
    r"""
      (?P<skip>\s+)
    | (?P<comment>\#[^\n]*|/\*.*?\*/)
    | (?P<update>//)
    | (?P<path>(?:\.{1,2}|~)?(?:/[\w.+-]+)+/?|[\w.+-]+(?:/[\w.+-]+)+|<[\w.+/-]+>)
    | (?P<name>[A-Za-z_][\w'-]*)
    | (?P<number>\d[\d.]*)
    | (?P<open>\$?\{)
    | (?P<mark>''|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_STRING = re.compile(r'(?P<text>(?:[^"\\$]|\\.|\$(?!\{))+)|(?P<open>\$\{)|(?P<end>")', re.DOTALL)
_INDENTED = re.compile(
    r"(?P<text>(?:'''|''\$|''\\.|[^'$]|'(?!')|\$\$|\$(?!\{))+)|(?P<open>\$\{)|(?P<end>'')", re.DOTALL
)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w'-]*")
_NOT_LOOKED_UP = frozenset(
    {"assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"}
    | {"abort", "builtins", "false", "import", "map", "null", "throw", "toString", "true"}
)


class Token(NamedTuple):
    """A token of a Nix file: its kind ("name", "string", "path", "mark" or "comment"), and where it starts."""

    kind: str
    text: str
    start: int = 0


_NOTHING = Token("mark", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentions:
    """What one or several Nix files mention.

    `names`: identifiers that may be looked up in nixpkgs; `members`: those selected from something, as `b` in `a.b`;
    `paths`: path literals as written. A name that is only tested for (`a ? b`, `a.b or c`) is not included: it may be
    missing.
    """

    names: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def together(cls, several: Iterable[Mentions]) -> Mentions:
        """What several files mention."""
        listed = tuple(several)
        return cls(
            names=frozenset().union(*(one.names for one in listed)),
            members=frozenset().union(*(one.members for one in listed)),
            paths=frozenset().union(*(one.paths for one in listed)),
        )


@lru_cache(maxsize=1024)  # an audit reads most texts twice: as they are, and as compiled
def mentions(text: str) -> Mentions:
    """What the text of a Nix file mentions; for text that is not Nix, what can be recognised."""
    names, members, paths = set(), set(), set()
    tokens = [_NOTHING, _NOTHING, _NOTHING, *(token for token in tokens_of(text) if token.kind != "comment"), _NOTHING]
    inherited = _inherited(tokens)
    for at in range(3, len(tokens) - 1):
        kind, word, _ = tokens[at]
        if kind == "path":
            paths.add(word)
        elif word not in _NOT_LOOKED_UP and _IDENTIFIER.fullmatch(word):
            last = tokens[at - 1].text
            # `{ a ? b }:` gives a default; `a ? b` tests for `b`.
            asked = last == "?" and tokens[at - 3].text not in {"{", ","}
            if asked or (last == "." and tokens[at + 1].text == "or"):
                continue
            names.add(word)
            if last == "." or at in inherited:
                members.add(word)
    return Mentions(names=frozenset(names), members=frozenset(members), paths=frozenset(paths))


def _inherited(tokens: list[Token]) -> set[int]:
    """The positions of the names after `inherit (…)`, which are members of what is in the parentheses."""
    found: set[int] = set()
    for start, token in enumerate(tokens[:-1]):
        if token[:2] == ("name", "inherit") and tokens[start + 1].text == "(":
            depth = 0
            for at in range(start + 1, len(tokens)):
                word = tokens[at].text
                depth += (word == "(") - (word == ")")
                if depth == 0 and word == ";":
                    break
                if depth == 0 and word != ")":
                    found.add(at)
    return found


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of an expression, including those in the `${…}` of its strings, and comments."""
    inside: list[str] = []  # what closes each open brace or string
    position = 0
    while position < len(text):
        pattern = {'"': _STRING, "''": _INDENTED}.get(inside[-1] if inside else "", _EXPRESSION)
        match = pattern.match(text, position)
        if match is None:
            return
        position = match.end()
        kind, word = match.lastgroup, match.group()
        if kind == "skip":
            continue
        if kind == "open":
            inside.append("}")
        elif kind == "mark" and word in {'"', "''"}:
            inside.append(word)
        elif inside and (kind == "end" or word == "}"):
            inside.pop()
        if kind == "text":
            yield Token("string", word, match.start())
        else:
            yield Token(kind if kind in {"name", "path", "comment"} else "mark", word, match.start())
