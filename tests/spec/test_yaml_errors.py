"""Messages about a text that is not YAML: the cause, at the place that has to change."""

from __future__ import annotations

import pytest
import yaml

from ci_compiler.spec.yaml_errors import explained

COLON = "a colon where no key can be: put text that contains `: ` in quotes, or compare the indentation"
QUOTES = "put text that begins with * in quotes"
ABOVE = "compare the lines above it"
CONFLICT = (
    "git left a conflict here; keep one side of it, and remove the lines that git wrote (<<<<<<<, =======, >>>>>>>)"
)


def said(text: str) -> tuple[int, int, str]:
    """The line, the column and the message about `text`."""
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        list(yaml.compose_all(text, Loader=yaml.CBaseLoader))
    return explained(caught.value, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n", (2, 1, CONFLICT)),
        ("a: 1\n=======\nb 3\n", (2, 1, CONFLICT)),
        (
            "a:\n  b: 1\n\u00a0 c: 2\n  d: 3\n",
            (3, 1, "U+00A0 looks like a blank and is none to YAML; write a blank, or remove it"),
        ),
        ('a: "x\nb: "y"\n', (1, 4, "this quote is not closed on its line, but on line 2; close it here")),
        ('a: 1\ncuda "12.8"\nb: 2\n', (2, 1, 'a colon is missing; write `cuda: "12.8"`')),
        ('a: 1\ncuda:"12.8"\nb: 2\n', (2, 1, 'the blank after this colon is missing; write `cuda: "12.8"`')),
        ("a: [1, 2\nb: 3\n", (1, 4, "this [ is not closed; write ] at its end, and a comma between entries")),
        ("a: {b: 1, c: 2]\n", (1, 15, "] does not close the { of line 1; write } before it")),
        ("a: [1, 2}}\n", (1, 9, "} does not close the [ of line 1; write ] before it")),
        ("a: [1, 2}\n", (1, 9, "} does not close the [ of line 1; write ] before it")),
        ('a: ["x" "y"]\n', (1, 9, "a comma is missing before this, or the [ before it is not closed")),
        ('a: "x\n', (1, 4, "this quote is not closed; write a second one at the end of the text")),
        ("a: b: c\n", (1, 5, COLON)),
        ("a:\n\t- x\n", (2, 1, "a tab; indent with spaces")),
        ("a: @x\n", (1, 4, "no value begins with @; put the text in quotes")),
        ("a: [, 1]\n", (1, 5, "nothing stands before this comma; remove it")),
        ("a: *glob, x\n", (1, 4, f"*glob stands for a value marked &glob, and there is none; {QUOTES}")),
        ('a: "\\q"\n', (1, 5, "\\q means nothing in double quotes; write \\\\, or use single quotes")),
        (
            "a: 1\n b: 2\n",
            (2, 3, COLON),
        ),
        (
            "a:\n  - x\n - y\n",
            (3, 2, "an entry of a list (-) among keys; write KEY: VALUE, or compare the indentation"),
        ),
        ("a:\n  - x\n  b: 1\n", (3, 3, f"this line is not one of the entries (-) of what begins on line 2; {ABOVE}")),
        ("a: 1\n]\n", (2, 1, "nothing is open that this ] closes; remove it")),
    ],
)  # fmt: skip
def test_the_cause_is_said_at_its_place(text: str, expected: tuple[int, int, str]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("problem", "context", "expected"),
    [
        ("odd", "while", (0, 0, "not YAML: odd")),
        ("", "while", (0, 0, "not YAML: while")),
        ("", "", (0, 0, "not YAML: cannot be parsed")),
    ],
)
def test_a_problem_without_a_place_is_repeated(problem: str, context: str, expected: tuple[int, int, str]) -> None:
    assert explained(yaml.MarkedYAMLError(context=context, problem=problem), "a: 1") == expected


def said_by_libyaml(problem: str, context: str = "") -> str:
    """The message for a problem at the beginning of a text."""
    mark = yaml.Mark("s", 0, 0, 0, None, None)
    return explained(yaml.MarkedYAMLError(context, None, problem, mark), "a: 1\nb: 2\n")[2]


def test_other_problems_are_repeated_at_their_place() -> None:
    assert said_by_libyaml("odd", "while") == "not YAML: odd"
    assert said_by_libyaml("", "while") == "not YAML: while"
    second = "a second document begins here; a spec is one document, so remove this line"
    assert said_by_libyaml("but found another document") == second


@pytest.mark.parametrize(("length", "shown"), [(40, "k: " + "v" * 37), (41, "k: " + "v" * 36 + "…")])
def test_a_long_line_is_cut(length: int, shown: str) -> None:
    value = "v" * (length - 3)
    assert said(f"a: 1\nk:{value}\nb: 2\n")[2] == f"the blank after this colon is missing; write `{shown}`"


def test_comments_and_empty_lines_are_no_cause() -> None:
    text = "a: 1\ncuda 12\n\n# note: this\nb: 2\n"
    assert said(text) == (2, 1, "a colon is missing; write `cuda: 12`")
    assert said("a: 1\n- cuda 12: 3\n   b: 2\n")[0] in {2, 3}


def test_brackets_that_the_end_of_the_text_leaves_open() -> None:
    assert said("a: [1,\n")[2] == "the text ends within brackets; write ] or } at the end of what they hold"
