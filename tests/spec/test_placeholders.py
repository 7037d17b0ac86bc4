"""Placeholders: which are unknown, what they are replaced by, and which a value mentions."""

from __future__ import annotations

import pytest

from ci_compiler.spec.placeholders import OF_A_GPU, OF_AN_ARCHITECTURE, PLACEHOLDERS, fill, mentioned, unknown

VALUES = {"name": "torch", "gpu": "sm90", "flags": "one\ntwo"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("nothing", "nothing"),
        ("@name@ on @gpu@", "torch on sm90"),
        ("@@name@@ is @name@", "@name@ is torch"),
        ("a@b.org @Name@ @1x@ @", "a@b.org @Name@ @1x@ @"),
        ("x = @flags@;", "x = one\ntwo;"),
        ("a\n  x = @flags@;", "a\n  x = one\n  two;"),
        ("  @flags@", "  one\n  two"),
    ],
)
def test_each_placeholder_is_replaced_by_its_value(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="isa"):
        fill("@isa@", VALUES)


def test_an_unknown_placeholder_is_named_with_its_place_and_the_nearest() -> None:
    (first, near), (second, far) = unknown("@gpu@ and @capabilty@, @@nothing@@, @zzzzzzzzzzz@")
    assert (first, second) == (10, 36)
    assert near == "unknown placeholder @capabilty@ (@@capabilty@@ is that text); did you mean capability?"
    assert far.startswith("unknown placeholder @zzzzzzzzzzz@ (@@zzzzzzzzzzz@@ is that text); known are attribute, ")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("-D@gpu@=@sm@", {"gpu", "sm"}),
        ("@@gpu@@", set()),
        ("plain", set()),
        ({"a": ["@isa@", {"b": "@name@"}], "c": ("@jobs@",)}, {"isa", "name", "jobs"}),
        ({"@gpu@": 1}, set()),
        (True, set()),
    ],
)
def test_a_value_mentions_the_placeholders_of_its_texts(value: object, expected: set[str]) -> None:
    assert mentioned(value) == expected


def test_placeholders_of_gpus_and_of_architectures() -> None:
    assert {"cuda", "cuda-tag", "cuda-packages", "sm", "capability"} == OF_A_GPU
    assert {"gpu", "sm", "capability"} == OF_AN_ARCHITECTURE
    assert PLACEHOLDERS.keys() > OF_A_GPU | OF_AN_ARCHITECTURE
    assert [name for name, meaning in PLACEHOLDERS.items() if len(meaning) < 9] == []
