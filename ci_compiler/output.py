"""Compiled files against the tree: what would change, what stands in the way, and changing it all at once.

A file is ours when its first line says so. Files that are not ours are never touched: where one stands in the way, the
compile stops before it writes. Files that are ours and no longer made are removed. Nothing is written while anything is
wrong, and several files change in one step: a copy of their folder (foreign files linked, not copied) is made beside it
and the two are exchanged by one system call, so that a compile that is killed leaves the old tree or the new.
"""

from __future__ import annotations

import ctypes
import difflib
import errno
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Never

from ci_compiler.errors import Finding, InputError, Place

MARK = "Compiled by ci-compile"
"""What the first line of every file of ours says, behind the comment sign of its kind."""

_OURS = re.compile(rb"(?:#|//|;|<!--) " + re.escape(MARK.encode()) + rb"\b")
_STAGING = ".ci-compile-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """Where files of ours may stand: a folder from the repository's root, and a pattern of names in it.

    `swap` is the folder that is exchanged as a whole when something in it changes.
    """

    folder: str
    pattern: str
    swap: str


GITHUB = (
    Territory(folder=".github", pattern="*.yaml", swap=".github"),
    Territory(folder=".github", pattern="*.yml", swap=".github"),
    Territory(folder=".github", pattern="*.md", swap=".github"),
    Territory(folder=".github", pattern=".gitattributes", swap=".github"),
    Territory(folder=".github/workflows", pattern="*.yml", swap=".github"),
    Territory(folder=".github/actions", pattern="*/action.yml", swap=".github"),
)
FLOX = (
    Territory(folder=".flox/pkgs", pattern="*.nix", swap=".flox/pkgs"),
    Territory(folder=".flox/pkgs", pattern=".gitattributes", swap=".flox/pkgs"),
)


class Kind(StrEnum):
    """How a file changes."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file that differs: its path from the root, its text before and after (None: no such file)."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> Kind:
        """Added, changed or removed."""
        if self.before is None:
            return Kind.ADDED
        return Kind.REMOVED if self.after is None else Kind.CHANGED


def compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[Change, ...]:
    """What writing `files` under `root` would change, by path. Raises InputError where something is in the way."""
    findings: list[Finding] = []
    changes = [change for path, text in files.items() if (change := _against(root, path, text, findings))]
    changes += [
        Change(path=path, before=before, after=None)
        for territory in territories
        for path, before in _ours(root, territory)
        if path not in files
    ]
    if findings:
        raise InputError(findings)
    return tuple(sorted(changes, key=lambda change: change.path))


def differences(changes: Iterable[Change]) -> Iterator[str]:
    """The changes as lines of a unified diff."""
    for change in changes:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        old = f"a/{change.path}" if change.before is not None else "/dev/null"
        new = f"b/{change.path}" if change.after is not None else "/dev/null"
        yield from difflib.unified_diff(list(before), list(after), old, new, lineterm="")


def apply(root: Path, changes: Sequence[Change], territories: Sequence[Territory]) -> None:
    """Writes `changes` under `root`, each folder of the territories in one step. Raises InputError where it cannot."""
    swaps = sorted({territory.swap for territory in territories})
    for swap in swaps:
        mine = [change for change in changes if change.path.startswith(f"{swap}/")]
        if mine:
            try:
                _sweep(root / swap)
                _apply(root, swap, mine)
            except OSError as error:
                place = Place(file=os.fspath(error.filename or swap))
                message = f"cannot be written: {error.strerror}; nothing in {swap} was changed"
                raise InputError([Finding(place=place, code="cannot-write", message=message)]) from error


def holds_ours(root: Path, territories: Sequence[Territory]) -> bool:
    """Whether any file of ours stands in the territories."""
    return any(is_ours(path) for territory in territories for path in (root / territory.folder).glob(territory.pattern))


def marked(data: bytes) -> bool:
    """Whether a file of this content is ours."""
    return _OURS.match(data) is not None


def is_ours(path: Path) -> bool:
    """Whether the file at `path` says in its first line that it is compiled."""
    try:
        with path.open("rb") as file:
            return marked(file.read(256))
    except OSError:
        return False


# Comparing.


def _against(root: Path, path: str, text: str, findings: list[Finding]) -> Change | None:
    """The change that `text` makes at `path`, None for none; a finding where something foreign stands there."""
    target = root / path
    if problem := _obstacle(root, path):
        findings.append(Finding(place=Place(file=path), code="in-the-way", message=problem))
        return None
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        return Change(path=path, before=None, after=text)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        findings.append(Finding(place=Place(file=path), code="in-the-way", message=message))
        return None
    if data == text.encode():
        return None
    if not marked(data):
        message = "was not written by ci-compile and is in the way; move it, or delete it"
        findings.append(Finding(place=Place(file=path), code="in-the-way", message=message))
        return None
    return Change(path=path, before=data.decode(errors="replace"), after=text)


def _obstacle(root: Path, path: str) -> str:
    """What about `path` or the folders above it keeps a file from being written there; '' for nothing."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        folder = root / parent
        if folder.is_symlink():
            return f"its folder {parent} is a symbolic link, which ci-compile does not write through"
        if folder.exists() and not folder.is_dir():
            return f"its folder {parent} is a file"
    target = root / path
    if target.is_symlink():
        return "is a symbolic link, which ci-compile does not write through"
    return "is a directory" if target.is_dir() else ""


def _ours(root: Path, territory: Territory) -> Iterator[tuple[str, str]]:
    """The files of ours in `territory`, with their text."""
    folder = root / territory.folder
    if folder.is_symlink():
        return
    for file in sorted(folder.glob(territory.pattern)):
        if not file.is_symlink() and file.is_file() and is_ours(file):
            yield file.relative_to(root).as_posix(), file.read_text("utf-8", errors="replace")


# Writing.


def _apply(root: Path, swap: str, changes: Sequence[Change]) -> None:
    folder = root / swap
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING}{folder.name}-{os.getpid()}-", dir=folder.parent))
    try:
        if len(changes) == 1 and folder.is_dir():
            _apply_one(root, staging, changes[0])
            return
        copy = staging / folder.name
        _stage(folder, copy, {change.path.removeprefix(f"{swap}/"): change.after for change in changes})
        if folder.exists():
            _exchange(copy, folder)
        else:
            copy.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _apply_one(root: Path, staging: Path, change: Change) -> None:
    target = root / change.path
    if change.after is None:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = staging / target.name
    fresh.write_text(change.after, "utf-8", newline="\n")
    fresh.replace(target)


def _stage(folder: Path, copy: Path, texts: Mapping[str, str | None]) -> None:
    """`copy` becomes what `folder` shall be: files that do not change are linked, folders keep their modes."""
    if folder.is_dir():
        shutil.copytree(folder, copy, symlinks=True, copy_function=_link)
    else:
        copy.mkdir()
    for name, text in texts.items():
        target = copy / name
        target.unlink(missing_ok=True)
        if text is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8", newline="\n")
            continue
        if not any(target.parent.iterdir()) and target.parent != copy:
            target.parent.rmdir()


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _sweep(folder: Path) -> None:
    """Removes what a compile that was killed left beside `folder`; one that still runs keeps its own."""
    for left in folder.parent.glob(f"{_STAGING}{folder.name}-*"):
        pid = left.name.removeprefix(f"{_STAGING}{folder.name}-").split("-")[0]
        if not pid.isdigit() or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchanges two folders in one step where the kernel can (Linux' renameat2), else by two renames."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        at_cwd, exchange = -100, 2
        if libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0:
            return
        code = ctypes.get_errno()
        if code not in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
            _fail(code, other)
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def _fail(code: int, path: Path) -> Never:
    raise OSError(code, os.strerror(code), os.fspath(path))
