"""Findings grouped by their cause: the same mistake in fifty files is one cause, which counts fifty files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.units import counted

MOST_NAMED = 2
"""The most further files that a line names; it counts the others."""

_PARTICULARS = re.compile(r"\(.*\)|'[^']*'|; .*|/\S+|[\w.+]*-[\w.+-]*")
"""What differs between messages with the same cause: names of variants and systems, the advice after the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCause:
    """One cause of `findings`, which have the same code and are sorted by place. `message` describes it."""

    code: Code
    message: str
    findings: tuple[Finding, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that have it, each once."""
        return tuple(dict.fromkeys(one.place.file for one in self.findings))

    @property
    def line(self) -> Finding:
        """The finding to print: at the first place, with the names of further files, or their number."""
        others = self.files[1:]
        if len(others) > MOST_NAMED:
            others = (*others[: MOST_NAMED - 1], f"{len(others) - MOST_NAMED + 1:,} more files")
        also = f" (also in {' and '.join(others)})" if others and self.message == self.findings[0].message else ""
        return Finding(place=self.findings[0].place, code=self.code, message=f"{self.message}{also}")


def causes_of(findings: Iterable[Finding]) -> tuple[AuditCause, ...]:
    """The causes of `findings`, by the place of the first finding of each."""
    groups: dict[tuple[Code, str], list[Finding]] = {}
    for one in sorted(set(findings), key=_order):
        groups.setdefault((one.code, _PARTICULARS.sub("", one.message)), []).append(one)
    return tuple(
        AuditCause(code=code, message=all_[0].message, findings=tuple(all_)) for (code, _), all_ in groups.items()
    )


def tally(causes: Iterable[AuditCause], noun: str) -> str:
    """How many causes there are, and in how many files: `2 defects in 14 files`."""
    all_ = list(causes)
    files = {file for one in all_ for file in one.files}
    return f"{counted(len(all_), noun)} in {counted(len(files), 'file')}"


def _order(finding: Finding) -> tuple[object, ...]:
    return (finding.place, finding.code, finding.message)
