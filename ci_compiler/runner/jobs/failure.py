"""How a stage fails: findings for standard error, exit code 1; and the folder that it leaves its files in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, wrong


class StageError(Exception):
    """The stage failed: what and why, one line a finding, and `tail`, the last lines of the log that shows it."""

    def __init__(self, findings: Sequence[Finding], *, tail: Sequence[str] = ()) -> None:
        self.findings = tuple(findings)
        self.tail = tuple(tail)
        super().__init__("\n".join(map(str, self.findings)))


def failure(what: str, code: Code, message: str, *, tail: Sequence[str] = ()) -> StageError:
    """The error of one finding about `what`: a variant, a file, a store path."""
    return StageError([Finding(place=Place(file=what), code=code, message=message)], tail=tail)


def output_folder(folder: Path, stale: Iterable[str]) -> None:
    """Makes the folder that a stage leaves its files in, without those of an earlier run. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be written to: {error.strerror}"
        raise wrong(folder, Code.CANNOT_WRITE, message) from None
