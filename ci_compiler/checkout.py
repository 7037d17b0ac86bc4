"""A checkout as it is on disk, read without git: its branch, and what can be at a path."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


def head_branch(root: Path) -> str:
    """The branch that the checkout at `root` is on; '' if it is on none."""
    try:
        text = (_git_folder(root) / "HEAD").read_text("utf-8").strip()
    except (OSError, ValueError):  # no checkout, or files that git did not write
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def _git_folder(root: Path) -> Path:
    """`.git`, or the folder that the file of this name in a linked worktree points to."""
    entry = root / ".git"
    if entry.is_file():
        return root / entry.read_text("utf-8").strip().removeprefix("gitdir: ")
    return entry


class EntryKind(StrEnum):
    """What is at a path, in words; '' if there is nothing."""

    NOTHING = ""
    FILE = "file"
    FOLDER = "directory"
    LINK = "symbolic link"
    SUBMODULE = "submodule"
    OTHER = "special file"
