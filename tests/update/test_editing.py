"""Edits of a spec's text: every byte outside the edited values stays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.errors import InputError
from ci_compiler.spec.load import parse_document
from ci_compiler.update.editing import Edit, edited, repeated
from tests.loops import each

WORDS = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
REMARKS = st.sampled_from(["", "  # a remark", " # with: {colon}, and 'quotes'"])
BETWEEN = st.sampled_from(["", "\n", "# alone on its line\n", "\n# after a blank line\n\n"])


@st.composite
def specs(draw: st.DrawFn) -> tuple[str, list[tuple[tuple[str, str, str], str, str]]]:
    """A text with branches in several styles, and each version in it: its path, and the text before and after it."""
    text, found = draw(BETWEEN) + "version: 1\n" + draw(BETWEEN) + "branches:\n", []
    for name in draw(st.lists(WORDS, min_size=1, max_size=3, unique=True)):
        packages = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
        text += f"  {name}:{draw(REMARKS)}\n"
        is_flow = draw(st.booleans())
        text += "    versions: {" if is_flow else f"    versions:{draw(REMARKS)}\n"
        for at, package in enumerate(packages):
            quote = draw(st.sampled_from(["", "'", '"']))
            text += f"{', ' * bool(at)}{package}: {quote}" if is_flow else f"      {package}: {quote}"
            found.append((("branches", name, package), text, quote))
            text += f"2.8.{at}{quote}" + ("" if is_flow else f"{draw(REMARKS)}\n{draw(BETWEEN)}")
        text += f"}}{draw(REMARKS)}\n" if is_flow else ""
        text += draw(BETWEEN)
    return text + draw(st.sampled_from(["owner: me\n", "owner: me"])), found


@pytest.mark.slow
@given(specs())
def test_only_the_bytes_of_the_value_change(given: tuple[str, Any]) -> None:
    text, found = given
    for (_, branch, package), before, quote in each(found):
        path = ("branches", branch, "versions", package)
        made = edited(text, [Edit(path, "2.10.11")], shown="spec")
        old = parse_document(text.encode(), shown="spec").value["branches"][branch]["versions"][package]
        assert made == f"{before}2.10.11{text[len(before) + len(old) :]}", quote


@given(specs())
def test_a_version_that_is_removed_takes_its_own_line_and_no_other(given: tuple[str, Any]) -> None:
    text, found = given
    of_branch = Counter(branch for (_, branch, _), _, _ in found)
    for (_, branch, package), before, _ in each(found):
        start, end = before.rfind("\n") + 1, text.find("\n", len(before)) + 1
        if of_branch[branch] > 1 and "{" not in before[start:]:
            made = edited(text, [Edit(("branches", branch, "versions", package), None)], shown="spec")
            assert made == text[:start] + text[end:]


@pytest.mark.slow
@given(specs())
def test_a_source_that_is_added_and_removed_again_leaves_no_trace(given: tuple[str, Any]) -> None:
    text, found = given
    for (_, branch, package), _, _ in each(found):
        path = ("branches", branch, "sources", package)
        added = edited(text, [Edit(path, {"repository": "o/r", "tag": "v2.10.11"})], shown="spec")
        lines = text.splitlines()
        assert [line for line in added.splitlines() if line in lines] == lines
        assert edited(added, [Edit(path, None)], shown="spec") == text


@given(specs())
def test_a_branch_that_is_repeated_leaves_the_others(given: tuple[str, Any]) -> None:
    text, found = given
    branch = found[0][0][1]
    made = repeated(text, ("branches", branch), "2.11")
    value, before = (parse_document(one.encode(), shown="spec").value for one in (made, text))
    assert value["branches"].pop("2.11") == value["branches"][branch]
    assert value == before
    assert [line for line in text.splitlines() if line not in made.splitlines()] == []


def test_line_ends_and_the_last_line_stay() -> None:
    text = "a: 1\r\nb:\r\n  c: x  # why\r\nd: e"
    made = edited(text, [Edit(("b", "f"), "w"), Edit(("b", "c"), "z"), Edit(("g",), "h")], shown="spec")
    assert made == "a: 1\r\nb:\r\n  c: z  # why\r\n  f: w\r\nd: e\r\ng: h"


def test_a_value_that_an_alias_repeats_is_not_edited() -> None:
    text = "a: &one {v: x}\nb: *one\n"
    with pytest.raises(InputError, match=r"`b.v` cannot be edited here; write `b.v: w` by hand"):
        edited(text, [Edit(("b", "v"), "w")], shown="spec")
