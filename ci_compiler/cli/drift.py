"""Reports on changes to compiled files: drift with the command that fixes it, and counts of what was written."""

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
    """Prints a line for each file that drifted, then the command that fixes them; returns the exit code."""
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
    note(f"{count} drifted; run `{shlex.join(command)}`")
    return 1


def counts_of(changes: Sequence[FileChange], files: int) -> str:
    """The counts of `changes` among `files` files: `2 added, 1 removed, 31 unchanged`."""
    from ci_compiler.files.drift import ChangeKind

    kinds = Counter(change.kind for change in changes)
    unchanged = files - kinds[ChangeKind.ADDED] - kinds[ChangeKind.CHANGED]
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ChangeKind if kinds[kind])
    return f"{counts}, {unchanged} unchanged" if counts else f"all {unchanged} unchanged"
