"""Patterns of variant names, as a shell has them: `*`, `?`, `[90]`, `[!9]` and `{90,100}`, nested as one likes."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from functools import cache

MOST_ALTERNATIVES = 4096
"""Alternatives of braces above which a pattern is refused: `{a,b}` twelve times over."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """A test of names against `pattern`. Raises ValueError for unbalanced or too many braces."""
    expression = re.compile("|".join(fnmatch.translate(plain) for plain in _alternatives(pattern)))
    return lambda name: expression.match(name) is not None


def matcher_of_any(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A test of names against `patterns`, one of which must match. Raises ValueError as `matcher` does."""
    tests = [matcher(pattern) for pattern in patterns]
    return lambda name: any(test(name) for test in tests)


def _alternatives(pattern: str) -> list[str]:
    """`pattern` with its braces multiplied out, in order."""
    waiting, done = [pattern], []
    while waiting:
        text = waiting.pop(0)
        span = _first_braces(text)
        if span is None:
            done.append(text)
            continue
        start, parts, end = span
        waiting[:0] = [text[:start] + part + text[end:] for part in parts]
        if len(waiting) + len(done) > MOST_ALTERNATIVES:
            message = f"{pattern!r} has more than {MOST_ALTERNATIVES} alternatives"
            raise ValueError(message)
    return done


def _first_braces(text: str) -> tuple[int, list[str], int] | None:
    """The first outermost braces: where they begin, their comma-separated parts, where they end."""
    start = text.find("{")
    if start < 0:
        if "}" in text:
            message = f"{text!r} closes a brace that it never opens"
            raise ValueError(message)
        return None
    depth, parts, begin = 0, [], start + 1
    for at in range(start, len(text)):
        char = text[at]
        depth += (char == "{") - (char == "}")
        if char in ",}" and depth == (char == ","):
            parts.append(text[begin:at])
            begin = at + 1
            if char == "}":
                return start, parts, at + 1
    message = f"{text!r} opens a brace that it never closes"
    raise ValueError(message)
