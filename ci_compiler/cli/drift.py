"""How changes to compiled files are told: drift with the command that mends it, and counts of what was written."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_compiler.cli.console import note

if TYPE_CHECKING:
    from ci_compiler.files.drift import FileChange


def report_drift(
    changes: Sequence[FileChange], arguments: argparse.Namespace, words: Sequence[str] = (), program: str = "ci-compile"
) -> int:
    """A line a file that is not as compiled, then the command that mends them; returns the exit code."""
    from ci_compiler.files.drift import ChangeKind

    what = {
        ChangeKind.ADDED: "is missing",
        ChangeKind.CHANGED: "is not as compiled",
        ChangeKind.REMOVED: "is no longer compiled",
    }
    for change in changes:
        note(f"{change.path}: drift {what[change.kind]}")
    if not changes:
        return 0
    command = [program, *words]
    for option in ("branch", "output", "root", "spec"):
        if (value := getattr(arguments, option, None)) is not None:
            command += [f"--{option}", str(value)]
    count = f"{len(changes)} file{'s' if len(changes) > 1 else ''}"
    note(f"{count} drifted; `{shlex.join(command)}` mends it")
    return 1


def told(changes: Sequence[FileChange], files: int) -> str:
    """`2 added, 1 removed, 31 unchanged`, of so many files in all."""
    from ci_compiler.files.drift import ChangeKind

    kinds = Counter(change.kind for change in changes)
    unchanged = files - kinds[ChangeKind.ADDED] - kinds[ChangeKind.CHANGED]
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ChangeKind if kinds[kind])
    return f"{counts}, {unchanged} unchanged" if counts else f"all {unchanged} unchanged"
