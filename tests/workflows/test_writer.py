"""The YAML writer: whatever is written is read back the same by both YAML versions' readers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ci_compiler.workflows.writer import Remarked, Spaced, dump


def readable(text: str) -> bool:
    """Whether YAML can hold the text at all (YAML 1.2.2, 5.1): no lone surrogates, no control characters."""
    return all(
        char in "\n\t" or (char.isprintable() and char != "\ufeff") or char in "\x85\xa0\u2028\u2029" for char in text
    )


SCALARS = st.one_of(
    st.text(max_size=20).filter(readable),
    st.text(alphabet="ab \n\t\x85\u2028", max_size=8),
    st.sampled_from(
        ["on", "No", "1.0", "012", "1e3", "~", "", "- a", "a: b", "a #b", "&a", "*a", "!x", "%", "@", "`", "x:"]
    ),
    st.text(alphabet="${}()'\"|&<>=*#:-, \\\t[]", max_size=12),
    st.integers(-(10**6), 10**6),
    st.booleans(),
)
KEYS = st.one_of(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
    st.text(max_size=8).filter(lambda text: readable(text) and "\n" not in text),
)
NODES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, min_size=1, max_size=4),
        st.lists(SCALARS, max_size=4),
        st.lists(st.dictionaries(KEYS, inner, min_size=1, max_size=3), min_size=1, max_size=3),
    ),
    max_leaves=12,
)


def strings(node: Any) -> Any:
    """YAML 1.1 (PyYAML) reads the plain keys on, no, yes … as booleans; GitHub and YAML 1.2 read text."""
    return YAML(typ="safe", pure=True).load(node)


@pytest.mark.slow
@given(st.dictionaries(KEYS, NODES, min_size=1, max_size=4))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    assert strings(dump(document)) == document


@given(st.dictionaries(st.from_regex(r"k[a-z]{0,6}", fullmatch=True), SCALARS, min_size=1, max_size=4))
def test_yaml_1_1_reads_the_same_values(document: dict[str, Any]) -> None:
    assert yaml.load(dump(document), Loader=yaml.CSafeLoader) == document


def test_the_style_is_the_one_that_people_write() -> None:
    document = {
        "name": "a workflow",
        "on": {"push": {"branches": ["main"], "paths": ["a/*.nix"]}, "workflow_dispatch": None},
        "permissions": {},
        "jobs": Spaced(
            {
                "one": {
                    "runs-on": ["self-hosted", "x64"],
                    "steps": [{"uses": Remarked("a/b@c", "v1"), "with": {"n": 1}}],
                },
                "two": {"if": "${{ always() }}", "env": {"VERSION": "12.8", "ON": "on"}, "run": "a\nb\n"},
            }
        ),
    }
    assert dump(document, header=["Made."]) == EXPECTED


EXPECTED = """\
# Made.
name: a workflow

on:
  push:
    branches: [main]
    paths: [a/*.nix]
  workflow_dispatch:

permissions: {}

jobs:
  one:
    runs-on: [self-hosted, x64]
    steps:
      - uses: a/b@c # v1
        with:
          "n": 1

  two:
    if: ${{ always() }}
    env:
      VERSION: "12.8"
      "ON": "on"
    run: |
      a
      b
"""
