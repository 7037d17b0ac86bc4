"""The texts of this machine: its files, and what its programs answer."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ci_compiler.errors import InputError
from ci_compiler.outside import text_of as read_text
from ci_compiler.process import PAST_LIMIT, Ended, ask, located


class Answer(Ended):
    """The answer of a program: its exit status and both of its outputs."""

    @property
    def said(self) -> str:
        """The first line on standard error, or else on standard output; '' if it printed nothing."""
        lines = (plain(line) for text in (self.err, self.out) for line in text.splitlines())
        return next(filter(None, lines), "")

    @property
    def printed(self) -> str:
        """Standard output; '' if the program failed."""
        return "" if self.status else self.out


MISSING = Answer(status=127)
"""In place of the answer of a program that does not exist, where that makes no difference."""


def plain(line: str) -> str:
    """A line fit to print: without colours, control characters and runs of blanks."""
    colourless = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)
    return " ".join("".join(char if char.isprintable() else " " for char in colourless).split())


def answer(*command: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> Answer | None:
    """The answer of `command`; None if there is no such program.

    The status is 124 if it does not end within `seconds`, 126 if it cannot be started.
    """
    program = located(command[0])
    if program is None:
        return None
    environment = {**(os.environ if env is None else env), "LC_ALL": "C"}
    try:
        ended = ask([program, *command[1:]], seconds=seconds, env=environment)
    except InputError as error:
        return Answer(status=126, err=error.findings[0].message)
    if ended.status == PAST_LIMIT:
        return Answer(PAST_LIMIT, err=f"did not answer within {seconds:g} s")
    return Answer(ended.status, ended.out, ended.err)


def printed(*command: str) -> str:
    """What `command` prints; '' if it fails or does not exist."""
    return (answer(*command) or MISSING).printed


def heard(*command: str) -> str:
    """What `command` prints, however it ends: a warning gives some tools another status than 0."""
    return (answer(*command) or MISSING).out


def text_of(path: str | Path) -> str:
    """The text of a file; '' if it does not exist or cannot be read."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


_LOGS = (("journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=cat"), ("dmesg",))


def kernel_log() -> str:
    """The kernel's log since the boot; '' if it cannot be read, as by most users and in most containers.

    The journal keeps what the kernel's own buffer has lost, and gets new lines later, so that some come twice.
    """
    return "".join(heard(*command) for command in _LOGS)
