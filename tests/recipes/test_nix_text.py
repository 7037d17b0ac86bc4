"""Nix text: strings that Nix reads back as they were, and lists and sets in the usual layout."""

from __future__ import annotations

import json
import subprocess

import pytest

from ci_compiler.recipes import nix_text as nix
from tests.adoption.helpers import needs_nix
from tests.processes import MINUTES


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("it's $x", "it's $x"),
        ("''", "'''"),
        ("${x}", "''${x}"),
        ("''${x}", "'''''${x}"),
        ("'${x}'", "''\\'''${x}'"),
        ("'''${x}", "'''''\\'''${x}"),
        ("$${x}", "$''${x}"),
    ],
)
def test_text_in_an_indented_string(text: str, escaped: str) -> None:
    assert nix.escape_lines(text) == escaped


@needs_nix
@pytest.mark.parametrize("dollar", ["${x}", "$x", "$${x}", "x"])
@pytest.mark.parametrize("quotes", range(6))
def test_nix_reads_the_text_as_it_was(quotes: int, dollar: str) -> None:
    text = f"echo {chr(39) * quotes}{dollar}{chr(39) * quotes} end"
    lines = f"''\n{nix.escape_lines(text)}\n''"
    expression = f"[ {nix.string(text)} ({lines}) ]"
    command = ["nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "--expr", expression]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MINUTES, check=True)
    assert json.loads(done.stdout) == [text, f"{text}\n"]


@pytest.mark.parametrize(
    ("text", "written"),
    [("a", '"a"'), ('a"b\\', '"a\\"b\\\\"'), ("${x}$y", '"\\${x}$y"'), ("a\nb\r\tc", '"a\\nb\\r\\tc"')],
)
def test_a_string(text: str, written: str) -> None:
    assert nix.string(text) == written


def test_a_comment_is_one_line() -> None:
    assert nix.comment("a\n  b\tc") == "# a b c"


@pytest.mark.parametrize("text", ["a", "a'b", "_a-1", "A"])
def test_an_identifier_is_a_name_as_it_is(text: str) -> None:
    assert nix.name(text) == text


@pytest.mark.parametrize("text", ["", "1a", "a.b", "a b", "-a", "'", "é"])
def test_any_other_name_is_quoted(text: str) -> None:
    assert nix.name(text) == f'"{text}"'


@pytest.mark.parametrize("text", ["assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"])
def test_a_keyword_is_quoted(text: str) -> None:
    """Nix manual, "Identifiers"; `or` is not a keyword everywhere, but after `a.b` Nix reads it as a keyword."""
    assert nix.attributes({text: "1"}) == f'{{\n  "{text}" = 1;\n}}'


@pytest.mark.parametrize(
    ("item", "written"),
    [
        ("a", '"a"'),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (0, "0"),
        (1.5, "1.5"),
        (-1, "(-1)"),
        ([], "[ ]"),
        ({}, "{ }"),
        ([1, "a", None], '[ 1 "a" null ]'),
        ({"a": 1, "b c": [True]}, '{\n  a = 1;\n  "b c" = [ true ];\n}'),
        ([{"a": "b"}], '[\n  {\n    a = "b";\n  }\n]'),
    ],
)
def test_a_value_is_an_expression(item: object, written: str) -> None:
    assert nix.value(item) == written
    assert nix.value(["a", {"b": "c"}], str.upper) == "[\n  A\n  {\n    b = C;\n  }\n]"


@pytest.mark.parametrize(("width", "lines"), [(80, 1), (81, 3)])
def test_a_list_that_is_too_long_for_a_line_has_one_for_each_entry(width: int, lines: int) -> None:
    text = "a" * (width - len('[ "" ]'))
    assert len(nix.words([text]).split("\n")) == lines
    assert nix.words(["a", text]) == f'[\n  "a"\n  "{text}"\n]'


def test_lines_are_indented_but_for_empty_ones() -> None:
    assert nix.indent("a\n\n  b\n") == "  a\n\n    b\n"
    assert nix.indent("a") == "  a"
    assert nix.indent("") == ""
    assert nix.lines(["a\n  b\n", "", "c"]) == "''\n  a\n    b\n\n  c\n''"
    assert nix.block("[", iter(["a", "b\nc"]), "]") == "[\n  a\n  b\n  c\n]"
