"""Compares compiled files with the tree and writes what differs, all at once.

The first line of a compiled file marks it as such, also after a line of `gh actions-lock`. Files without the mark are
never touched: if one is in the way, the compile stops before it writes. Marked files that are no longer compiled are
removed. Nothing is written if anything is wrong, and all files change in one step (`files.atomic`). Compiles of one
folder wait for each other.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ci_compiler.checkout import EntryKind
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.folders import FUNCTIONS, RECIPES, SHARED
from ci_compiler.system import lock

MARK = "Compiled by ci-compile"
"""The mark in the first line of every compiled file, after the comment sign of its format."""

FOREIGN = "was not written by ci-compile and is in the way; move it, or delete it"
"""The message for a file without the mark at the path of a compiled file."""

_LOCKED = b"# This workflow is managed by gh actions-lock.\n"
"""The line that `gh actions-lock` puts before the first one (its source, internal/workflowfile/rewrite.go)."""

_OURS = re.compile(rb"(?:" + re.escape(_LOCKED) + rb")?(?:#|//|;|<!--) " + re.escape(MARK.encode()) + rb"\b")


class Territory(NamedTuple):
    """A folder, from the root of the repository, that changes in one step, and the patterns of compiled files in it.

    `kept` are files in it that are not compiled, by path from the root: they stay, even those with the mark.
    """

    folder: str
    patterns: tuple[str, ...]
    kept: frozenset[str] = frozenset()

    def may_hold(self, path: str) -> bool:
        """Whether `path`, from the repository's root, can be a compiled file."""
        pure = PurePosixPath(path)
        own = (PurePosixPath(self.folder) / pattern for pattern in self.patterns)
        return path not in self.kept and any(len(pure.parts) == len(one.parts) and pure.match(str(one)) for one in own)


GITHUB = Territory(
    folder=".github",
    patterns=("*.yaml", "*.yml", "*.md", ".gitattributes", "workflows/*.yml", "actions/*/action.yml"),
)
FLOX = Territory(folder=RECIPES, patterns=("*.nix", ".gitattributes"))
THIN = Territory(folder=SHARED, patterns=("*.nix", f"{FUNCTIONS}/*.nix"))
"""What the recipes in `FLOX` share."""


class ChangeKind(StrEnum):
    """How a file changes."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class FileChange(NamedTuple):
    """One file that differs: its path from the root and its text before and after (None: no file)."""

    path: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> ChangeKind:
        """Added, changed or removed."""
        if self.before is None:
            return ChangeKind.ADDED
        return ChangeKind.REMOVED if self.after is None else ChangeKind.CHANGED

    @property
    def is_locked(self) -> bool:
        """Whether `gh actions-lock` rewrote the file: added its line, or `$/` for `./` in the uses of an action."""
        before = self.before or ""
        return before.startswith(_LOCKED.decode()) or "uses: $/" in before


def compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[FileChange, ...]:
    """What writing `files` under `root` would change, sorted by path. Raises InputError if something is in the way.

    Waits until no compile writes there, so that each territory is seen as it is before or after a compile.
    """
    with ExitStack() as locks:
        for folder in sorted({(root / territory.folder).parent for territory in territories}):
            locks.enter_context(_locked(folder, shared=True))
        return _compare(root, files, territories)


def differences(changes: Iterable[FileChange]) -> Iterator[str]:
    """The changes as lines of a unified diff."""
    import difflib  # a check does not need it

    for change in changes:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        old = f"a/{change.path}" if change.before is not None else "/dev/null"
        new = f"b/{change.path}" if change.after is not None else "/dev/null"
        yield from difflib.unified_diff(list(before), list(after), old, new, lineterm="")


def apply(
    root: Path, files: Mapping[str, str], changes: Sequence[FileChange], territories: Sequence[Territory]
) -> None:
    """Makes those of the `changes` by which `files` differ from `root` that no other compile has made, in one step.

    Raises InputError if a file cannot be written, or was changed by somebody else since the comparison.
    """
    from ci_compiler.files.atomic import cannot_write, change_folders  # a check does not need it

    changed = [one for one in territories if any(change.path.startswith(f"{one.folder}/") for change in changes)]
    try:
        for territory in changed:
            (root / territory.folder).parent.mkdir(parents=True, exist_ok=True)
        with writing(*(root / territory.folder for territory in territories)):
            now = _compare(root, _within(changed, files), changed)
            if other := [change.path for change in now if change not in changes]:
                raise InputError(in_the_way(path, "was changed during this compile; run it again") for path in other)
            change_folders({root / one.folder: _texts(one, now) for one in changed})
    except OSError as error:
        raise cannot_write(error.filename or changed[0].folder, error) from error


def holds_ours(root: Path, territory: Territory) -> bool:
    """Whether `territory` has any compiled file."""
    return next(_ours(root, territory), None) is not None


def marked(data: bytes) -> bool:
    """Whether a file with this content has the mark."""
    return _OURS.match(data) is not None


def plain(data: bytes) -> bytes:
    """The content of a compiled file as it was compiled: git may check it out with CR LF (`core.autocrlf`)."""
    return data.replace(b"\r\n", b"\n")


def is_ours(path: Path) -> bool:
    """Whether the first line of the file at `path` has the mark."""
    try:
        if not path.is_file():  # opening a pipe would block
            return False
        with path.open("rb") as file:
            return marked(file.read(256))
    except OSError:
        return False


def obstacle(root: Path, path: str) -> str:
    """Why no file can be written at `path`, because of what is there or in a folder above; '' if one can."""
    return obstacle_among(lambda one: _kind(f"{root}/{one}"), path)


def obstacle_among(kind_at: Callable[[str], EntryKind], path: str) -> str:
    """As `obstacle`, in a tree in which `kind_at` knows what is at a path."""
    folder, rest = "", path
    while "/" in rest:
        name, _, rest = rest.partition("/")
        folder = f"{folder}/{name}" if folder else name
        if (kind := kind_at(folder)) not in {EntryKind.NOTHING, EntryKind.FOLDER}:
            return f"its folder {folder} is a {kind}{_through(kind)}"
    kind = kind_at(path)
    return "" if kind in {EntryKind.NOTHING, EntryKind.FILE} else f"is a {kind}{_through(kind)}"


def _through(kind: EntryKind) -> str:
    return ", which ci-compile does not write through" if kind is EntryKind.LINK else ""


def _kind(path: str) -> EntryKind:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return EntryKind.NOTHING
    return _KINDS.get(stat.S_IFMT(mode), EntryKind.OTHER)


_KINDS = {stat.S_IFLNK: EntryKind.LINK, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFREG: EntryKind.FILE}


# Comparing.


def _compare(root: Path, files: Mapping[str, str], territories: Sequence[Territory]) -> tuple[FileChange, ...]:
    found = [_against(root, path, text) for path, text in files.items()]
    if findings := [finding for finding in found if isinstance(finding, Finding)]:
        raise InputError(findings)
    removed = [
        FileChange(path=path, before=before, after=None)
        for territory in territories
        for path, before in _ours(root, territory, files)
    ]
    respelled = _respelled(root, files, removed) if removed else ()
    changes = [change for change in found if isinstance(change, FileChange) and change.path not in respelled]
    added = [FileChange(path=path, before=None, after=files[path]) for path in respelled]
    return tuple(sorted([*removed, *changes, *added]))


def _respelled(root: Path, files: Iterable[str], removed: Iterable[FileChange]) -> list[str]:
    """Those of `files` that the file system takes for one of the `removed`, as macOS does if only case differs."""
    known = {path.casefold(): path for path in files}
    alike = filter(None, (known.get(change.path.casefold()) for change in removed))
    return [path for path in alike if Path(path).name not in os.listdir((root / path).parent)]  # noqa: PTH208


def _against(root: Path, path: str, text: str) -> FileChange | Finding | None:
    """The change that `text` makes at `path`, None for none, or the finding about what else is there."""
    if problem := obstacle(root, path):
        return in_the_way(path, problem)
    try:
        data = (root / path).read_bytes()
    except FileNotFoundError:
        return FileChange(path=path, before=None, after=text)
    except OSError as error:
        return in_the_way(path, f"cannot be read: {error.strerror}")
    if plain(data) == text.encode():
        return None
    if not marked(data):
        return in_the_way(path, FOREIGN)
    return FileChange(path=path, before=data.decode(errors="replace"), after=text)


def in_the_way(path: str, message: str) -> Finding:
    """The finding about what is at `path`, where a file is to be written."""
    return Finding(place=Place(file=path), code=Code.IN_THE_WAY, message=message)


def _ours(root: Path, territory: Territory, but: Container[str] = ()) -> Iterator[tuple[str, str]]:
    """The compiled files in `territory`, with their text, without those in `but`."""
    for pattern in territory.patterns:
        for file in sorted((root / territory.folder).glob(pattern)):
            path = file.relative_to(root).as_posix()
            if path not in but and path not in territory.kept and is_ours(file) and not obstacle(root, path):
                yield path, file.read_text("utf-8", errors="replace")


# Writing.


def _within(territories: Sequence[Territory], files: Mapping[str, str]) -> dict[str, str]:
    """Those of `files` that are in `territories`."""
    folders = tuple(f"{territory.folder}/" for territory in territories)
    return {path: text for path, text in files.items() if path.startswith(folders)}


def _texts(territory: Territory, changes: Iterable[FileChange]) -> dict[str, str | None]:
    """The texts after `changes` of the files in `territory`, by path below its folder."""
    folder = f"{territory.folder}/"
    return {change.path.removeprefix(folder): change.after for change in changes if change.path.startswith(folder)}


@contextmanager
def writing(*folders: Path) -> Iterator[None]:
    """Waits until no other compile reads or writes `folders`, and removes what killed compiles left next to them."""
    from ci_compiler.files.atomic import sweep

    with ExitStack() as locks:
        for parent in sorted({folder.parent for folder in folders}):
            locks.enter_context(_locked(parent))
        for folder in folders:
            sweep(folder)
        yield


@contextmanager
def _locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Waits for a lock on `folder`, `shared` to read its files.

    The kernel releases the lock of a process that is killed.
    """
    handle = None
    with suppress(OSError):  # the folder is missing or unreadable, or the system has no locks of folders
        handle = os.open(folder, os.O_RDONLY)
        lock(handle, shared=shared)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
