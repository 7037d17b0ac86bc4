"""A stamp in the git folder that spares `ci-compile --check` its work while nothing has changed since it was green.

The stamp has digests of everything that the result depends on: the words of the command, the branch and the commits of
the repository, the guarded folders and the other files that were read, the files of ci-compiler, and the versions of
Python and of the installed distributions. It is compared before anything else is imported, beginning with what changes
most often. It is only kept if no file is newer than the start of the check: a file that changes during the check must
not be taken for the one that was checked.
"""

from __future__ import annotations

import os
import stat
import sys

from ci_compiler.checkout import checkout_around, git_folder, shared_git_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAME = "ci-compile-check"
"""The name of the stamp in the git folder."""

GUARDED = (".github", ".github/workflows", ".github/actions/*", ".flox/pkgs/*")
"""The folders whose lists and contents are compared, from the root: with `*`, all folders below as well."""

REFS = ("HEAD", "packed-refs", "refs/heads/*", "refs/remotes/origin/*", "reftable/*")
"""What decides the commits that a check compares with, in the git folder that all worktrees share."""

_RACE = 1_000_000_000
"""Nanoseconds before the start in which a file may have changed unseen: file systems round their times."""


_LARGEST = 10_000_000
"""The most bytes of a file that is read."""


class _NotPlainError(Exception):
    """There is something that a digest cannot stand for, such as a pipe, a link or a huge file."""


class _Digest:
    """A digest of files and words; `newest` is the time of the newest change, in nanoseconds.

    contents: whether files are read. Otherwise their identity counts: inode, size, and the time of the last change,
    which the system sets and no program can choose.
    """

    def __init__(self, *words: str, contents: bool = True) -> None:
        try:
            from _blake2 import blake2b
        except ImportError:  # loads OpenSSL, which takes longer than everything else here
            from hashlib import blake2b
        self._hash = blake2b(digest_size=16)
        self._contents = contents
        self.newest = 0
        self.words(*words)

    def words(self, *words: object) -> None:
        """Adds `words`."""
        self._hash.update("\0".join(map(str, words)).encode(errors="surrogateescape") + b"\0\0")

    def path(self, path: str) -> None:
        """Adds what is at `path`: nothing, a file, or a folder, with all folders below if the path ends in `/*`."""
        folder, deep = path.removesuffix("/*"), path.endswith("/*")
        try:
            status = os.lstat(folder)
        except (FileNotFoundError, NotADirectoryError):
            self.words(path, "missing")
            return
        if stat.S_ISDIR(status.st_mode):
            self._folder(folder, status, deep=deep)
        else:
            self._file(folder, status)

    def _folder(self, folder: str, status: os.stat_result, *, deep: bool) -> None:
        self.newest = max(self.newest, status.st_ctime_ns)
        self.words(folder)
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                self._file(entry.path, status)
            elif not deep:
                self.words(entry.path)
            elif entry.name != "__pycache__":
                self._folder(entry.path, status, deep=True)

    def _file(self, path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise _NotPlainError
        self.newest = max(self.newest, status.st_ctime_ns)
        if not self._contents:
            self.words(path, status.st_ino, status.st_size, status.st_ctime_ns)
            return
        self.words(path, status.st_size)
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        self._hash.update(os.read(file, status.st_size + 1))
        os.close(file)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def matches(words: Sequence[str]) -> bool:
    """Whether the check with these `words` was green and nothing has changed since. Prints what it printed then."""
    root = checkout_around(".")
    try:
        folder = git_folder(root)
        with open(os.path.join(folder, NAME), encoding="utf-8", errors="surrogateescape", newline="") as file:
            said, read, *digests = file.read(1_000_000).split("\0\0")
        if any(
            str(one) != digest for one, digest in zip(_digests(words, root, folder, _split(read)), digests, strict=True)
        ):
            return False
    except (OSError, ValueError, _NotPlainError):
        return False
    sys.stderr.write(said)
    return True


def keep(words: Sequence[str], root: str | os.PathLike[str], read: Iterable[str], said: str, started: int) -> None:
    """Keeps the stamp of a green check of `root`, which also read the files at `read` and printed `said`.

    started: when the check began, in nanoseconds since the epoch.

    Nothing is kept where the git folder cannot be written, or for a check of another folder than the one around the
    working directory.
    """
    here = checkout_around(".")
    if os.path.realpath(root) != here:
        return
    inputs = "\0".join(read)
    try:
        folder = git_folder(here)
        path = os.path.join(folder, NAME)
        digests = list(_digests(words, here, folder, _split(inputs)))
        if max(digest.newest for digest in digests) > started - _RACE:
            return
        own = f"{path}.{os.getpid()}"
        with open(own, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write("\0\0".join([said, inputs, *map(str, digests)]))
        os.replace(own, path)
    except (OSError, ValueError, _NotPlainError):
        return


def _digests(words: Sequence[str], root: str, folder: str, read: Sequence[str]) -> Iterator[_Digest]:
    """The digests of everything that a check depends on, those of what changes most often first."""
    shared = shared_git_folder(folder)
    refs = _Digest(*words, os.getcwd(), *_terminal())
    refs.path(f"{folder}/HEAD")
    for name in REFS:
        refs.path(f"{shared}/{name}")
    yield refs
    guarded = _Digest()
    for name in (*GUARDED, *read):
        guarded.path(os.path.join(root, name))
    yield guarded
    installed = {name for place in sys.path if os.path.isdir(place) for name in os.listdir(place)}
    compiler = _Digest(sys.version, *sorted(name for name in installed if name.endswith("-info")), contents=False)
    compiler.path(f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/*")
    yield compiler


def _split(read: str) -> list[str]:
    return read.split("\0") if read else []


def _terminal() -> list[str]:
    """What the text on standard error depends on: on a terminal, lines of files are shown in its width."""
    if not sys.stderr.isatty():
        return []
    return ["terminal", os.environ.get("COLUMNS", ""), str(os.get_terminal_size(sys.stderr.fileno()).columns)]
