"""Recipes that cannot be evaluated: each is a finding, and the others are evaluated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_compiler.adoption import evaluator
from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluator import evaluate, find_recipes, parse
from ci_compiler.errors import InputError
from tests.adoption.helpers import GOOD, needs_nix, one, problem, write

ENDLESS = "builtins.genericClosure { startSet = [ { key = 0; } ]; operator = x: [ { key = x.key + 1; } ]; }"


@needs_nix
@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("{ a =\n 1; b = ; }", "syntax error, unexpected ';'", (2, 9)),
        ("# nothing\n", "syntax error, unexpected end of file", None),
        ("let x = { y = x.y; }; in x.y", "infinite recursion encountered", (1, 11)),
        ("{ lib }:\nlib.noSuchFunction 1", "attribute 'noSuchFunction' missing", (2, 1)),
        ("{ lib }:\nthrow ''for no\n reason''", "for no", (1, 1)),
        ("assert false; 1", "assertion 'false' failed", (1, 1)),
        ("undefined", "undefined variable 'undefined'", (1, 1)),
        ("builtins.readFile /etc/passwd", "'/etc/passwd' is forbidden in restricted mode", (1, 1)),
        ("import ../outside.nix", "is forbidden in restricted mode", (1, 1)),
        ('import (builtins.fetchurl "https://example.org/x")', "import of https://example.org/x is refused", (1, 1)),
        ('import (__fetchurl "https://example.org/x")', "import of https://example.org/x is refused", (1, 1)),
        ('builtins.builtins.fetchMercurial "https://example.org/x"', "builtins.fetchMercurial is refused", (1, 1)),
        ('import (fetchTarball "https://example.org/x.tar.gz")', "fetchTarball of https://example.org/x", (1, 9)),
        ('import (fetchGit "https://example.org/x")', "fetchGit of https://example.org/x is refused", (1, 1)),
        ("<elsewhere>", "file 'elsewhere' was not found in the Nix search path", None),
        ("import ./nowhere.nix", "nowhere.nix': No such file or directory", None),
        ("import ./recipe.nix", "stack overflow (possible infinite recursion)", None),
        ("[ 1 2 ]", "the recipe gives a value of type list, not a package", None),
        ("{ lib }: x: x", "the recipe gives a value of type function, not a package", None),
        ("{ pkgs }: { inherit (pkgs) hello; }", "the recipe gives a value of type set, not a package", None),
        ('{ python3Packages }: python3Packages.torch.overrideAttrs { pname = "a b"; }', "illegal character ' '", None),
        ("builtins.length (builtins.genList (x: x) 2000000000)", "out of memory", None),
    ],
)
def test_a_failed_evaluation_is_a_finding(
    tmp_path: Path, text: str, message: str, place: tuple[int, int] | None
) -> None:
    write(tmp_path, outside="1")
    finding = problem(tmp_path / "recipes", text)
    assert finding.code == "recipe-evaluation"
    assert message in finding.message
    assert finding.place.file == str(tmp_path / "recipes" / "recipe.nix")
    if place:
        assert (finding.place.line, finding.place.column) == place


@needs_nix
def test_an_endless_evaluation_is_stopped(tmp_path: Path) -> None:
    finding = problem(tmp_path, ENDLESS, timeout=8)
    assert (finding.code, finding.place.file) == ("recipe-timeout", str(tmp_path / "recipe.nix"))
    assert "within 2 s" in finding.message


@needs_nix
def test_without_a_time_limit_endless_recipes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "PATIENCE", 1.0)
    monkeypatch.setattr(evaluator, "GIVEN_UP", 1)
    write(tmp_path, **{f"r{number}": ENDLESS for number in range(5)})
    evaluations, findings = evaluate(tmp_path, find_recipes(tmp_path))
    assert evaluations == ()
    assert {finding.code for finding in findings} == {"recipe-timeout"}
    left = "it was not evaluated: 1 recipes before it did not end within 1 s each"
    assert [finding.message == left for finding in findings].count(True) == 2


@needs_nix
def test_recipes_for_which_no_time_is_left_are_findings(tmp_path: Path) -> None:
    write(tmp_path, a=GOOD, b=GOOD)
    evaluations, findings = evaluate(tmp_path, find_recipes(tmp_path), timeout=0.001)
    assert evaluations == ()
    assert [finding.code for finding in findings] == ["recipe-timeout", "recipe-timeout"]


@needs_nix
def test_wrong_recipes_do_not_stop_the_others(tmp_path: Path) -> None:
    recipes = {f"r{n:02}": GOOD if n % 3 else f'{{ lib }}: throw "wrong {n}"' for n in range(30)}
    write(tmp_path, **recipes)
    evaluations, findings = evaluate(tmp_path, find_recipes(tmp_path))
    assert [evaluation.path.stem for evaluation in evaluations] == [f"r{n:02}" for n in range(30) if n % 3]
    assert [finding.message for finding in findings] == [f"wrong {n}" for n in range(0, 30, 3)]


@needs_nix
def test_an_error_in_a_shared_file_names_the_file_and_the_recipe(tmp_path: Path) -> None:
    write(tmp_path, lib__shared="{\n  a = 1; b = ; }", recipe="(import ./lib/shared.nix).a")
    _, (finding,) = evaluate(tmp_path, find_recipes(tmp_path))
    assert (finding.place.file, finding.place.line) == (str(tmp_path / "lib" / "shared.nix"), 2)
    assert f"(evaluating {tmp_path / 'recipe.nix'})" in finding.message


@needs_nix
def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    write(tmp_path, outside="1")
    folder = write(tmp_path / "recipes", good=GOOD, through="{ python3Packages }: import ./link.nix")
    (folder / "link.nix").symlink_to(tmp_path / "outside.nix")
    _, findings = evaluate(folder, [folder / "link.nix", folder / "through.nix"])
    assert "is outside the folder" in findings[0].message
    assert "forbidden in restricted mode" in findings[1].message


@needs_nix
def test_output_on_standard_error_is_not_taken_for_records(tmp_path: Path) -> None:
    fake = r'builtins.trace "ci-compiler-event {\"event\":\"end\",\"recipe\":0,\"value\":{}}" (abort "stop")'
    assert "stop" in problem(tmp_path, fake).message


def test_folders_without_recipes(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    write(tmp_path, lib__default="1")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError) as caught:
            find_recipes(folder)
        assert caught.value.findings[0].code == "recipes-missing"
    with pytest.raises(InputError):
        evaluate(tmp_path / "nowhere", [])


@needs_nix
def test_no_recipes_are_no_evaluations(tmp_path: Path) -> None:
    assert evaluate(tmp_path, []) == ((), ())


def test_a_missing_nix_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path, recipe="1")
    for call in (lambda: evaluate(tmp_path, find_recipes(tmp_path)), lambda: parse(find_recipes(tmp_path))):
        with pytest.raises(InputError, match="apt install nix-bin") as caught:
            call()
        assert caught.value.findings[0].code == "nix-missing"


@needs_nix
def test_a_failure_of_nix_itself_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / nix.PROGRAM
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'error: cannot start' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    with pytest.raises(InputError, match=r".*cannot start"):
        one(tmp_path, "1")
