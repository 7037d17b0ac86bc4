"""Why a plausible value or key is wrong, in the words of the tables."""

from __future__ import annotations

import json

import pytest

from ci_compiler.spec.load import Path_
from ci_compiler.spec.reasons import key_hint, reason, reason_for_name

CUDA: Path_ = ("branches", "main", "cuda")
NO_PLACE = "a secret has no place in a file of the repository: keep it in a GitHub environment"
SHORT = "is a shortened commit; write all 40 digits"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (CUDA, "12.8", 'without quotes is a number, where 12.10 would be 12.1; write "12.8"'),
        (CUDA, '"cu128"', 'is the tag of a wheel; write the version of the toolkit, "12.8"'),
        (("branches", "main", "nixpkgs"), '"fe5e41d"', SHORT),
        (("branches", "x", "toolkits", "12.8", "nixpkgs"), '"fe5e41d"', SHORT),
        (("versions", "torch"), '"v2.9"', "is a tag; write the version alone, 2.9"),
        (("branches", "main", "versions", 3), '"v2.9"', "is a tag; write the version alone, 2.9"),
        (("version",), '"1"', "is text; write 1, without quotes: the version of this format"),
        (
            ("packages", "x", "command", "version"),
            '"1"',
            "is a version, and these are rules for versions; write it in each branch, `versions: {x: 1}`",
        ),
        # The same values elsewhere, and another value there.
        (("packages", "x", "version"), '"1"', ""),
        (("versions",), '"v2.9"', ""),
        (("torch",), '"v2.9"', ""),
        (("owner",), "12.8", ""),
        (CUDA, '"12.8x"', ""),
        ((), '"v2.9"', ""),
    ],
)
def test_the_reason_is_that_of_the_value_at_the_end_of_the_path(path: Path_, value: str, expected: str) -> None:
    assert reason(path, value) == expected


@pytest.mark.parametrize(("kind", "known"), [("boolean", True), ("string", False), ("", False)])
def test_some_reasons_are_for_a_type_alone(kind: str, *, known: bool) -> None:
    assert bool(reason(("publish", "attest"), '"yes"', kind)) is known


@pytest.mark.parametrize(("length", "known"), [(100, True), (101, False)])
def test_a_long_value_is_not_repeated(length: int, *, known: bool) -> None:
    said = reason(("versions", "torch"), json.dumps("v2" + "x" * (length - 1)))
    assert said == (f"is a tag; write the version alone, 2{'x' * (length - 1)}" if known else "")


def test_the_reason_for_a_name_is_a_sentence() -> None:
    assert reason_for_name((*CUDA[:2], "gpus", 0), "none") == "'none' is called cpu here: the variants without a GPU"
    assert reason_for_name((*CUDA[:2], "gpus", 0), "sm90") == ""


@pytest.mark.parametrize(
    ("key", "known", "expected"),
    [
        ("pools", ["runners", "cache"], "; did you mean runners?"),
        ("Pools", ["runners"], "; did you mean runners?"),
        ("pools", ["cache"], ""),
        ("pool", ["runners"], ""),
        ("secret", [], f"; {NO_PLACE}"),
        ("flaky", ["runners"], ""),
    ],
)
def test_a_key_that_people_expect_leads_to_the_right_one(key: str, known: list[str], expected: str) -> None:
    assert key_hint(key, known) == expected
