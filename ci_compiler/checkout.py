"""A checkout as it is on disk, read without git: where it is, its branch, and what can be at a path.

It uses `os.path`, which answers False where pathlib raises an error, as for a folder that cannot be entered.
"""

from __future__ import annotations

import os
from enum import StrEnum

_LONGEST = 10_000
"""The most bytes of a file that names a branch or a folder."""


def checkout_around(folder: str | os.PathLike[str]) -> str:
    """The nearest checkout from `folder` upwards; `folder` itself if there is none."""
    here = os.path.realpath(folder)
    while not os.path.exists(os.path.join(here, ".git")):
        if here == (here := os.path.dirname(here)):
            return os.fspath(folder)
    return here


def head_branch(root: str | os.PathLike[str]) -> str:
    """The branch that the checkout at `root` is on; '' if it is on none."""
    text = git_text(root, "HEAD")
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def rebased_branch(root: str | os.PathLike[str]) -> str:
    """The branch that a rebase in the checkout at `root` will move when it ends; '' if there is none."""
    found = git_text(root, "rebase-merge/head-name") or git_text(root, "rebase-apply/head-name")
    return found.removeprefix("refs/heads/")


def git_text(root: str | os.PathLike[str], file: str) -> str:
    """The text of a file of git for the checkout at `root`; '' if there is none."""
    try:
        return _line(f"{git_folder(root)}/{file}")
    except (OSError, ValueError):  # no checkout, or files that git did not write, or a path with a NUL
        return ""


def git_folder(root: str | os.PathLike[str]) -> str:
    """`.git`, or the folder that the file of this name in a linked worktree points to. Raises OSError or ValueError."""
    entry = os.path.join(root, ".git")
    if os.path.isfile(entry):
        return os.path.join(root, _line(entry).removeprefix("gitdir: "))
    return entry


def shared_git_folder(folder: str) -> str:
    """The git folder that all worktrees share, by the git folder of one. Raises OSError or ValueError."""
    entry = f"{folder}/commondir"
    return os.path.join(folder, _line(entry)) if os.path.exists(entry) else folder


def _line(path: str) -> str:
    """The text of a small file. Raises OSError for what is no file, and ValueError for a large one."""
    if not os.path.isfile(path):  # opening a pipe would block
        raise FileNotFoundError(path)
    with open(path, "rb") as file:
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
