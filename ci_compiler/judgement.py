"""How a check of a machine ended."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class Judgement(NamedTuple):
    """A check's verdict, what was found, and, for a failure, how to fix it; each one line."""

    verdict: CheckVerdict
    message: str
    fix: str = ""

    @property
    def failed(self) -> bool:
        """Whether the check failed."""
        return self.verdict is CheckVerdict.FAILED


def ok(message: str) -> Judgement:
    """The check passed, as `message` shows."""
    return Judgement(verdict=CheckVerdict.OK, message=message)


def failed(message: str, fix: str) -> Judgement:
    """The check failed; `fix` says how to fix it."""
    return Judgement(verdict=CheckVerdict.FAILED, message=message, fix=fix)


def skipped(reason: str) -> Judgement:
    """The check does not apply, for `reason`."""
    return Judgement(verdict=CheckVerdict.SKIPPED, message=reason)
