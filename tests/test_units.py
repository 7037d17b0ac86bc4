"""How durations, sizes and Markdown tables are written."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_compiler.units import GB, duration, gigabytes, grouped, machine_hours, markdown_table, markdown_text, size


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        *[(0, "0 s"), (0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (3569, "59 min"), (3570, "1 h"), (3600, "1 h")],
        *[(3660, "1 h 1 min"), (90_000, "25 h"), (-90, "-90 s"), (-3700, "-1 h 2 min"), (-0.4, "0 s")],
    ],
)
def test_durations(seconds: float, written: str) -> None:
    assert duration(seconds) == written


@pytest.mark.parametrize(
    ("count", "written"),
    [
        *[(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (10**6 - 1, "999 kB"), (10**6, "1 MB"), (GB - 1, "999 MB")],
        *[(GB, "1 GB"), (2 * GB - 1, "1.9 GB"), (134_989_999_999, "134.9 GB"), (10**15, "1000000 GB")],
    ],
)
def test_sizes_are_rounded_down(count: int, written: str) -> None:
    assert size(count) == written


def test_gigabytes_are_rounded_down_to_a_tenth() -> None:
    assert [gigabytes(count) for count in (0, GB, 2 * GB - 1, 134_989_999_999)] == [0, 1, 1.9, 134.9]


def test_machine_hours_have_tenths_below_ten() -> None:
    assert [machine_hours(hours * 3600) for hours in (0, 5.34, 10, 1234)] == ["0.0", "5.3", "10", "1,234"]


def test_a_table_is_markdown() -> None:
    text = markdown_table(("name", "jobs", "hours"), [("`a`", 1, "2.0"), ("b", 10, "3.5")], right=2)
    assert text == "| name | jobs | hours |\n| --- | --: | --: |\n| `a` | 1 | 2.0 |\n| b | 10 | 3.5 |"


@pytest.mark.parametrize("words", ["a|b", "a\\|b", "<b>*x*</b> `y` [z](w) #1 & ~~no~~ $x$", "two\nlines", "\\", "||"])
def test_words_stay_in_their_cell_and_are_shown_as_they_are(words: str) -> None:
    table = markdown_table(("one", "two"), [(markdown_text(words), "end")])
    tokens = MarkdownIt("commonmark").enable("table").parse(table)
    cells = [token for token in tokens if token.type == "inline"][2:]
    assert [len(cell.children or []) for cell in cells] == [len(cells[0].children or []), 1]
    assert ["".join(child.content for child in cell.children or []) for cell in cells] == [
        words.replace("\n", " "),
        "end",
    ]


@given(st.text(max_size=30))
def test_any_text_stays_one_table_cell(text: str) -> None:
    cell = markdown_text(text)
    assert "\n" not in cell
    assert "|" not in cell.replace("\\|", "")
    assert "<" not in cell.replace("\\<", "")


@pytest.mark.parametrize(
    ("words", "live"),
    [
        ("ask @org/team, or @me.", ["@org/team", "@me"]),
        ("see https://example.org/a_b?c=d (and www.example.org)", ["https://example.org/a_b?c=d", "www.example.org"]),
        ("mail first.last+tag@example.org!", ["first.last+tag@example.org"]),
        ("a @ b: no_mention // here", []),
    ],
)
def test_mentions_and_addresses_are_code(words: str, live: list[str]) -> None:
    (token,) = (token for token in MarkdownIt("commonmark").parse(markdown_text(words)) if token.type == "inline")
    children = token.children or []
    assert [child.content for child in children if child.type == "code_inline"] == live
    assert "".join(child.content for child in children) == words


@pytest.mark.parametrize("part", ["1.", "a", "a@", "@", "://", "www.", "-+.", "a.b/"])
def test_long_text_is_escaped_fast(part: str) -> None:
    start = time.process_time()
    assert markdown_text(part * 50_000)
    assert time.process_time() - start < 2


def test_a_bare_bar_does_not_end_a_cell() -> None:
    assert markdown_table(("one", "two"), [("`a|b`", r"c\|d")]).splitlines()[2] == r"| `a\|b` | c\|d |"


def test_groups_keep_the_order_of_their_values_and_of_their_first_values() -> None:
    groups = grouped(["bb", "a", "cc", "d"], len)
    assert list(groups.items()) == [(2, ["bb", "cc"]), (1, ["a", "d"])]
