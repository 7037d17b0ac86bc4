"""Reading what an engine, and the toolkit in its images, answer. What cannot be read is an EngineError.

A shape is a function that makes a value of what was parsed, attribute by attribute. It may raise whatever Python raises
for an attribute that is missing or of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ci_compiler.hardware.texts import plain
from ci_compiler.outside import WRONG_FORM, json_of
from ci_compiler.process import Ended
from ci_compiler.runner.controller.engine import EngineError
from ci_compiler.runner.controller.runner_names import LABEL

MOST, LONGEST = 4_000_000, 300
"""The most characters of an answer that is read, and of a line of it that is shown."""

NAME = r"([A-Za-z0-9][A-Za-z0-9_./-]{0,254})"
"""The pattern of a name that can be an argument of a command: of a container, a volume, a GPU."""

_Made = TypeVar("_Made")


def read(text: str, shape: Callable[[Any], _Made], who: str, parse: Callable[[str], Any] = json_of) -> _Made:
    """The value that `shape` makes of `text`, an answer of `who`. Raises EngineError."""
    try:
        if len(text) <= MOST:
            return shape(parse(text))
    except WRONG_FORM:
        pass
    raise EngineError(f"{who}: its answer cannot be read: {text[:60]!a}")


def from_toolkit(answer: Ended, shape: Callable[[Any], _Made], fails: str) -> _Made:
    """The value that `shape` makes of what the toolkit of an image prints. Raises EngineError: `fails`, and why."""
    try:
        return read(answer.out, shape, "")
    except EngineError:
        raise EngineError(f"{fails}: {plain(answer.said)[:LONGEST] or f'exit code {answer.status}'}") from None


def last_line(text: str) -> str:
    """The last line of `text` that says something, fit to show; '' if none does."""
    return next(filter(None, map(plain, reversed(text.splitlines()))), "")[:LONGEST]


# For shapes.


def matched(pattern: str, value: Any) -> str:
    """What the group of `pattern` matches in all of the text `value`."""
    match = re.fullmatch(pattern, value)
    if match is None:
        raise ValueError(pattern)
    return match[1]


def number(value: Any) -> int:
    """A whole number, also one that is the text of a label; '' counts as 0."""
    return int(matched("(-?[0-9]{0,15})", str(value)) or 0)


def own_labels(value: Mapping[str, Any]) -> dict[str, str]:
    """The controller's own among the labels of a container or volume."""
    return {key: matched(r"([A-Za-z0-9_.,/-]{0,9999})", one) for key, one in value.items() if key.startswith(LABEL)}
