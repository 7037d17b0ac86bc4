"""Every finding code is registered, documented, used and tested."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware.pairs import HARDWARE_CODES
from ci_compiler.register import TEXTS, page, pages, register, url
from tests.loops import each
from tests.rows import for_each_row

ROOT = Path(__file__).parents[1]
WRONG = Path(__file__).parent / "examples/wrong"
TAKES_A_CODE = {"wrong": 1, "finding": 1}
"""Functions whose positional argument of this number is a code."""

MAKES_A_CODE = {"ci_compiler/cli/compile/explain.py", "ci_compiler/github/errors.py", "ci_compiler/register.py"}
"""Modules that may make a code of a text: one that the user typed, a member of another enumeration, the register."""


@cache
def modules() -> dict[str, ast.Module]:
    paths = sorted((ROOT / "ci_compiler").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for name, tree in modules().items():
        if name != "ci_compiler/codes.py":
            yield from ((name, node) for node in ast.walk(tree))


def codes_given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are codes."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    yield from (word.value for word in call.keywords if word.arg == "code")
    yield from call.args[TAKES_A_CODE[name] :][:1] if name in TAKES_A_CODE else []


def test_the_register_documents_the_codes_and_no_others() -> None:
    names = list(tomllib.loads(TEXTS.read_text("utf-8")))
    assert names == [code.value for code in Code]
    assert names == sorted(names)
    assert all(code.name == code.upper().replace("-", "_") for code in Code)


@pytest.mark.slow
def test_every_code_that_is_raised_is_registered() -> None:
    """Mypy refuses a text where a code belongs; this is for those who raise one with another type."""
    calls = [(name, node) for name, node in nodes() if isinstance(node, ast.Call)]
    texts = [
        f"{name}:{given.lineno}"
        for name, call in calls
        for given in codes_given(call)
        if isinstance(given, ast.Constant | ast.JoinedStr | ast.BinOp)
    ]
    assert texts == []
    assert {name for name, call in calls if isinstance(call.func, ast.Name) and call.func.id == "Code"} <= MAKES_A_CODE


def test_every_code_that_is_registered_is_raised() -> None:
    used = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Code"
    }
    assert [code.value for code in Code if code.name not in used] == []


@cache
def provoked() -> frozenset[str]:
    """The codes that the folders in `tests/examples/wrong` show."""
    words: set[str] = set()
    for path in WRONG.glob("*/stderr.txt"):
        words |= set(re.findall(r" \[([a-z0-9-]+)\]$", path.read_text("utf-8"), re.MULTILINE))
    return frozenset(words)


@for_each_row(Code)
def test_every_code_has_a_folder_or_a_test_that_provokes_it(code: Code) -> None:
    tested = register()[code].tested
    assert (code in provoked()) != bool(tested), "a folder in tests/examples/wrong, or `tested` in findings.toml"
    if tested:
        text = (ROOT / tested).read_text("utf-8")
        assert re.search(rf"(?<![\w-]){code}(?![\w-])|Code\.{code.name}\b", text), f"{tested} does not provoke {code}"


@for_each_row(Code)
def test_every_entry_is_whole(code: Code) -> None:
    entry = register()[code]
    for text in (entry.meaning, entry.reason, entry.remedy):
        assert text.endswith(".")
        assert "\n" not in text
        assert len(text) <= 220
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry.since)
    assert not entry.source.endswith(".")


def test_every_rule_has_a_source() -> None:
    assert all(register()[code].source for code in HARDWARE_CODES)


def test_the_severity_follows_from_the_code() -> None:
    place = Place(file="file")
    assert (Code.UNKNOWN_GPU.severity, Code.NO_CACHE.severity) == (Severity.ERROR, Severity.WARNING)
    for code in Code:
        assert Finding(place=place, code=code, message="").severity is code.severity
        assert Finding(place=place, code=code, message="", tolerated=True).severity is Severity.WARNING


def test_explain_prints_the_page_of_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["explain", "unknown-gpu"]) == 0
    assert capsys.readouterr().out == page(register()[Code.UNKNOWN_GPU])
    assert run(PROGRAM, ["explain", "unknown-gpu", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["code"], shown["url"]) == ("unknown-gpu", url(Code.UNKNOWN_GPU))


def test_the_url_leads_to_the_section_of_the_code_in_this_project() -> None:
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    for code in each(Code):
        path, _, anchor = url(code).removeprefix(f"{source}/blob/main/").partition("#")
        assert re.findall(rf"^#+ {anchor}$", (ROOT / path).read_text("utf-8"), re.MULTILINE) == [f"## {code}"]


def test_the_findings_have_one_page_per_area() -> None:
    """At most 15: a reader finds a page in a list, and a code on a page."""
    areas = {entry.area for entry in register().values()}
    assert len(areas) <= 15
    assert len(pages()) == len(areas) + 1
