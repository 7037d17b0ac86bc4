"""A folder as a store: what it holds, how pages are replaced, and what is left when a write breaks off."""

from __future__ import annotations

import fcntl
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci_compiler.publishing.stores import FolderStore, Stored, StoredFile

WRITTEN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def tag_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A store with the page `p/index.json` and the file `p/files/a1/f.whl` of five bytes, in a folder to be made."""
    store, source = FolderStore(tmp_path / "shared/index"), tmp_path / "f.whl"
    source.write_bytes(b"wheel")
    store.put("p/files/a1/f.whl", source)
    assert store.write("p/index.json", "é")
    for path in (tmp_path / "shared").rglob("*"):
        os.utime(path, (WRITTEN.timestamp(), WRITTEN.timestamp()))
    return store


def kept(root: Path) -> list[str]:
    """All that is in the folder of the store, but its lock."""
    return sorted(path.relative_to(root / "shared/index").as_posix() for path in root.rglob("shared/index/*/**/*"))


def test_files_are_found_with_their_sizes_and_times(store: FolderStore) -> None:
    wheel, page = StoredFile("p/files/a1/f.whl", 5, WRITTEN), StoredFile("p/index.json", 2, WRITTEN)
    assert store.find("p/files/a1/f.whl") == wheel
    assert [store.find(key) for key in ("p/files/a1", "p/other")] == [None, None]
    assert sorted(store.files("p/")) == [wheel, page]
    assert [*store.files("p/files/")] == [wheel]
    assert [*store.files("q/")] == []


def test_a_page_is_its_bytes_and_a_tag_that_follows_them(store: FolderStore) -> None:
    assert store.read("p/index.json") == Stored("é".encode(), tag_of("é"))
    assert store.read("p/other.json") is None


@pytest.mark.parametrize(
    ("key", "tag", "is_written"),
    [
        ("p/index.json", None, True),
        ("p/index.json", tag_of("é"), True),
        ("p/index.json", tag_of("e"), False),
        ("p/index.json", "", False),
        ("q/index.json", None, True),
        ("q/index.json", "", True),
        ("q/index.json", tag_of("é"), False),
    ],
)
def test_a_page_is_replaced_where_it_is_still_the_one_that_was_read(
    store: FolderStore, key: str, tag: str | None, is_written: bool
) -> None:
    before = store.read(key)
    assert store.write(key, "ü", tag) is is_written
    assert store.read(key) == (Stored("ü".encode(), tag_of("ü")) if is_written else before)


def test_pages_are_written_under_the_lock(store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, refused = Path.replace, []

    def checked(part: Path, target: Path) -> Path:
        with (tmp_path / "shared/index/.lock").open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused.append(part.name)
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", checked)
    assert store.write("p/index.json", "ü")
    assert refused == [f".index.json.{os.getpid()}.part"]


def test_what_breaks_off_leaves_the_old_file_alone(store: FolderStore, tmp_path: Path) -> None:
    before = kept(tmp_path)
    with pytest.raises(FileNotFoundError):
        store.put("p/files/a1/f.whl", tmp_path / "missing.whl")
    with pytest.raises(UnicodeEncodeError):
        store.write("p/index.json", "whole\ud800")
    assert kept(tmp_path) == before == ["p/files", "p/files/a1", "p/files/a1/f.whl", "p/index.json"]
    assert store.read("p/index.json") == Stored("é".encode(), tag_of("é"))


def test_a_folder_goes_with_its_last_file(store: FolderStore, tmp_path: Path) -> None:
    store.delete("p/index.json")
    assert kept(tmp_path) == ["p/files", "p/files/a1", "p/files/a1/f.whl"]
    store.delete("p/files/a1/f.whl")
    store.delete("p/files/a1/f.whl")
    assert "p/files/a1" not in kept(tmp_path)
