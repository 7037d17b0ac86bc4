"""Placeholders such as `@capability@`, which stand for a value of the variant in recipes, templates and work-arounds.

A placeholder is a word of lower-case letters, digits and hyphens between two `@`. `@@word@@` stands for `@word@`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ci_compiler.spec.shorthand.lists import TOOLKIT_PACKAGES, TOOLKIT_TAG, TOOLKITS

PLACEHOLDERS: Mapping[str, str] = {
    "name": "the variant's name",
    "package": "the package's name in the spec",
    "attribute": "the package's attribute in nixpkgs",
    "version": "the package's version on the branch",
    "pname": "the derivation's `pname`",
    "branch": "the branch",
    "python": "the Python version (3.13)",
    "python-tag": "the Python version in names (python313)",
    TOOLKITS: "the toolkit (12.8); empty for a CPU variant",
    TOOLKIT_TAG: "the toolkit in names, with its family; empty for a CPU variant",
    TOOLKIT_PACKAGES: "the toolkit's attribute in nixpkgs; empty for a CPU variant",
    "gpu": "the GPU architecture, or cpu",
    "sm": "the GPU architecture's number (90), or its target; empty for a CPU variant",
    "capability": "the compute capability (9.0), or the target without one; empty for a CPU variant",
    "isa": "the instruction set (avx2)",
    "flags": "the compiler flags of the instruction set, with a space between two",
    "system": "the Nix system (x86_64-linux)",
    "jobs": "the package's compile jobs",
    "nixpkgs": "the nixpkgs commit",
    "nixpkgs-hash": "the hash of the commit's archive; empty if the spec gives none",
}
"""What each placeholder stands for."""

OF_A_GPU = frozenset({TOOLKITS, TOOLKIT_TAG, TOOLKIT_PACKAGES, "sm", "capability"})
"""The placeholders that a CPU variant has no value for."""

OF_AN_ARCHITECTURE = frozenset({"gpu", "sm", "capability"})
"""The placeholders that name the GPU architecture."""

_WORD = re.compile(r"@(?P<kept>@[a-z][a-z0-9-]*@)@|@(?P<word>[a-z][a-z0-9-]*)@")


def unknown(text: str) -> Iterator[tuple[int, str]]:
    """The offset of each unknown placeholder in `text`, with the message about it."""
    from ci_compiler.spec.reasons import meant  # only a wrong text needs it

    for match in _WORD.finditer(text):
        word = match["word"]
        if word is not None and word not in PLACEHOLDERS:
            message = f"unknown placeholder {match[0]} (@{match[0]}@ is that text){meant(word, PLACEHOLDERS)}"
            yield match.start(), message


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each placeholder replaced by its value; further lines of a value are indented as its line is.

    Raises KeyError for a placeholder without a value.
    """

    def value(match: re.Match[str]) -> str:
        if match["word"] is None:
            return match["kept"]
        found = values[match["word"]]
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return found.replace("\n", "\n" + line[: len(line) - len(line.lstrip())])

    return _WORD.sub(value, text) if "@" in text else text


def mentioned(value: object) -> frozenset[str]:
    """The placeholders in the texts of a JSON value."""
    if isinstance(value, str):
        return (
            frozenset(match["word"] for match in _WORD.finditer(value) if match["word"])
            if "@" in value
            else frozenset()
        )
    if isinstance(value, Mapping):
        return frozenset().union(*map(mentioned, value.values()))
    return frozenset().union(*map(mentioned, value)) if isinstance(value, list | tuple) else frozenset()
