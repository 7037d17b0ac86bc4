"""Name patterns mean what they mean in a shell."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.spec.patterns import matcher, matcher_of_any
from tests.checkers import require

NAMES = ["pytorch-sm90-avx2", "pytorch-sm100-avx2", "torchvision-sm90-avx512", "pytorch-cpu-avx2", "a,b"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*", [0, 1, 2, 3, 4]),
        ("pytorch-*", [0, 1, 3]),
        ("*-sm{90,100}-*", [0, 1, 2]),
        ("{pytorch,torchvision}-sm90-avx{2,512}", [0, 2]),
        ("pytorch-{cpu,sm{90,100}}-*", [0, 1, 3]),
        ("pytorch-sm?0-avx2", [0]),
        ("pytorch-[!s]*", [3]),
        ("{a,b}{,x}", []),
        ("pytorch-sm90-avx2{}", [0]),
        ("a?b", [4]),
    ],
)
def test_patterns(pattern: str, matched: list[int]) -> None:
    assert [index for index, name in enumerate(NAMES) if matcher(pattern)(name)] == matched


@pytest.mark.parametrize("pattern", ["{a", "a}", "{a,{b}", "}{"])
def test_unbalanced_braces_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="brace"):
        matcher(pattern)


@pytest.mark.parametrize(
    ("pattern", "matched", "other"),
    [
        ("*{a,b}" * 12, "xa" * 12, "xa" * 11),
        ("{a,b}" * 60, "ab" * 30, "ab" * 29 + "ac"),
        ("*{a,b}" * 30 + "c", "ab" * 60 + "c", "ab" * 60),
        ("{" * 60 + "a" + ",b}" * 60, "b", "c"),
        ("{" + "," * 100 + "x}", "x", "y"),
    ],
)
def test_braces_with_many_alternatives_are_fast(pattern: str, matched: str, other: str) -> None:
    start = time.process_time()
    test = matcher(pattern)
    assert [test(matched), *(test(f"{other}{index}") for index in range(500))] == [True] + [False] * 500
    assert time.process_time() - start < 1


@pytest.mark.parametrize(("pattern", "matched"), [("[,a]{,}", ","), ("{[a,b],c}", "[a"), ("x{[!s],c}", "xp")])
def test_commas_divide_a_class_within_braces_only(pattern: str, matched: str) -> None:
    assert matcher(pattern)(matched)


def test_any_of_several_patterns() -> None:
    both = matcher_of_any(["*-cpu-*", "*avx512"])
    assert [name for name in NAMES if both(name)] == [NAMES[2], NAMES[3]]


def test_braces_expand_as_in_bash() -> None:
    bash = require("bash")
    for pattern in ("x{a,b{c,d}}y{1,2}", "{a,b}-{c,d}", "p{,q}r"):
        words = subprocess.run(
            [bash, "-c", f"echo {pattern}"], capture_output=True, text=True, check=True
        ).stdout.split()
        assert all(map(matcher(pattern), words))
        assert not matcher(pattern)("".join(words))


@given(st.text(alphabet="ab{},*?[]!-", max_size=12), st.text(alphabet="ab,-", max_size=8))
def test_every_pattern_either_matches_or_is_refused(pattern: str, name: str) -> None:
    try:
        test = matcher(pattern)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = "" if test(name) in {True, False} else "neither matches nor is refused"
    assert "brace" in refusal or not refusal
