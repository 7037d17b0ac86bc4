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
