"""A checkout as it is on disk, read without git: its branch, and what can be at a path."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from ci_compiler.outside import text_of

_LONGEST = 10_000
"""The most bytes of a file that names a branch or a folder."""


def head_branch(root: Path) -> str:
    """The branch that the checkout at `root` is on; '' if it is on none."""
    try:
        text = _line(_git_folder(root) / "HEAD")
    except (OSError, ValueError):  # no checkout, or files that git did not write
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def _git_folder(root: Path) -> Path:
    """`.git`, or the folder that the file of this name in a linked worktree points to."""
    entry = root / ".git"
    if entry.is_file():
        return root / _line(entry).removeprefix("gitdir: ")
    return entry


def _line(path: Path) -> str:
    """The text of a small file. Raises OSError."""
    return text_of(path, _LONGEST).strip()


class EntryKind(StrEnum):
    """What is at a path, in words; '' if there is nothing."""

    NOTHING = ""
    FILE = "file"
    FOLDER = "directory"
    LINK = "symbolic link"
    SUBMODULE = "submodule"
    OTHER = "special file"
