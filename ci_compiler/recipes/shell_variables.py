"""The variables that a build's shell code sets, read without running it.

Recipes put compiler flags and switches into hooks such as `preConfigure`, as `export CXXFLAGS="$CXXFLAGS -mavx2"`. The
values are those that the compiler sees in the end, so assignments are followed in order. A variable that is not set yet
stays as `$NAME` in the value, which shows what was put before and after it. Conditions are not evaluated: a line inside
an `if` counts.
"""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Hooks and phases in the order in which a build runs them. They share a shell, so exports last.
PHASES = (
    "postUnpack", "prePatch", "patchPhase", "postPatch", "preConfigure", "configurePhase", "postConfigure", "preBuild",
    "buildPhase",
)  # fmt: skip

_PIECE = r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\{[^}]*\}|\$\([^()]*\)|`[^`]*`|[^\s;&|()<>'"\\`])"""
_TOKEN = re.compile(
    rf"""
      (?P<blank>[ \t\r]+|\\\n)
    | (?P<comment>\#[^\n]*)
    | (?P<heredoc><<-?[ \t]*(?P<quote>['"]?)(?P<word>\w+)(?P=quote))
    | (?P<end>\n|[;&|()]+)
    | (?P<redirect>\d?[<>]+&?\d?)
    | (?P<text>{_PIECE}+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_QUOTED = re.compile(
    r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?P<bare>[^'"\\]+)""", re.DOTALL
)
_VARIABLE = re.compile(
    r"\\(?P<escaped>[$`\"\\\n])|\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?(?P<operator>[-+])(?P<rest>[^}]*))?\})"
)
_LEADING = frozenset({"then", "do", "else", "if", "while", "!", "{", "time"})
_ADDING = frozenset({"appendToVar", "prependToVar"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


def exported(text: str, before: Mapping[str, str]) -> dict[str, str]:
    """The environment after `text`, by variable, given the environment `before` it."""
    known, visible = dict(before), set(before)
    for line in _commands(text):
        command = list(itertools.dropwhile(_LEADING.__contains__, line))
        if not command:
            continue
        if command[0] in _ADDING and len(command) > 2:
            _add(command, known)
            continue
        declares = command[0] in _DECLARING
        assigned = [(word, _ASSIGNMENT.fullmatch(word)) for word in (command[1:] if declares else command)]
        if not declares and not all(match for _, match in assigned):
            continue  # a command, perhaps with variables for itself only
        exports = command[0] == "export" or (declares and "-x" in command)
        for word, match in assigned:
            name = match[1] if match else word
            if match:
                known[name] = (known.get(name, "") if match[2] else "") + _expanded(match[3], known)
            if exports and name in known:
                visible.add(name)
    return {name: known[name] for name in sorted(visible)}


def _add(command: list[str], known: dict[str, str]) -> None:
    """`appendToVar NAME WORD…` and `prependToVar`, from nixpkgs' setup script."""
    name, before = command[1], known.get(command[1], "")
    added = " ".join(_expanded(word, known) for word in command[2:])
    known[name] = (f"{added} {before}" if command[0] == "prependToVar" else f"{before} {added}").strip()


def words(text: str) -> tuple[str, ...]:
    """The words of a variable's value, such as a list of compiler flags, without those that are just `$NAME`."""
    try:
        split = shlex.split(text)
    except ValueError:  # a quote that is never closed
        split = text.split()
    return tuple(word for word in split if not re.fullmatch(r"\$\w+", word))


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a text, each a list of words that still have their quotes."""
    command: list[str] = []
    awaited: list[str] = []  # delimiters of here-documents that begin on the next line
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:  # `other` takes any character: not reached
            break
        position = match.end()
        kind, token = match.lastgroup, match.group()
        if match["heredoc"]:
            awaited.append(match["word"])
        elif match["text"]:
            command.append(token)
        elif kind == "end":
            yield command
            command = []
            while "\n" in token and awaited:
                position = _after_document(text, position, awaited.pop(0))
    yield command


def _after_document(text: str, position: int, end: str) -> int:
    """Where the here-document that begins at `position` ends."""
    match = re.compile(rf"^\t*{re.escape(end)}[ \t]*$\n?", re.MULTILINE).search(text, position)
    return match.end() if match else len(text)


def _expanded(raw: str, known: Mapping[str, str]) -> str:
    """A word's value: without quotes, with known variables substituted."""
    value = ""
    for found in _QUOTED.finditer(raw):
        if found["escaped"] is not None:
            value += "" if found["escaped"] == "\n" else found["escaped"]
        elif found["single"] is not None:
            value += found["single"]
        else:
            value += _VARIABLE.sub(lambda match: _variable(match, known), found["double"] or found["bare"] or "")
    return value


def _variable(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match["escaped"] is not None:
        return "" if match["escaped"] == "\n" else match["escaped"]
    name = match["plain"] or match["braced"]
    value = known.get(name)
    if match["operator"] == "+":
        return match["rest"] if value else ""
    if match["operator"] == "-" and not value:
        return match["rest"]
    return f"${name}" if value is None else value
