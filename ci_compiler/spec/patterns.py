"""Patterns of variant names, as a shell has them: `*`, `?`, `[90]`, `[!9]` and `{90,100}`, nested to any depth.

A pattern with braces becomes an automaton, whose states are sets of places in the pattern. The time of a match is
proportional to the length of the name, however many alternatives the braces have.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from functools import cache

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.units import reached

_TOKEN = re.compile(r"\[!?\]?[^\]{}]*\]|.", re.DOTALL)
_TOKEN_IN_BRACES = re.compile(r"\[!?\]?[^\]{},]*\]|.", re.DOTALL)
"""A class of characters, or one character; braces divide a class, as do commas within braces."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """A test of names against `pattern`. Raises ValueError for unbalanced braces."""
    if pattern == "*":
        return lambda _: True
    if "{" in pattern or "}" in pattern:
        return _Automaton(pattern).matches
    expression = re.compile(fnmatch.translate(pattern))
    return lambda name: expression.match(name) is not None


def matcher_of_any(patterns: Iterable[str], place: str = "PATTERN") -> Callable[[str], bool]:
    """A test of names against `patterns`, one of which must match.

    Raises InputError about `place`, which names them, for an empty one, and for unbalanced braces and brackets.
    """
    patterns = list(patterns)
    for one in patterns:
        if not one or ("[" in one and "]" not in one):
            said = "opens a bracket that it never closes" if one else "matches no name; `*` matches each"
            raise wrong(place, Code.WRONG_PATTERN, f"{one!r} {said}")
    try:
        tests = [matcher(pattern) for pattern in patterns]
    except ValueError as error:
        raise wrong(place, Code.WRONG_PATTERN, str(error)) from None
    return lambda name: any(test(name) for test in tests)


class _Automaton:
    """The automaton of a pattern: the step from a place reads a character, its jumps read none."""

    def __init__(self, pattern: str) -> None:
        self._steps: list[tuple[Callable[[str], object], int] | None] = []
        self._jumps: list[list[int]] = []
        self._final = self._read(pattern)
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._first = self._closed([0])

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole `name`."""
        places = self._first
        for char in name:
            key = places, char
            if key not in self._next:
                steps = (self._steps[place] for place in places)
                self._next[key] = self._closed([step[1] for step in steps if step and step[0](char)])
            places = self._next[key]
        return self._final in places

    def _place(self) -> int:
        self._steps.append(None)
        self._jumps.append([])
        return len(self._steps) - 1

    def _read(self, pattern: str) -> int:
        """Adds the places of `pattern` from 0 on, and returns the last. Raises ValueError for unbalanced braces."""
        at, position = self._place(), 0
        opened: list[tuple[int, list[int]]] = []  # for each brace, where it begins and where its alternatives end
        while match := (_TOKEN_IN_BRACES if opened else _TOKEN).match(pattern, position):
            part, position = match[0], match.end()
            if part == "{":
                opened.append((at, []))
                at = self._after(at)
            elif part == "}" and not opened:
                message = f"{pattern!r} closes a brace that it never opens"
                raise ValueError(message)
            elif part in {",", "}"} and opened:
                opened[-1][1].append(at)
                if part == ",":
                    at = self._after(opened[-1][0])
                    continue
                ends, at = opened.pop()[1], self._place()
                for end in ends:
                    self._jumps[end].append(at)
            elif part == "*":
                at = self._after(at)
                self._steps[at] = (lambda _: True, at)
                at = self._after(at)
            else:
                test = re.compile(fnmatch.translate(part)).match
                start, at = at, self._place()
                self._steps[start] = (test, at)
        if opened:
            message = f"{pattern!r} opens a brace that it never closes"
            raise ValueError(message)
        return at

    def _after(self, place: int) -> int:
        """A new place that `place` leads to without a character."""
        made = self._place()
        self._jumps[place].append(made)
        return made

    def _closed(self, places: Iterable[int]) -> frozenset[int]:
        """`places` and all that they lead to without a character."""
        return frozenset(reached(places, self._jumps.__getitem__))
