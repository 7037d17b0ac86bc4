"""Where an index of wheels keeps its files and pages: a folder, such as a mounted share."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from ci_compiler.outside import bytes_of
from ci_compiler.system import lock


class Stored(NamedTuple):
    """A page, and the tag that changes whenever the page does."""

    content: bytes
    tag: str


class StoredFile(NamedTuple):
    """A file: its size in bytes, and when it was written (UTC)."""

    key: str
    size: int
    written: datetime


class Store(Protocol):
    """Files by key. Every method raises OSError if the store fails."""

    def find(self, key: str) -> StoredFile | None:
        """A file; None if there is none. A file that was not written to its end does not exist."""

    def files(self, folder: str) -> Iterable[StoredFile]:
        """The files whose keys begin with `folder`, which ends in a slash, and what broken writes left there."""

    def read(self, key: str) -> Stored | None:
        """A page."""

    def put(self, key: str, path: Path) -> None:
        """Writes the content of the file at `path`."""

    def write(self, key: str, text: str, tag: str | None = None) -> bool:
        """Writes a page. With a `tag` ('': no page), only if the stored page still has it; returns whether it did."""

    def delete(self, key: str) -> None:
        """Deletes a file, if there is one."""


class FolderStore:
    """A folder. Each file appears whole, by renaming; pages are compared and written under a lock (`flock`)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: str) -> StoredFile | None:
        """A file."""
        path = self._root / key
        if not path.is_file():
            return None
        state = path.stat()
        return StoredFile(key, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC))

    def files(self, folder: str) -> Iterable[StoredFile]:
        """The files of a folder, those in its folders included."""
        keys = (path.relative_to(self._root).as_posix() for path in (self._root / folder).rglob("*"))
        return [file for key in keys if (file := self.find(key))]

    def read(self, key: str) -> Stored | None:
        """A page; its hash is the tag."""
        try:
            content = bytes_of(self._root / key)
        except FileNotFoundError:
            return None
        return Stored(content, hashlib.sha256(content).hexdigest())

    def put(self, key: str, path: Path) -> None:
        """Copies a file, under another name until it is whole."""
        with self._place(key) as part:
            shutil.copyfile(path, part)

    def write(self, key: str, text: str, tag: str | None = None) -> bool:
        """Writes a page under the lock."""
        with self._lock():
            stored = self.read(key)
            if tag is not None and tag != (stored.tag if stored else ""):
                return False
            with self._place(key) as part:
                part.write_text(text, "utf-8")
            return True

    def delete(self, key: str) -> None:
        """Deletes a file, and its folder if that is then empty."""
        path = self._root / key
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()

    @contextmanager
    def _place(self, key: str) -> Iterator[Path]:
        """The path at which to write `key`; at the end it gets its name. Each process has its own."""
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / ".lock").open("w") as file:
            lock(file.fileno())
            yield
