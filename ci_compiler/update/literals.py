"""Edits of the string literals and comments of Nix files; every other byte stays as it is."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_compiler.backends.nar import base32
from ci_compiler.errors import Place
from ci_compiler.recipes.identifiers import Token, tokens_of

Swaps = Mapping[str, str]
"""The new text of each version, revision or hash."""

HASH = re.compile(r"sha(?:256|512)-[A-Za-z0-9+/]{43,}=*|\b[0-9a-df-np-sv-z]{52}\b|\b[0-9a-f]{64}\b")

_COMPARING = frozenset({"compareVersions", "versionAtLeast", "versionOlder"})
_ENDS = frozenset(";,(){}[]")
_BEFORE, _AFTER = r"(?<![\w.])(v??)", r"(?![\w+]|\.\d|-?(?:rc|alpha|beta|dev|pre)\d*\b)"
_REQUIRED = re.compile(r"[<>=!~]=\s*$")


def swapped(text: str, swaps: Swaps, *, requirements: bool = True) -> str:
    """`text` with `swaps`; 2.9.1 is neither in 12.9.1 nor in 2.9.1rc1. `requirements`: also in `name==2.9.1`."""
    if not (known := {old: new for old, new in swaps.items() if old and old in text}):
        return text
    longest = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))

    def new(found: re.Match[str]) -> str:
        required = not requirements and _REQUIRED.search(text, 0, found.start())
        return found[0] if required else found[1] + known[found[2]]

    return re.sub(f"{_BEFORE}({longest}){_AFTER}", new, text)


def edited(path: Path, text: str, swaps: Swaps) -> str:
    """`text` of the file `path` with `swaps` in its literals and comments, in JSON anywhere."""
    if path.suffix != ".nix":
        return swapped(text, swaps)
    made, end = [], 0
    for token in literals(text):
        made += [text[end : token.start], swapped(token.text, swaps, requirements=False)]
        end = token.start + len(token.text)
    return "".join([*made, text[end:]])


def literals(text: str) -> Iterator[Token]:
    """The literal parts of strings, and the comments, without names of attributes and what a value is compared with."""
    tokens = [Token("mark", "")] * 2 + [*tokens_of(text)] + [Token("mark", "")] * 2
    is_compared = False
    for before, last, token, _, after in zip(*(tokens[at:] for at in range(5)), strict=False):
        if token.kind == "mark" and token.text in _ENDS:
            is_compared = False
        elif token.text in _COMPARING or (token.text == "=" and last.text in {"=", "!"}):
            is_compared = True
        is_name = before.text == "." or after.text in {".", "=", "!"}
        if token.kind == "comment" or (token.kind == "string" and not (is_compared or is_name)):
            yield token


def in_form(old: str, new: str) -> str:
    """The hash `new` (sha256-BASE64) in the form of `old`: in hexadecimal, in Nix's own base 32, or as it is."""
    digest = base64.b64decode(new.removeprefix("sha256-"))
    if len(old) == 64:
        return digest.hex()
    return base32(digest) if len(old) == 52 else new


def hashes(path: Path, text: str) -> Iterator[tuple[str, Place]]:
    """The hashes in the literals of a Nix file, with their places."""
    for token in literals(text):
        for match in HASH.finditer(token.text if token.kind == "string" else ""):
            start = token.start + match.start()
            line = text.count("\n", 0, start) + 1
            yield match[0], Place(str(path), line, start - text.rfind("\n", 0, start))
