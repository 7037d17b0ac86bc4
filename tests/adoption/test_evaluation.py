"""The parts of the evaluation: syntax and error messages."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluator import parse
from tests.adoption.helpers import STANDIN, needs_nix, write


@needs_nix
def test_syntax_errors_are_found_in_every_file(tmp_path: Path) -> None:
    write(tmp_path, a="1", b="{ a = ; }", c="{ lib }: lib.x", d="\nundefined", e="[ ")
    files = [*sorted(tmp_path.glob("*.nix")), tmp_path / "missing.nix"]
    assert [(f.place.file, f.place.line, f.place.column, f.message) for f in parse(files)] == [
        (str(tmp_path / "b.nix"), 1, 7, "syntax error, unexpected ';'"),
        (str(tmp_path / "d.nix"), 2, 1, "undefined variable 'undefined'"),
        (str(tmp_path / "e.nix"), 1, 2, "syntax error, unexpected end of file"),
        (str(tmp_path / "missing.nix"), 0, 0, "there is no such file"),
    ]
    assert {finding.code for finding in parse(files)} == {"recipe-syntax"}


@needs_nix
def test_the_stand_in_parses() -> None:
    files = sorted(STANDIN.rglob("*.nix"))
    assert len(files) > 10
    assert parse(files) == ()


def test_error_messages_of_newer_nix_are_read() -> None:
    text = dedent("""
        error:
               … while calling the 'foldl'' builtin
                 at /standin/main.nix:50:1:
               … while evaluating the attribute 'pname'
                 at /recipes/a.nix:3:5:
                    2| x
               … while calling a function
                 at /standin/lib/lists.nix:9:3:
               error: attribute 'x' missing
               at /recipes/lib/b.nix:7:9:
                    6| y
    """)
    nearest = nix.failure(text, [Path("/recipes")])
    assert (nearest.message, nearest.file, nearest.line) == ("attribute 'x' missing", Path("/recipes/lib/b.nix"), 7)
    without = nix.failure(text.replace("at /recipes/lib/b.nix:7:9:", ""), [Path("/recipes")])
    assert (without.file, without.line) == (Path("/recipes/a.nix"), 3)
    assert nix.failure("", []).message == "nix-instantiate failed: it ended without a message"
