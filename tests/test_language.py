"""Phrases that a native reader stumbles over do not occur in documents, comments, docstrings and messages.

The list is a guard, not a style guide: it holds mistakes that were made here more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler.files.drift import is_ours

ROOT = Path(__file__).parents[1]

PLACES = (
    "README.md",
    ".github",
    ".editorconfig",
    ".pre-commit-config.yaml",
    "ci_compiler",
    "tests",
    "runner-images",
    ".ci",
    "pyproject.toml",
)
"""The files and folders that are checked. Compiled files are left out: their text comes from the code."""

SUFFIXES = {"", ".css", ".html", ".js", ".json", ".md", ".mjs", ".nix", ".py", ".sh", ".toml", ".yaml", ".yml"}
LEFT_OUT = {"tests/test_language.py", "tests/checkers/package-lock.json"}
LEFT_OUT_FOLDERS = {"__pycache__", "node_modules", "corpus"}

THING = (
    "branch|call|cell|check|code|colour|column|commit|container|failure|file|folder|job|kind|label set|lane|line"
    "|machine|module|name|package|page|pool|problem|process|recipe|release|repository|row|run|runner|shade|shard|slot"
    "|stage|step|table|target|test|toolkit|unit|variant|volume|workflow"
)

PHRASES = {
    r"of (ours|theirs|yours)": "our, or name the owner",
    r"shall": "must, or the present tense",
    r"(is|are|was|were|be) told(?! apart)": "is printed, is reported, is shown",
    r"mend(s|ed|ing)?": "fix",
    r"lest": "so that … not",
    r"behind (which|it|them)": "after which, after it",
    r"right behind": "directly after",
    r"(is|are) no news": "say what it means",
    r"anew": "again",
    r"(that|who|which) (is|are) none": "name what it is instead",
    r"none too": "not too",
    r"so many \w+ as": "as many … as",
    r"no more(?! than| \w+)": "no longer, not again",
    r"what came of(?! it\")": "the result of",
    r"(is|are|was|were) in sight": "is visible",
    r"were there": "if there were",
    r"one behind (the )?other": "one after the other",
    r"is said of": "is reported",
    r"machines? of one's own": "self-hosted machine",
    r"hitherto|thereof|wherefrom|whereof|nought|whither": "a word of today",
    r"(simply|obviously|of course)": "leave it out: it patronizes",
    rf"(?<!give\x20)(?<!gives\x20)(?<!giving\x20)(?:an?|one) (?:{THING}) an? (?:{THING})": "one X per Y",
    rf"\d[\d,.]* \w+s an? (?:{THING})": "N Xs per Y",
}
"""Patterns of words, and what to write instead."""


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for whole words; a line break, with a comment sign after it, may separate them."""
    between = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:#|//|\*|>)?[ \t]*)"
    return re.compile(rf"(?<![\w-])(?:{pattern.replace(' ', between)})(?![\w-])", re.IGNORECASE)


OFFENCES = {compiled(pattern): advice for pattern, advice in PHRASES.items()}


def files(place: str) -> Iterator[Path]:
    """The text files of a place that people write."""
    start = ROOT / place
    for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
        parts = path.relative_to(ROOT)
        if path.suffix not in SUFFIXES or LEFT_OUT_FOLDERS.intersection(parts.parts) or parts.as_posix() in LEFT_OUT:
            continue
        if path.is_file() and not is_ours(path):
            yield path


def prose(path: Path) -> str:
    """The text of a file; of a Markdown page, with empty lines in place of what a program prints."""
    text = path.read_text("utf-8", errors="replace")
    if path.suffix != ".md":
        return text
    return re.sub(
        r"^```text\n.*?^```$", lambda found: "\n" * found.group().count("\n"), text, flags=re.MULTILINE | re.DOTALL
    )


def offences(text: str) -> list[str]:
    """What is wrong with a text: the line, the phrase, and what to write instead."""
    return [
        "{}: {!r}: {}".format(text.count("\n", 0, found.start()) + 1, " ".join(found.group().split()), advice)
        for pattern, advice in OFFENCES.items()
        for found in pattern.finditer(text)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_the_language_is_plain(place: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{offence}" for path in files(place) for offence in offences(prose(path))]
    assert found == []


def test_every_place_has_files() -> None:
    assert [place for place in PLACES if not list(files(place))] == []


@pytest.mark.parametrize(
    "text",
    [
        "a file of ours",
        "It shall be found.",
        "The user is told why.",
        "how to mend it",
        "one workflow a shard",
        "a container a job, a volume a slot",
        "44 variants a package",
        "Seconds behind which GitHub is asked",
        "overlays that are none",
        "build it no more",
        "# what is\n# told",
    ],
)
def test_a_phrase_to_avoid_is_found(text: str) -> None:
    assert offences(text)


@pytest.mark.parametrize(
    "text",
    [
        "The two are told apart by their version.",
        "Give a job a name.",
        "one workflow per shard",
        "Amend the commit; I recommend it.",
        "no more than ten jobs, and no more jobs after that",
        "behind a protocol",
        "3 times a day",
        "add a package\n\n## A branch",
    ],
)
def test_good_english_is_not_found(text: str) -> None:
    assert offences(text) == []
