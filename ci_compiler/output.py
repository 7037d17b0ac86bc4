"""Compiled files against the tree: what would change, what stands in the way, and changing it all at once.

A file is ours when its first line says so. Files that are not ours are never touched: where one stands in the way, the
compile stops before it writes. Files that are ours and no longer made are removed. Nothing is written while anything is
wrong, and several files change in one step: a copy of their folder (foreign files linked, not copied) is made beside it
and the two are exchanged by one system call, so that a compile that is killed leaves the old tree or the new. A file
system that cannot exchange gets them one by one, each in one step. Compiles of one folder wait for one another.
"""

from __future__ import annotations

import ctypes
import difflib
import errno
import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ci_compiler.errors import Finding, InputError, Place

MARK = "Compiled by ci-compile"
"""What the first line of every file of ours says, behind the comment sign of its kind."""

_OURS = re.compile(rb"(?:#|//|;|<!--) " + re.escape(MARK.encode()) + rb"\b")
_STAGING = ".ci-compile-"


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
    """What writing `files` under `root` would change, by path. Raises InputError where something is in the way.

    Waits until no compile writes there, so that each territory is seen before one or behind it.
    """
    with ExitStack() as locks:
        for folder in sorted({(root / territory.folder).parent for territory in territories}):
            locks.enter_context(_locked(folder, fcntl.LOCK_SH))
        return _compare(root, files, territories)


def differences(changes: Iterable[Change]) -> Iterator[str]:
    """The changes as lines of a unified diff."""
    for change in changes:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        old = f"a/{change.path}" if change.before is not None else "/dev/null"
        new = f"b/{change.path}" if change.after is not None else "/dev/null"
        yield from difflib.unified_diff(list(before), list(after), old, new, lineterm="")


def apply(root: Path, files: Mapping[str, str], changes: Sequence[Change], territories: Sequence[Territory]) -> None:
    """Makes the `changes` by which `files` differ from `root`, each territory's in one step.

    Raises InputError where that cannot be, or somebody else changed the files since they were compared.
    """
    for territory in territories:
        _sweep(root / territory.folder)
        mine = [change for change in changes if change.path.startswith(f"{territory.folder}/")]
        if mine:
            try:
                _apply(root, files, territory, mine)
            except OSError as error:
                place = Place(file=os.fspath(error.filename or territory.folder))
                message = f"cannot be written: {_reason(error)}"
                raise InputError([Finding(place=place, code="cannot-write", message=message)]) from error


def write_file(path: Path, text: str) -> None:
    """Writes the file `path`, in a folder that exists, in one step: it is what it was, or the whole new one.

    Raises OSError. A symbolic link there is replaced, never written through.
    """
    _sweep(path)
    staging = _staging(path)
    try:
        _replace(staging / path.name, path, text)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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


def _compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[Change, ...]:
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


def _against(root: Path, path: str, text: str, findings: list[Finding]) -> Change | None:
    """The change that `text` makes at `path`, None for none; a finding where something foreign stands there."""
    target = root / path
    if problem := obstacle(root, path):
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


def _ours(root: Path, territory: Territory) -> Iterator[tuple[str, str]]:
    """The files of ours in `territory`, with their text."""
    for pattern in territory.patterns:
        for file in sorted((root / territory.folder).glob(pattern)):
            path = file.relative_to(root).as_posix()
            if is_ours(file) and not obstacle(root, path):
                yield path, file.read_text("utf-8", errors="replace")


# Writing.


def _apply(root: Path, files: Mapping[str, str], territory: Territory, changes: Sequence[Change]) -> None:
    folder = root / territory.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent, fcntl.LOCK_EX):
        due = _still_due(root, files, territory, changes)
        staging = _staging(folder)
        try:
            _apply_staged(root, folder, staging, due)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _apply_staged(root: Path, folder: Path, staging: Path, changes: Sequence[Change]) -> None:
    if len(changes) < 2 and folder.is_dir():
        for change in changes:
            _apply_one(root, staging, change)
        return
    copy = staging / folder.name
    texts = {(root / change.path).relative_to(folder).as_posix(): change.after for change in changes}
    _stage(folder, copy, texts)
    if not folder.exists():
        copy.rename(folder)
    elif _exchange(copy, folder):
        _keep_late(copy, folder, texts)
    else:
        for name, text in texts.items():
            _move(copy / name, folder / name, gone=text is None)


def _apply_one(root: Path, staging: Path, change: Change) -> None:
    target = root / change.path
    if change.after is None:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(staging / target.name, target, change.after)


def _replace(fresh: Path, target: Path, text: str) -> None:
    fresh.write_text(text, "utf-8", newline="\n")
    fresh.replace(target)


def _move(fresh: Path, target: Path, *, gone: bool) -> None:
    if gone:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh.replace(target)


def _still_due(
    root: Path, files: Mapping[str, str], territory: Territory, changes: Sequence[Change]
) -> tuple[Change, ...]:
    """The `changes` that no other compile has made meanwhile. Raises InputError where one changed anything else.

    All is compared anew, behind the lock: the changes are those of a tree that may be gone.
    """
    mine = {path: text for path, text in files.items() if path.startswith(f"{territory.folder}/")}
    now = _compare(root, mine, [territory])
    message = "was changed while this compile was at work; run it again"
    if other := [change.path for change in now if change not in changes]:
        raise InputError(Finding(place=Place(file=path), code="in-the-way", message=message) for path in other)
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


def _staging(path: Path) -> Path:
    """A new folder beside `path` to make what it shall be; `_sweep` knows it by its name."""
    return Path(tempfile.mkdtemp(prefix=f"{_STAGING}{path.name}-{os.getpid()}-", dir=path.parent))


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


def _keep_late(old: Path, new: Path, texts: Mapping[str, str | None]) -> None:
    """Moves to `new` what somebody put into `old` while `new` was made: foreign files that are not linked there."""
    for late in sorted(old.rglob("*")):
        path = late.relative_to(old)
        if path.as_posix() in texts or (late.is_dir() and not late.is_symlink()) or _same(late, new / path):
            continue
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        late.replace(new / path)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are links to one file, or symbolic links to one place."""
    if one.is_symlink() and other.is_symlink():
        return one.readlink() == other.readlink()
    return os.path.lexists(other) and os.path.samestat(one.lstat(), other.lstat())


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _sweep(path: Path) -> None:
    """Removes what a compile that was killed left beside `path`; one that still runs keeps its own."""
    mine = f"{_STAGING}{path.name}-"
    try:
        left = [one for one in path.parent.iterdir() if one.name.startswith(mine)]
    except OSError:
        return
    for one in left:
        pid = one.name.removeprefix(mine).split("-")[0]
        if not pid.isdigit() or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(one, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step; False where the kernel or the file system cannot (Linux' renameat2 can)."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    at_cwd, exchange = -100, 2
    if libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _reason(error: OSError) -> str:
    """Why a call failed, in the kernel's words; of several that shutil collected, the first."""
    if isinstance(error, shutil.Error):
        return str(error.args[0][0][2]) if isinstance(error.args[0], list) else str(error)
    return str(error.strerror)
