"""What libyaml says about a text that is not YAML, in words for people, at the place that has to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import yaml

_SAID = {
    "mapping values are not allowed": (
        "a colon where no key can be: put text that contains `: ` in quotes, or compare the indentation"
    ),
    "another document": "a second document begins here; a spec is one document, so remove this line",
    "expected <document start>": "the document ended above this line; remove the line or the bracket that ended it",
    "alphabetic or numeric": "* begins an alias; write `- ` before each entry of a list, and put other text in quotes",
}
"""The messages for problems that need no more than a text."""

_NOTHING = {
    ",": "nothing stands before this comma; remove it",
    "": "the text ends within brackets; write ] or } at the end of what they hold",
}
"""The messages for a place without a value, by the character there."""

_CLOSES = "nothing is open that this {} closes; remove it"

_MISPLACED = {
    "]": _CLOSES.format("]"),
    "}": _CLOSES.format("}"),
    '"': "a text in quotes where a key must be; write `- ` before each entry of a list",
    "'": "a text in quotes where a key must be; write `- ` before each entry of a list",
    "-": "an entry of a list (-) among keys; write KEY: VALUE, or compare the indentation",
}
"""The messages for a line that a block of keys does not go on with, by its first character."""

_CONFLICT = re.compile(r"(?:<{7}|\|{7}|={7}|>{7})(?: |$)")
"""A line that git writes between the sides of a conflict."""

_BLANK = re.compile(r"[\u00a0\u2000-\u200b\u202f\u3000\ufeff]")
"""A character that looks like a blank or like nothing, and is text to YAML."""

_NO_COLON = re.compile(
    r"(?:- +)?(?P<key>[A-Za-z_][\w.-]*)(?P<sign>:(?=\S)| *= *| *\uff1a *| +)(?P<value>[^\s=\uff1a].*?)(?: +#.*)?",
    re.ASCII,
)
"""A key and a value without the colon and the blank that part them; a comment may follow."""

_TWO_KEYS = re.compile(r"\s*(?:- +)?[\w.-]+: +[^\s:,]+ +(?=[\w.-]+:(?: |$))")
"""A key with its value, before a second key on the same line."""

_COMMENT = re.compile(r"//|/\*|--|;")
"""What begins a comment in other languages."""

_OPENED = {"while parsing a flow mapping": "{", "while parsing a flow sequence": "["}


def explained(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """The line and column, from 1, and the message for `error` in `text`."""
    problem, context = (error.problem or "").strip(), (error.context or "").strip()
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    if mark is None:
        return 0, 0, f"not YAML: {problem or context or 'cannot be parsed'}"
    opened = error.context_mark or mark
    earlier = _conflict(lines) or _odd_blank(lines, mark.line) or _long_quote(text, mark)
    earlier = earlier or _without_colon(lines, mark.line, problem) or _other_text(lines, opened, mark, problem)
    if earlier:
        return earlier
    line = lines[mark.line] if mark.line < len(lines) else ""
    if context in _OPENED and "expected" in problem:
        return _flow(_OPENED[context], opened, mark, line)
    if "unexpected end of stream" in problem and "quoted" in context:
        return _at(opened, "this quote is not closed; write a second one at the end of the text")
    if "could not find expected ':'" in problem:
        cause = _quoted(lines, opened.line)
        return _at(opened, f"{cause} is no key with a value; write KEY: VALUE, with a blank")
    return _at(mark, _message(problem, context, line, mark.column, opened))


def _conflict(lines: Sequence[str]) -> tuple[int, int, str] | None:
    """The first line that git wrote for a conflict."""
    number = next((number for number, line in enumerate(lines, 1) if _CONFLICT.match(line)), 0)
    said = (
        "git left a conflict here; keep one side of it, and remove the lines that git wrote (<<<<<<<, =======, >>>>>>>)"
    )
    return (number, 1, said) if number else None


def _odd_blank(lines: Sequence[str], last: int) -> tuple[int, int, str] | None:
    """A blank of another kind in the last two lines with text up to `last`."""
    for number in _with_text(lines, last)[-2:]:
        if match := _BLANK.search(lines[number]):
            looks = "is invisible, and text to YAML; remove it"
            if match[0] not in "\u200b\ufeff":
                looks = "looks like a blank and is none to YAML; write a blank, or remove it"
            said = f"U+{ord(match[0]):04X} {looks}"
            return number + 1, match.start() + 1, said
    return None


def _long_quote(text: str, mark: yaml.Mark) -> tuple[int, int, str] | None:
    """A text in quotes that begins above the line of `mark` and ends on it, by the quote that opens another one."""
    with suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=yaml.CBaseLoader):
            start, end = token.start_mark, token.end_mark
            if isinstance(token, yaml.ScalarToken) and token.style in {'"', "'"} and start.line < end.line == mark.line:
                return _at(start, f"this quote is not closed on its line, but on line {end.line + 1}; close it here")
    return None


def _without_colon(lines: Sequence[str], last: int, problem: str) -> tuple[int, int, str] | None:
    """A key without a colon, or without the blank after it, in the last two lines with text up to `last`."""
    if not ("mapping values" in problem or "expected ':'" in problem):
        return None
    for number in _with_text(lines, last)[-2:]:
        line = lines[number]
        match = _NO_COLON.fullmatch(line.strip())
        if match and (match["sign"] == ":" or ": " not in f"{line} "):
            sign = match["sign"].strip()
            wrong = "the blank after this colon is missing" if sign == ":" else f"{sign} is no colon to YAML"
            right = f"{match['key']}: {match['value']}"
            return (
                number + 1,
                line.index(match["key"]) + 1,
                f"{wrong if sign else 'a colon is missing'}; write {_cut(right)}",
            )
    return None


def _other_text(lines: Sequence[str], opened: yaml.Mark, mark: yaml.Mark, problem: str) -> tuple[int, int, str] | None:
    """A comment as other languages have it, or two keys on one line."""
    first, last = (lines[at.line] if at.line < len(lines) else "" for at in (opened, mark))
    if "expected ':'" in problem and _COMMENT.match(first.strip()):
        return _at(opened, "a comment begins with #")
    if "mapping values" in problem and (match := _TWO_KEYS.match(last)):
        return mark.line + 1, match.end() + 1, "a second key on this line; write it on a line of its own"
    return None


def _with_text(lines: Sequence[str], last: int) -> list[int]:
    """The numbers of the lines up to `last`, from 0, that are neither empty nor a comment."""
    return [number for number, line in enumerate(lines[: last + 1]) if line.strip() and line.strip()[0] != "#"]


def _message(problem: str, context: str, line: str, column: int, opened: yaml.Mark) -> str:
    """The message for a problem at `column` of `line`; what contains it begins at `opened`."""
    here = line[column : column + 1]
    word = (line[column:].split() or [""])[0].rstrip(",]}")
    if "cannot start any token" in problem:
        return "a tab; indent with spaces" if "\t" in line else f"no value begins with {here}; put the text in quotes"
    if "node content" in problem and here in _NOTHING:
        return _NOTHING[here]
    if "undefined alias" in problem:
        return f"{word} stands for a value marked &{word[1:]}, and there is none; put text that begins with * in quotes"
    if "unknown escape" in problem:
        escape = line[column + 1 : column + 2]
        return f"\\{escape} means nothing in double quotes; write \\\\, or use single quotes"
    if "did not find expected" in problem and "block" in context:
        return _in_block("keys" if "mapping" in context else "entries (-)", here, column, opened)
    return next((said for part, said in _SAID.items() if part in problem), f"not YAML: {problem or context}")


def _in_block(kind: str, here: str, column: int, opened: yaml.Mark) -> str:
    """The message for a line that does not go on the block that begins at `opened`; it begins with `here`."""
    if here in _MISPLACED and (kind == "keys" or here != "-"):
        return _MISPLACED[here]
    if column == opened.column:
        return (
            f"this line is not one of the {kind} of what begins on line {opened.line + 1}; compare the lines above it"
        )
    first = f"this line begins in column {column + 1}, and the {kind} from line {opened.line + 1} on in column"
    return f"{first} {opened.column + 1}; compare the lines above it"


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
    return _cut(lines[number].strip() if number < len(lines) else "")


def _cut(line: str) -> str:
    return f"`{line if len(line) <= 40 else line[:39] + '…'}`"


def _at(mark: yaml.Mark, message: str) -> tuple[int, int, str]:
    return mark.line + 1, mark.column + 1, message
