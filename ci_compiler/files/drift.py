"""Compiled files against the tree: what would change, what stands in the way, and changing it all at once.

A file is ours when its first line says so. Files that are not ours are never touched: where one stands in the way, the
compile stops before it writes. Files that are ours and no longer made are removed. Nothing is written while anything is
wrong, and the files of a territory change in one step (`disk`). Compiles of one folder wait for one another.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place

MARK = "Compiled by ci-compile"
"""What the first line of every file of ours says, behind the comment sign of its kind."""

FOREIGN = "was not written by ci-compile and is in the way; move it, or delete it"
"""What is said of a file that is not ours and stands where one of ours shall."""

_OURS = re.compile(rb"(?:#|//|;|<!--) " + re.escape(MARK.encode()) + rb"\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """A folder from the root of the repository that changes in one step, and patterns of the files of ours in it."""

    folder: str
    patterns: tuple[str, ...]

    def may_hold(self, path: str) -> bool:
        """Whether `path`, from the repository's root, is of the form of a file of ours."""
        pure = PurePosixPath(path)
        own = (PurePosixPath(self.folder) / pattern for pattern in self.patterns)
        return any(len(pure.parts) == len(one.parts) and pure.match(str(one)) for one in own)


GITHUB = Territory(
    folder=".github",
    patterns=("*.yaml", "*.yml", "*.md", ".gitattributes", "workflows/*.yml", "actions/*/action.yml"),
)
FLOX = Territory(folder=".flox/pkgs", patterns=("*.nix", ".gitattributes"))


class ChangeKind(StrEnum):
    """How a file changes."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file that differs: its path from the root, its text before and after (None: no such file)."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> ChangeKind:
        """Added, changed or removed."""
        if self.before is None:
            return ChangeKind.ADDED
        return ChangeKind.REMOVED if self.after is None else ChangeKind.CHANGED


def compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[FileChange, ...]:
    """What writing `files` under `root` would change, by path. Raises InputError where something is in the way.

    Waits until no compile writes there, so that each territory is seen before one or behind it.
    """
    with ExitStack() as locks:
        for folder in sorted({(root / territory.folder).parent for territory in territories}):
            locks.enter_context(_locked(folder, fcntl.LOCK_SH))
        return _compare(root, files, territories)


def differences(changes: Iterable[FileChange]) -> Iterator[str]:
    """The changes as lines of a unified diff."""
    for change in changes:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        old = f"a/{change.path}" if change.before is not None else "/dev/null"
        new = f"b/{change.path}" if change.after is not None else "/dev/null"
        yield from difflib.unified_diff(list(before), list(after), old, new, lineterm="")


def apply(
    root: Path, files: Mapping[str, str], changes: Sequence[FileChange], territories: Sequence[Territory]
) -> None:
    """Makes the `changes` by which `files` differ from `root`, each territory's in one step.

    Raises InputError where that cannot be, or somebody else changed the files since they were compared.
    """
    from ci_compiler.files.atomic import cannot_write, sweep

    for territory in territories:
        sweep(root / territory.folder)
        mine = [change for change in changes if change.path.startswith(f"{territory.folder}/")]
        if mine:
            try:
                _apply(root, files, territory, mine)
            except OSError as error:
                raise cannot_write(error.filename or territory.folder, error) from error


def holds_ours(root: Path, territory: Territory) -> bool:
    """Whether any file of ours stands in `territory`."""
    return next(_ours(root, territory), None) is not None


def marked(data: bytes) -> bool:
    """Whether a file of this content is ours."""
    return _OURS.match(data) is not None


def is_ours(path: Path) -> bool:
    """Whether the file at `path` says in its first line that it is compiled."""
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            return False
        with path.open("rb") as file:
            return marked(file.read(256))
    except OSError:
        return False


def obstacle(root: Path, path: str) -> str:
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
    if target.is_dir():
        return "is a directory"
    return "is no plain file" if target.exists() and not target.is_file() else ""


# Comparing.


def _compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[FileChange, ...]:
    findings: list[Finding] = []
    changes = [change for path, text in files.items() if (change := _against(root, path, text, findings))]
    changes += [
        FileChange(path=path, before=before, after=None)
        for territory in territories
        for path, before in _ours(root, territory)
        if path not in files
    ]
    if findings:
        raise InputError(findings)
    return tuple(sorted(changes, key=lambda change: change.path))


def _against(root: Path, path: str, text: str, findings: list[Finding]) -> FileChange | None:
    """The change that `text` makes at `path`, None for none; a finding where something foreign stands there."""
    target = root / path
    if problem := obstacle(root, path):
        findings.append(Finding(place=Place(file=path), code=Code.IN_THE_WAY, message=problem))
        return None
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        return FileChange(path=path, before=None, after=text)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        findings.append(Finding(place=Place(file=path), code=Code.IN_THE_WAY, message=message))
        return None
    if data == text.encode():
        return None
    if not marked(data):
        findings.append(Finding(place=Place(file=path), code=Code.IN_THE_WAY, message=FOREIGN))
        return None
    return FileChange(path=path, before=data.decode(errors="replace"), after=text)


def _ours(root: Path, territory: Territory) -> Iterator[tuple[str, str]]:
    """The files of ours in `territory`, with their text."""
    for pattern in territory.patterns:
        for file in sorted((root / territory.folder).glob(pattern)):
            path = file.relative_to(root).as_posix()
            if is_ours(file) and not obstacle(root, path):
                yield path, file.read_text("utf-8", errors="replace")


# Writing.


def _apply(root: Path, files: Mapping[str, str], territory: Territory, changes: Sequence[FileChange]) -> None:
    from ci_compiler.files.atomic import change_folder  # which a check does not need

    folder = root / territory.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent, fcntl.LOCK_EX):
        due = _still_due(root, files, territory, changes)
        change_folder(folder, {(root / change.path).relative_to(folder).as_posix(): change.after for change in due})


def _still_due(
    root: Path, files: Mapping[str, str], territory: Territory, changes: Sequence[FileChange]
) -> tuple[FileChange, ...]:
    """The `changes` that no other compile has made meanwhile. Raises InputError where one changed anything else.

    All is compared anew, behind the lock: the changes are those of a tree that may be gone.
    """
    mine = {path: text for path, text in files.items() if path.startswith(f"{territory.folder}/")}
    now = _compare(root, mine, [territory])
    message = "was changed while this compile was at work; run it again"
    if other := [change.path for change in now if change not in changes]:
        raise InputError(Finding(place=Place(file=path), code=Code.IN_THE_WAY, message=message) for path in other)
    return now


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    """Waits for a lock on `folder`: LOCK_SH to read what lies in it, LOCK_EX to write.

    The kernel takes it back from a process that is killed.
    """
    handle = None
    with suppress(OSError):  # no such folder, or none that may be read; a file system without locks
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, kind)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
