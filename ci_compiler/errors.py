"""Findings: what is wrong, where, and the line that reports it.

A `Finding` is one problem at one place; an `InputError` carries the findings that stop a command. Only the commands in
`ci_compiler.cli` print and exit: they turn findings into lines on standard error and into an `ExitCode`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from os import PathLike, fspath
from typing import NamedTuple, Self

from ci_compiler.codes import Code, Severity
from ci_compiler.secret import hide_secrets


class ExitCode(IntEnum):
    """The exit code of a command, with its meaning in the reference."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """The exit code `code`."""
        self = int.__new__(cls, code)
        self._value_ = code
        self.meaning = meaning
        return self

    DONE = 0, "done"
    FINDINGS = 1, "findings, or drift"
    WRONG_INPUT = 2, "the input is wrong; nothing was written"
    RUNNER_DEPRECATED = 7, "`ci-runner start`: GitHub no longer serves the runner's version"
    """The exit code of actions/runner itself in this case."""
    INTERRUPTED = 130, "interrupted from the keyboard"
    """As in shells: 128 plus the number of SIGINT."""


class Place(NamedTuple):
    """A position in a text: `file` as the user would name it, `line` and `column` from 1 (0: the whole file)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


LONGEST = 1_000
"""The most characters of a message, and of the name of a place."""


def shortened(text: str, most: int = LONGEST) -> str:
    """`text` with at most some more than `most` characters: its middle is left out. Secrets in the rest are hidden."""
    if len(text) <= most:
        return text
    head, tail = hide_secrets(text[: 2 * most])[: most * 2 // 3], hide_secrets(text[-2 * most :])[-most // 3 :]
    return f"{head} … ({len(text):,} characters) … {tail}"


def escaped(text: str) -> str:
    """`text` in one line of printable characters, so that a terminal takes nothing in it for a command."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem: its `code`, and a one-line `message` that says what is wrong and what is right.

    `tolerated`: the command continues, although the code is an error elsewhere.
    """

    place: Place
    code: Code
    message: str
    tolerated: bool = False

    def __post_init__(self) -> None:
        """Shortens what is far longer than any message: it repeats a value from outside."""
        if len(self.message) > LONGEST or len(self.place.file) > LONGEST:
            object.__setattr__(self, "message", shortened(self.message))
            object.__setattr__(self, "place", self.place._replace(file=shortened(self.place.file)))

    @property
    def severity(self) -> Severity:
        """That of the code; a warning if the finding is tolerated."""
        return Severity.WARNING if self.tolerated else self.code.severity

    def __str__(self) -> str:
        """The line for standard error without the severity: `file:line:column: message [code]`.

        Control characters are escaped, and secrets are hidden.
        """
        return escaped(hide_secrets(f"{self.place}: {self.message} [{self.code}]"))


class InputError(Exception):
    """The input is wrong: one or more findings. The command writes nothing and exits with 2."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))


def about(where: Place | str | PathLike[str], code: Code, message: str) -> Finding:
    """A finding at a place, or about a file (or an option, a host, an argument) as a whole."""
    return Finding(place=where if isinstance(where, Place) else Place(file=fspath(where)), code=code, message=message)


def wrong(where: Place | str | PathLike[str], code: Code, message: str) -> InputError:
    """An error with one finding, as `about` makes it."""
    return InputError([about(where, code, message)])


def unknown(code: Code, name: str, known: Iterable[str]) -> str:
    """The message about a `name` that is not among `known`; `code` is `unknown-KIND`."""
    return f"unknown {code.removeprefix('unknown-')} {name!r}{nearest(name, known)}"


def check_known(where: str, code: Code, name: str, known: Collection[str]) -> None:
    """Raises InputError about the argument `where` if `name` is not among `known`; `code` is `unknown-KIND`."""
    if name not in known:
        raise wrong(where, code, unknown(code, name, known))


def raise_any(findings: Iterable[Finding]) -> None:
    """Raises InputError with `findings` if there are any."""
    if all_ := list(findings):
        raise InputError(all_)


class StageError(Exception):
    """A stage on a machine failed: findings, and `tail`, the last lines of the log. The command exits with 1."""

    def __init__(self, findings: Sequence[Finding], *, tail: Sequence[str] = ()) -> None:
        self.findings = tuple(findings)
        self.tail = tuple(tail)
        super().__init__("\n".join(map(str, self.findings)))


def failure(what: str, code: Code, message: str, *, tail: Sequence[str] = ()) -> StageError:
    """The error with one finding about `what`: a variant, a file, a store path."""
    return StageError([about(what, code, message)], tail=tail)


def nearest(name: str, known: Iterable[str], *, label: str = "did you mean", only_near: bool = False) -> str:
    """The clause that suggests the known names nearest to `name`.

    If none is near, it lists all names, or is '' with `only_near`. It is '' if there are no names.
    """
    from difflib import get_close_matches  # only messages need it

    names, plain = sorted(set(known)), _plain(name)
    folded = {one.casefold(): one for one in reversed(names)}
    near = [one for one in names if _plain(one) == plain]
    parts = [
        one for one in names if plain[2:] and " " not in name and plain in _plain(one) and len(one) <= 3 * len(plain)
    ]
    near = near or sorted(parts, key=len)[:3]
    near = near or [folded[one] for one in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if near:
        odd = next((f" (U+{ord(char):04X} in it only looks like it)" for char in name if not char.isascii()), "")
        return f"; {label} {' or '.join(near)}?{odd}"
    if not names or only_near:
        return ""
    shown = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    return f"; known are {shown}"


def _plain(name: str) -> str:
    """`name` without case and separators, which people write in other ways."""
    return "".join(filter(str.isalnum, name.casefold()))
