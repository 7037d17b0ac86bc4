"""Fleets of every shape are adopted: all names come back, no byte changes, and defects are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from tests.adoption.fleets import SHAPES, Fleet, git
from tests.adoption.helpers import needs_nix
from tests.loops import each

SPEC = ".github/ci-matrix.yaml"


@pytest.fixture(params=SHAPES)
def fleet(request: pytest.FixtureRequest) -> Fleet:
    return SHAPES[request.param]()


def ci(*argv: str) -> int:
    return run(PROGRAM, list(argv))


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    """The names of the variants of the spec in this folder, by branch."""
    capsys.readouterr()
    assert ci("variants", "--json") == 0
    found: dict[str, set[str]] = {}
    for row in json.loads(capsys.readouterr().out):
        found.setdefault(row["branch"], set()).add(row["name"])
    return found


@needs_nix
def test_each_branch_comes_back_and_nothing_changes(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for branch in each(fleet.branches):
        folder = fleet.write(tmp_path, branch)
        monkeypatch.chdir(folder)
        assert ci("adopt", ".", "-o", SPEC) == 0
        assert listed(capsys) == {branch: fleet.names(branch)}
        assert ci() == 0
        assert ci("recipes") == 0
        assert git(folder, "status", "--porcelain", "--", ".flox") == ""
        assert ci("--check") == 0
        assert ci("recipes", "--check") == 0
        capsys.readouterr()
        assert ci("forecast") == 0
        assert f"{SPEC}:4: guessed, and so is what follows from it" in capsys.readouterr().err
        assert ci("audit", ".") == 0


@needs_nix
def test_all_branches_come_back_in_one_spec(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [fleet.write(tmp_path, branch) for branch in fleet.branches]
    monkeypatch.chdir(folders[0])
    assert ci("adopt", *map(str, folders), "-o", SPEC) == 0
    assert listed(capsys) == {branch: fleet.names(branch) for branch in fleet.branches}
    assert ci() == 0
    assert ci("--check") == 0


@needs_nix
def test_a_planted_defect_is_found(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, old, new, code = fleet.defect
    branch = next(branch for branch in fleet.branches if name in fleet.names(branch))
    folder = fleet.write(tmp_path, branch)
    monkeypatch.chdir(folder)
    assert ci("adopt", ".", "-o", SPEC) == 0
    path = folder / f".flox/pkgs/{name}.nix"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    capsys.readouterr()
    assert ci("audit", ".") == 1
    found = [line for line in capsys.readouterr().err.splitlines() if f"{name}.nix:" in line]
    assert found
    assert {line.split()[-1] for line in found} == {f"[{code}]"}
