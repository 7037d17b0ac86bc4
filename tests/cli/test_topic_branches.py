"""The branch whose files a checkout has: that of `--branch`, the one that is checked out, or the one it came from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.checkers import require
from tests.recipes.test_affected import Repository
from tests.specs import HASH, UNKNOWN_PIN, small

FILE, PKGS = ".github/ci-matrix.yaml", ".flox/pkgs"
BRANCH = {"cuda": "12.8", "nixpkgs": UNKNOWN_PIN, "nixpkgs-hash": HASH, "versions": {"a": "1.0"}}
NEXT = BRANCH | {"versions": {"a": "2.0"}}
MATRIX = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
SPEC = json.dumps(small(branches={"main": BRANCH, "next": NEXT}, packages={"a": {}}, matrix=MATRIX), indent=1)
A = f"{PKGS}/a-python313-cpu-avx2.nix"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files and recipes of both branches, with `main` checked out."""
    require("git")
    made = Repository(tmp_path_factory.mktemp("topics"))
    made.write(FILE, SPEC)
    for branch in ("main", "next"):
        made.git("checkout", "-q", "-B", branch)
        assert (made.ci(), made.ci("recipes")) == (0, 0)
        made.commit()
    made.git("checkout", "-q", "main")
    return made.root


@pytest.fixture
def repository(base: Path, tmp_path: Path) -> Repository:
    shutil.copytree(base, tmp_path / "work")
    return Repository(tmp_path / "work")


def clean(repository: Repository) -> bool:
    return not repository.git("status", "--porcelain")


@pytest.mark.parametrize("source", ["main", "next"])
@pytest.mark.parametrize("place", ["a topic", "a topic of it", "no branch"])
def test_a_topic_branch_is_checked_and_compiled_as_its_pull_request_is(
    repository: Repository, capsys: pytest.CaptureFixture[str], source: str, place: str
) -> None:
    repository.git("checkout", "-q", *(["--detach"] if place == "no branch" else ["-b", "topic"]), source)
    if place == "a topic of it":
        repository.write("README.md", "x\n")
        repository.commit()
        repository.git("checkout", "-qb", "below")
    assert (repository.ci("--check"), repository.ci("recipes", "--check")) == (0, 0)
    before = (repository.root / A).read_text("utf-8")
    repository.append(A)
    commit = repository.commit()
    capsys.readouterr()
    assert repository.ci("--check", "--branch", source) == 1
    asked = capsys.readouterr().err
    assert repository.ci("--check") == 1
    assert capsys.readouterr().err == asked.replace(f" --branch {source}", "")
    assert f"{A}: is not as compiled" in asked
    assert repository.ci("recipes", "--check") == 1
    assert repository.ci() == 0
    assert (repository.root / A).read_text("utf-8") == before
    assert (repository.git("rev-parse", "HEAD"), repository.ci("--check")) == (commit, 0)


def test_a_topic_branch_that_edits_the_spec_of_another_branch_is_refused_as_its_pull_request_is(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.git("checkout", "-q", "-b", "topic", "next")
    repository.write(FILE, SPEC.replace("my-org", "our-org"))
    assert (repository.ci(), repository.ci("recipes")) == (0, 0)
    repository.commit()
    capsys.readouterr()
    assert repository.ci("--check") == repository.ci("--check", "--branch", "next") == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    rest = "edit it on main, from which `ci-compile sync` carries it to next"
    assert said == [f"error: {FILE}: changes owner; {rest} [edited-elsewhere]"] * 2


@pytest.mark.parametrize("words", [[], ["--check"], ["recipes"], ["recipes", "--check"]])
def test_where_no_branch_is_known_nothing_is_checked_or_written(
    repository: Repository, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    repository.git("checkout", "-q", "--orphan", "pages")
    repository.append(A)
    commit = repository.commit()
    capsys.readouterr()
    assert repository.ci(*words) == 2
    said = "error: --branch: pages is checked out, which is not a branch of the spec; give --branch; known are "
    assert capsys.readouterr().err.startswith(said)
    assert (clean(repository), repository.git("rev-parse", "HEAD")) == (True, commit)


@pytest.mark.parametrize("words", [[], ["recipes"], ["recipes", "--adopt", "a"]])
def test_the_files_of_the_branch_that_is_checked_out_are_not_replaced_by_those_of_another(
    repository: Repository, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert repository.ci(*words, "--branch", "next") == 2
    assert capsys.readouterr().err == (
        "error: --branch: main is checked out, and its files would be replaced by those of next; check out next first, "
        "or run `ci-compile sync` [wrong-option]\n"
    )
    assert clean(repository)


def test_the_recipes_of_another_branch_are_compared_and_written_elsewhere(
    repository: Repository, tmp_path: Path
) -> None:
    assert repository.ci("recipes", "--check", "--branch", "next") == 1
    assert repository.ci("recipes", "--branch", "next", "--output", str(tmp_path / "pkgs")) == 0
    assert (tmp_path / "pkgs" / Path(A).name).read_text("utf-8") != (repository.root / A).read_text("utf-8")
    assert clean(repository)
