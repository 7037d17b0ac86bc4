"""What libyaml says about a text that is not YAML, in words for people, at the place that has to change."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

_SAID = {
    "mapping values are not allowed": (
        "a colon where no key can be: put text that contains `: ` in quotes, or compare the indentation"
    ),
    "another document": "a second document begins here; a spec is one document, so remove this line",
}
"""The messages for problems that need no more than a text."""

_OPENED = {"while parsing a flow mapping": "{", "while parsing a flow sequence": "["}


def explained(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """The line and column, from 1, and the message for `error` in `text`."""
    problem, context = (error.problem or "").strip(), (error.context or "").strip()
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    if mark is None:
        return 0, 0, f"not YAML: {problem or context or 'cannot be parsed'}"
    opened = error.context_mark or mark
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "node content" in problem and line[mark.column : mark.column + 1] == ",":
        return _at(mark, "nothing stands before this comma; remove it")
    if context in _OPENED and "expected" in problem:
        return _flow(_OPENED[context], opened, mark, line)
    if "unexpected end of stream" in problem and "quoted" in context:
        return _at(opened, "this quote is not closed; write a second one at the end of the text")
    if "could not find expected ':'" in problem:
        return _at(opened, f"{_quoted(lines, opened.line)} is no key with a value; write KEY: VALUE, with a blank")
    return _at(mark, _message(problem, context, line, mark.column, opened.line + 1))


def _message(problem: str, context: str, line: str, column: int, start: int) -> str:
    """The message for a problem at `column` of `line`; what contains it begins on the line `start`."""
    here = line[column : column + 1]
    word = (line[column:].split() or [""])[0].rstrip(",]}")
    if "cannot start any token" in problem:
        return "a tab; indent with spaces" if "\t" in line else f"no value begins with {here}; put the text in quotes"
    if "undefined alias" in problem:
        return f"{word} stands for a value marked &{word[1:]}, and there is none; put text that begins with * in quotes"
    if "unknown escape" in problem:
        escape = line[column + 1 : column + 2]
        return f"\\{escape} means nothing in double quotes; write \\\\, or use single quotes"
    if "did not find expected" in problem and "block" in context:
        what = "key" if "mapping" in context else "entry (-)"
        return f"this line is not indented as a {what} of what begins on line {start}; compare the lines above it"
    return next((said for part, said in _SAID.items() if part in problem), f"not YAML: {problem or context}")


def _flow(bracket: str, opened: yaml.Mark, mark: yaml.Mark, line: str) -> tuple[int, int, str]:
    """The message for a list or mapping in brackets that does not go on as it must at `mark`."""
    end = {"{": "}", "[": "]"}[bracket]
    here = line[mark.column : mark.column + 1]
    if here and here in "]}" and here != end:
        return _at(mark, f"{here} does not close the {bracket} of line {opened.line + 1}; write {end} before it")
    if mark.line == opened.line and here:
        return _at(mark, f"a comma is missing before this, or the {bracket} before it is not closed")
    return _at(opened, f"this {bracket} is not closed; write {end} at its end, and a comma between entries")


def _quoted(lines: Sequence[str], number: int) -> str:
    line = lines[number].strip() if number < len(lines) else ""
    return f"`{line if len(line) <= 40 else line[:39] + '…'}`"


def _at(mark: yaml.Mark, message: str) -> tuple[int, int, str]:
    return mark.line + 1, mark.column + 1, message
