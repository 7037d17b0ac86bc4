"""The files of a build script: what is taken, what is refused, and what is verified before each use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ci_compiler.backends.command_files import (
    check_apart,
    clear,
    collect,
    filled,
    held,
    matching,
    open_pattern,
    verify,
)
from ci_compiler.backends.job import JoinedVariant
from tests.backends.programs import outcome

HASHES = {text: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for text in ("one", "two")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout, beside the folder of the manifest, `out`, that has files of an earlier build."""
    write(tmp_path / "out/files/earlier.txt", "earlier")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def collected(root: Path, *patterns: str, before: object = None) -> object:
    """What `collect` returns, or its error without the code."""
    kept = before or {}
    return outcome(lambda: collect("torch", root, patterns, kept, root.parent / "out"))


def copied(root: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in (root.parent / "out/files").iterdir()}


def test_what_the_build_wrote_is_copied_in_place_of_earlier_files(root: Path) -> None:
    write(root / "dist/a.whl", "one")
    write(root / "out.txt", "two")
    found = collected(root, "dist/*.whl", "*.txt", "dist/a.*")
    assert found == {"files/a.whl": HASHES["one"], "files/out.txt": HASHES["two"]}
    assert copied(root) == {"a.whl": "one", "out.txt": "two"}


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (lambda path: path.read_text("utf-8"), False),
        (lambda path: write(path, "longer"), True),
        (lambda path: os.utime(path, (1, 1)), True),
        (lambda path: (path.rename(path.with_name("kept")), write(path, "one"), os.utime(path, (5, 5))), True),
    ],
)
def test_what_the_build_left_as_it_was_is_not_its_result(
    root: Path, change: Callable[[Path], object], taken: bool
) -> None:
    path = write(root / "a.whl", "one")
    os.utime(path, (5, 5))
    before = matching(root, ["*.whl"])
    assert list(before) == ["*.whl"]
    assert list(before["*.whl"]) == [path]
    change(path)
    refused = "torch: the build succeeded, but wrote no file that matches *.whl [result-missing]"
    assert (collected(root, "*.whl", before=before) == refused) is not taken


def link(root: Path) -> None:
    write(root.parent / "elsewhere/a.whl", "secret")
    (root / "dist").symlink_to(root.parent / "elsewhere")


UNSUITABLE = (
    "{!r} has an unsuitable name; a file's name has letters, digits and . _ + -, no dot in front or at the end, and is "
    "no device of Windows (as con)"
)


@pytest.mark.parametrize(
    ("make", "pattern", "message"),
    [
        (link, "dist/*", "dist/a.whl is reached through a symbolic link; declare where it leads to"),
        (
            lambda root: (root / "a.whl").symlink_to("/etc/passwd"),
            "*.whl",
            "a.whl is not a regular file; declare a pattern of files",
        ),
        (lambda root: (root / "a").mkdir(), "*", "a is not a regular file; declare a pattern of files"),
        (lambda root: os.mkfifo(root / "a"), "*", "a is not a regular file; declare a pattern of files"),
        (lambda root: write(root / "-x", ""), "*", UNSUITABLE.format("-x")),
        (lambda root: write(root / "a b", ""), "*", UNSUITABLE.format("a b")),
        (lambda root: write(root / "Con.tar.gz", ""), "*", UNSUITABLE.format("Con.tar.gz")),
        (lambda root: write(root / "a.", ""), "*", UNSUITABLE.format("a.")),
        (
            lambda root: (write(root / "a/X.whl", "one"), write(root / "b/x.whl", "one")),
            "*/*.whl",
            "b/x.whl differs from X.whl in case alone, which macOS and Windows ignore; rename one",
        ),
        (
            lambda root: (write(root / "a/x.txt", "one"), write(root / "b/x.txt", "two")),
            "*/x.txt",
            "b/x.txt: another file is also called x.txt; rename one",
        ),
    ],
)
def test_what_could_lead_elsewhere_is_refused(
    root: Path, make: Callable[[Path], object], pattern: str, message: str
) -> None:
    make(root)
    assert collected(root, pattern) == f"torch: {message} [unsafe-file]"


def test_a_file_that_two_patterns_or_folders_have_with_one_content_is_taken_once(root: Path) -> None:
    for folder in "ab":
        write(root / folder / "x.txt", "one")
    assert collected(root, "*/x.txt", "a/*") == {"files/x.txt": HASHES["one"]}


VARIANTS = [JoinedVariant(name=name, patterns=(f"out/{name}/*", "out/all-*"), folder=Path()) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["out/a/1", "out/b/1"], None),
        (["out/a/1", "out/all-x"], "b: out/all-x is a file of a as well; give them patterns apart [result-missing]"),
        (["out/a/1", "out/c/x"], "torch: out/c/x is a file of none of its variants [result-missing]"),
        (["out/a/1", "out/c/earlier"], None),
    ],
)
def test_each_file_of_a_build_belongs_to_one_of_its_variants(
    root: Path, files: Sequence[str], message: str | None
) -> None:
    declared = ["out/@name@/*"]
    write(root / "out/c/earlier", "one")
    before = matching(root, map(open_pattern, declared))
    for file in files:
        if not (root / file).exists():
            write(root / file, "one")
    assert outcome(lambda: check_apart("torch", root, VARIANTS, declared, before)) == message


def test_placeholders_of_a_pattern_stand_for_values_or_for_anything() -> None:
    pattern = "out/@name@/@cuda-tag@-@A@.txt"
    assert open_pattern(pattern) == "out/*/*-@A@.txt"
    assert filled(pattern, {"name": "torch", "A": "x"}) == "out/torch/@cuda-tag@-@A@.txt"


def test_a_folder_is_emptied_whatever_it_was(tmp_path: Path) -> None:
    kept = write(tmp_path / "kept/file", "one")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("link", "kept", "deep/new"):
        clear(tmp_path / name)
        assert (tmp_path / name).is_dir()
        assert not (tmp_path / name).is_symlink()
        assert list((tmp_path / name).iterdir()) == []
        assert kept.exists() == (name == "link")


def test_fetched_files_have_suitable_names_and_are_files(tmp_path: Path) -> None:
    assert outcome(lambda: held("torch", tmp_path)) == (
        "torch: its command `fetch` left no file in `VARIANT_FILES` [closure-missing]"
    )
    write(tmp_path / "files/b.whl", "two")
    write(tmp_path / "files/a.whl", "one")
    assert list(held("torch", tmp_path).items()) == [("files/a.whl", HASHES["one"]), ("files/b.whl", HASHES["two"])]
    for name, make in (
        ("a b", lambda path: path.touch()),
        ("c", lambda path: path.mkdir()),
        ("d", lambda path: path.symlink_to("a.whl")),
    ):
        make(made := tmp_path / "files" / name)
        refused = f"torch: {name!r} was fetched, and is not a file with a suitable name [unsafe-file]"
        assert outcome(lambda: held("torch", tmp_path)) == refused
        made.rename(tmp_path / name)


FETCH = "; fetch the artifact of the build again [file-differs]"


def test_the_files_must_be_exactly_those_that_were_built(tmp_path: Path) -> None:
    hashes = {"files/b.whl": HASHES["two"], "files/a.whl": HASHES["one"]}
    first, second = (write(tmp_path / f"files/{name}.whl", text) for name, text in (("a", "one"), ("b", "two")))
    assert verify("torch", tmp_path, hashes) == (first, second)
    extra = write(tmp_path / "files/c.whl", "one")
    assert outcome(lambda: verify("torch", tmp_path, hashes)) == f"torch: {extra} is not in the manifest{FETCH}"
    extra.unlink()
    write(first, "two")
    other = f"torch: {first} is another file than the one that was built{FETCH}"
    assert outcome(lambda: verify("torch", tmp_path, hashes)) == other
    first.unlink()
    missing = f"torch: {first} is missing, or is not a regular file{FETCH}"
    assert outcome(lambda: verify("torch", tmp_path, hashes)) == missing
    write(first, "one")
    (tmp_path / "files").rename(tmp_path / "moved")
    (tmp_path / "files").symlink_to("moved")
    missing = f"torch: {second} is missing, or is not a regular file{FETCH}"
    assert outcome(lambda: verify("torch", tmp_path, hashes)) == missing
    assert verify("torch", tmp_path / "nowhere", {}) == ()
