"""Findings grouped by their cause: the same mistake in fifty files is one cause, which counts fifty files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about
from ci_compiler.units import counted, grouped

MOST_NAMED = 2
"""The most further files that a line names; it counts the others."""

_PARTICULARS = re.compile(r"\(.*\)|'[^']*'|; .*|/\S+|[\w.+]*-[\w.+-]*")
"""What differs between messages with the same cause: names of variants and systems, the advice after the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of `findings`, which have the same code. `message` describes it."""

    code: Code
    message: str
    findings: tuple[Finding, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that have it, each once."""
        return tuple(dict.fromkeys(finding.place.file for finding in self.findings))

    @property
    def line(self) -> Finding:
        """The finding to print: at the first place, with the names of further files, or their number."""
        others = self.files[1:]
        if len(others) > MOST_NAMED:
            others = (*others[: MOST_NAMED - 1], f"{len(others) - MOST_NAMED + 1:,} more files")
        also = f" (also in {' and '.join(others)})" if others and self.message == self.findings[0].message else ""
        return about(self.findings[0].place, self.code, f"{self.message}{also}")


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, each once, sorted by place."""
    return sorted(set(findings), key=lambda finding: (finding.place, finding.code, finding.message))


def causes_of(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """The causes of `findings`, by the place of the first finding of each."""
    groups = grouped(by_place(findings), lambda finding: (finding.code, _PARTICULARS.sub("", finding.message)))
    return tuple(Cause(code=same[0].code, message=same[0].message, findings=tuple(same)) for same in groups.values())


def tally(causes: Iterable[Cause], noun: str) -> str:
    """How many causes there are, and in how many files: `2 defects in 14 files`."""
    files = [cause.files for cause in causes]
    return f"{counted(len(files), noun)} in {counted(len({file for names in files for file in names}), 'file')}"
