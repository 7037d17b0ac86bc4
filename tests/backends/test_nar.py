"""The listing of an archive that Nix wrote, and the summary of what differs between two."""

from __future__ import annotations

import hashlib
import io
import subprocess
from pathlib import Path

import pytest

from ci_compiler.backends.nar import (
    DamagedArchiveError,
    base32,
    closure_digest,
    difference,
    hex_digest,
    listing,
    text_archive,
)
from tests.checkers import require


def archive(folder: Path) -> bytes:
    require("nix-store")
    return subprocess.run(["nix-store", "--dump", str(folder)], capture_output=True, check=True).stdout


def test_every_kind_of_entry_is_listed_and_compared(tmp_path: Path) -> None:
    for name in ("one", "other"):
        below = tmp_path / name / "lib" / "empty"
        below.mkdir(parents=True)
        (below.parent / "same").write_text("same" * 1000, "utf-8")
        (below.parent / "nothing").touch()
        (below.parent / "program").write_text("#!/bin/sh\n", "utf-8")
        (below.parent / "link").symlink_to("same" if name == "one" else "program")
    (tmp_path / "one/lib/program").chmod(0o755)
    (tmp_path / "other/lib/extra").touch()
    one, other = (listing(io.BytesIO(archive(tmp_path / name))) for name in ("one", "other"))
    assert list(one) == ["lib/link", "lib/nothing", "lib/program", "lib/same"]
    assert difference(one, other) == "3 of 5 files: lib/extra, lib/link, lib/program"
    assert difference(one, one) == ""


def test_a_hash_is_read_in_both_of_its_bases() -> None:
    """The hash of "abc", as `nix-hash --type sha256 --to-base32` prints it (FIPS 180-2, example B.1)."""
    digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert base32(bytes.fromhex(digits)) == "1b8m03r63zqhnjf7l5wnldhh7c134ap5vpj0850ymkq1iyzicy5s"
    assert base32(bytes(20)) == "0" * 32
    assert hex_digest("sha256:1b8m03r63zqhnjf7l5wnldhh7c134ap5vpj0850ymkq1iyzicy5s") == digits
    assert hex_digest(f"sha256:{digits}") == digits


def test_a_text_in_an_archive_is_what_nix_makes_of_a_file(tmp_path: Path) -> None:
    for text in ("", "12345678", "größer\n"):
        (tmp_path / "file").write_text(text, "utf-8")
        assert text_archive(text) == archive(tmp_path / "file")
        assert listing(io.BytesIO(text_archive(text))) == {".": hashlib.sha256(text.encode()).hexdigest()}


def test_a_closure_has_one_digest_in_any_order() -> None:
    digest = hashlib.sha256(b"/a sha256:0\n/b sha256:1\n").hexdigest()
    assert closure_digest({"/b": "sha256:1", "/a": "sha256:0"}) == f"sha256:{digest}"


@pytest.mark.parametrize(("size", "is_read"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_text_of_an_archive_has_a_limit(size: int, is_read: bool) -> None:
    words = ("nix-archive-1", "(", "type", "symlink", "target", "x" * size, ")")
    data = b"".join(len(word).to_bytes(8, "little") + word.encode() + bytes(-len(word) % 8) for word in words)
    if is_read:
        assert listing(io.BytesIO(data)) == {".": f"link to {'x' * size}"}
    else:
        with pytest.raises(DamagedArchiveError):
            listing(io.BytesIO(data))


def test_a_summary_names_the_first_files() -> None:
    assert difference({str(number): "a" for number in range(8)}, {}) == "8 of 8 files: 0, 1, 2, 3, 4 and 3 more"


@pytest.mark.parametrize("size", [0, 8, 30, 100])
def test_an_incomplete_archive_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_text("text" * 100, "utf-8")
    with pytest.raises(DamagedArchiveError):
        listing(io.BytesIO(archive(tmp_path / "file")[:size]))
