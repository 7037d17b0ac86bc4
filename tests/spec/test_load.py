"""YAML becomes plain values with their places, by YAML 1.2, and what a spec does not need is refused at its place."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.errors import InputError, Place
from ci_compiler.spec import load
from ci_compiler.spec.load import DEEPEST, LARGEST_TREE, Document, parse_document, read_document


def parsed(text: str) -> Document:
    return parse_document(text.encode(), shown="s")


def refused(data: bytes) -> tuple[str, int, int, str]:
    """The code, the line, the column and the message of the only finding about `data`."""
    with pytest.raises(InputError) as raised:
        parse_document(data, shown="s")
    (one,) = raised.value.findings
    assert one.place.file == "s"
    return one.code, one.place.line, one.place.column, one.message


SCALARS: list[tuple[str, Any]] = [
    ("", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"), ('""', ""),
    ("true", True), ("True", True), ("FALSE", False), ("yes", "yes"), ("on", "on"), ("y", "y"),
    ("0", 0), ("-7", -7), ("+7", 7), ("010", 10), ("-010", -10), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"),
    ("0b11", "0b11"), ("1:30", "1:30"),
    ("1.50", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-1.5E-1", -0.15),
    ("1.2.3", "1.2.3"), ("'1'", "1"), ('"true"', "true"), ("2027-01-01", "2027-01-01"),
    ("a b", "a b"), ("é", "é"),
]  # fmt: skip
"""By https://yaml.org/spec/1.2.2/#103-core-schema."""


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_a_scalar_is_read_by_the_core_schema(text: str, value: Any) -> None:
    found = parsed(f"a: {text}\n")
    assert (type(found.value["a"]), found.value["a"]) == (type(value), value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    assert found.typed == ({("a",): text} if is_number else {})


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.INF", "1" * 5000])
def test_a_number_that_no_key_accepts_is_none(text: str) -> None:
    found = parsed(f"a: {text}\n")
    assert math.isnan(found.value["a"])
    assert found.typed == {("a",): text}


TEXT = """\
a: 1
b:
  - x
  - {c: [y, 2.50]}  # guessed: as elsewhere
  - &same {d: null}
e: *same
"""


def test_each_key_and_value_has_its_place() -> None:
    found = parsed(TEXT)
    assert found.value == {"a": 1, "b": ["x", {"c": ["y", 2.5]}, {"d": None}], "e": {"d": None}}
    assert {path: (place.line, place.column) for path, place in found.values.items()} == {
        (): (1, 1),
        ("a",): (1, 4),
        ("b",): (3, 3),
        ("b", 0): (3, 5),
        ("b", 1): (4, 5),
        ("b", 1, "c"): (4, 9),
        ("b", 1, "c", 0): (4, 10),
        ("b", 1, "c", 1): (4, 13),
        ("b", 2): (5, 5),
        ("b", 2, "d"): (5, 15),
        ("e",): (5, 5),
        ("e", "d"): (5, 15),
    }
    assert {path: (place.line, place.column) for path, place in found.keys.items()} == {
        ("a",): (1, 1),
        ("b",): (2, 1),
        ("b", 1, "c"): (4, 6),
        ("b", 2, "d"): (5, 12),
        ("e",): (6, 1),
        ("e", "d"): (5, 12),
    }
    assert found.typed == {("a",): "1", ("b", 1, "c", 1): "2.50"}
    assert found.guessed == (4,)
    assert {place.file for place in (*found.values.values(), *found.keys.values())} == {found.file} == {"s"}


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        (("a",), False, (1, 4)),
        (("a",), True, (1, 1)),
        (("b", 0), True, (3, 5)),
        (("b", 1, "c", 7, "x"), False, (4, 6)),
        (("b", 1, "c", 7), True, (4, 6)),
        (("b", 9), False, (2, 1)),
        (("none", "at", "all"), False, (1, 1)),
        ((), True, (1, 1)),
    ],
)
def test_the_place_of_what_is_left_out_is_that_of_the_key_around_it(path: Any, key: bool, place: Any) -> None:
    assert parsed(TEXT).place(path, key=key) == Place(file="s", line=place[0], column=place[1])


def test_a_value_without_a_place_is_in_the_file() -> None:
    nothing: dict[Any, Any] = {}
    empty = Document(file="s", value={}, values=nothing, keys=nothing, typed=nothing)
    assert empty.place(("a",)) == Place(file="s")


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def indented(levels: int) -> bytes:
    return b"".join(b" " * level + b"a:\n" for level in range(levels))


BOMB = b"a: &a [" + b"1," * 999 + b"1]\nb: [" + b"*a," * 49 + b"*a]\n"
"""A list of fifty lists of a thousand values."""

TOO_DEEP = f"nested deeper than {DEEPEST} levels, the limit for a spec"
ALIASES = f"aliases expand to more than {LARGEST_TREE:,} values, the limit for a spec"

REFUSED: list[tuple[bytes, tuple[str, int, int, str]]] = [
    (b"a: 1\nb: \xe9\n", ("spec-not-utf8", 2, 4, "byte 0xe9 is not UTF-8; save the file as UTF-8")),
    (b"\xff", ("spec-not-utf8", 1, 1, "byte 0xff is not UTF-8; save the file as UTF-8")),
    (
        b"# x\n%YAML 1.1\n---\na: 1\n",
        ("spec-syntax", 2, 1, "%YAML is a YAML directive, which a spec must not have; remove it"),
    ),
    (b"# only this\n", ("spec-empty", 0, 0, "is empty; delete it, and `ci-compile init` writes a first one")),
    (b"", ("spec-empty", 0, 0, "is empty; delete it, and `ci-compile init` writes a first one")),
    (nested(DEEPEST + 1), ("spec-syntax", 0, 0, TOO_DEEP)),
    (indented(DEEPEST + 1), ("spec-syntax", 0, 0, TOO_DEEP)),
    (BOMB, ("spec-alias", 2, 4, ALIASES)),
    (b"a: &x [1, {b: *x}]\n", ("spec-alias", 1, 4, "an alias for a value that contains the alias")),
    (b"a: 1\nb: [1\n", ("spec-syntax", 2, 4, "this [ is not closed; write ] at its end, and a comma between entries")),
    (b"a: 1\nb: x\x01\n", ("spec-syntax", 2, 5, "not YAML: control characters are not allowed")),
    (b"a: !!set {x}\n", ("spec-tag", 1, 4, "the tag tag:yaml.org,2002:set is not allowed in a spec; remove it")),
    (b"a: !!seq x\n", ("spec-tag", 1, 4, "the tag tag:yaml.org,2002:seq is not allowed in a spec; remove it")),
    (
        b"a: !!timestamp 2027-01-01\n",
        ("spec-tag", 1, 4, "the tag tag:yaml.org,2002:timestamp is not allowed in a spec; remove it"),
    ),
    (b"a: !x [1]\n", ("spec-tag", 1, 4, "the tag !x is not allowed in a spec; remove it")),
    (b"a: !x 1\n", ("spec-tag", 1, 4, "the tag !x is not allowed in a spec; remove it")),
    (b"a: 1\n[1]: 2\n", ("spec-key", 2, 1, "a key must be a word, not a list or a mapping")),
    (b"{a: 1}: 2\n", ("spec-key", 1, 1, "a key must be a word, not a list or a mapping")),
    (
        b"owner: {{ org }}\n",
        (
            "spec-key",
            1,
            9,
            "two braces are a mapping as a key to YAML, and nothing fills in a spec; write the value itself",
        ),
    ),
    (b"a:\n  <<: {b: 1}\n", ("spec-merge", 2, 3, "merge keys (<<) are not part of YAML 1.2; write the keys out")),
    (b"a: 1\nb: 2\na: 3\n", ("spec-duplicate-key", 3, 1, "the key 'a' is already on line 1; remove one of them")),
    (b'a: "x\\u200by"\n', ("spec-character", 1, 4, "contains the invisible character \\u200b; remove it")),
    (b'"a\\tb": 1\n', ("spec-character", 1, 1, "contains the invisible character \\t; remove it")),
    (
        b"a: |\n  x\n  y\n",
        (
            "spec-character",
            1,
            4,
            "a text of several lines; write it on one line, and a list with `- ` before each entry",
        ),
    ),
]


@pytest.mark.parametrize(("data", "expected"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_a_spec_does_not_need_is_refused_at_its_place(data: bytes, expected: tuple[str, int, int, str]) -> None:
    assert refused(data) == expected


@pytest.mark.parametrize("data", [nested(DEEPEST), indented(DEEPEST)])
def test_as_many_levels_as_the_limit_are_read(data: bytes) -> None:
    assert parse_document(data, shown="s").value


def test_as_many_values_as_the_limit_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LARGEST_TREE", 1200)
    too_many = ("spec-too-large", 0, 0, "has more than 1,200 values, the limit for a spec")
    expanded = ("spec-alias", 1, 1, "aliases expand to more than 1,200 values, the limit for a spec")
    plain, alias = b"[" + b"1," * 1199, b"[&a [" + b"1," * 598 + b"], *a, 1"
    assert len(parse_document(plain + b"]", shown="s").value) == 1199
    assert len(parse_document(alias + b"]", shown="s").value[1]) == 598
    assert (refused(plain + b"1]"), refused(alias + b", 1]")) == (too_many, expanded)


@pytest.mark.parametrize("key", ["overlay", "post-patch", "pre-configure"])
def test_code_of_a_work_around_may_have_several_lines(key: str) -> None:
    code = f"{key}: |\n      x\n      y\n"
    assert parsed(f"work-arounds:\n  a:\n    {code}").value["work-arounds"]["a"][key] == "x\ny\n"
    for text in (f"work-arounds:\n  a: {{}}\n  {code}", f"packages:\n  a:\n    {code}"):
        assert refused(text.encode())[0] == "spec-character"
    assert refused(f'work-arounds:\n  a:\n    {key}: "x\\ty"\n'.encode())[3].startswith("contains the invisible")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LARGEST_FILE", 4)
    (tmp_path / "large").write_bytes(b"a: 1\n")
    (tmp_path / "largest").write_bytes(b"a: 1")
    if sys.platform == "win32":
        (tmp_path / "pipe").mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
    said = {}
    for name in ("none", ".", "large", "pipe"):
        with pytest.raises(InputError) as raised:
            read_document(tmp_path / name, shown="s")
        (one,) = raised.value.findings
        said[name] = (str(one.code), one.message)
        assert one.place == Place(file="s")
    assert said["none"] == ("spec-missing", "no such file; `ci-compile init` writes a first one")
    assert said["."] == ("spec-unreadable", "is a directory; a spec is a YAML file")
    assert (said["large"][0], said["pipe"][0]) == ("spec-too-large", "spec-unreadable")
    assert read_document(tmp_path / "largest", shown="s").value == {"a": 1}
