"""A checkout as it is on disk, read without git: its branch, and what can be at a path."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

_LONGEST = 10_000
"""The most bytes of a file that names a branch or a folder."""


def head_branch(root: Path) -> str:
    """The branch that the checkout at `root` is on; '' if it is on none."""
    text = git_text(root, "HEAD")
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def rebased_branch(root: Path) -> str:
    """The branch that a rebase in the checkout at `root` will move when it ends; '' if there is none."""
    found = git_text(root, "rebase-merge/head-name") or git_text(root, "rebase-apply/head-name")
    return found.removeprefix("refs/heads/")


def git_text(root: Path, file: str) -> str:
    """The text of a file of git for the checkout at `root`; '' if there is none."""
    try:
        return _line(git_folder(root) / file)
    except (OSError, ValueError):  # no checkout, or files that git did not write
        return ""


def checkout_around(folder: Path) -> Path:
    """The nearest checkout from `folder` upwards; `folder` itself if there is none."""
    whole = folder.resolve()
    return next((one for one in (whole, *whole.parents) if (one / ".git").exists()), folder)


def git_folder(root: Path) -> Path:
    """`.git`, or the folder that the file of this name in a linked worktree points to. Raises OSError, ValueError."""
    entry = root / ".git"
    if entry.is_file():
        return root / _line(entry).removeprefix("gitdir: ")
    return entry


def _line(path: Path) -> str:
    """The text of a small file. Raises OSError for what is no file, and ValueError for a large one."""
    if not path.is_file():  # opening a pipe would block
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(path)
    return text.decode().strip()


class EntryKind(StrEnum):
    """What is at a path, in words; '' if there is nothing."""

    NOTHING = ""
    FILE = "file"
    FOLDER = "directory"
    LINK = "symbolic link"
    SUBMODULE = "submodule"
    OTHER = "special file"
