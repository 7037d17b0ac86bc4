"""The spec is edited on the default branch: no change that was made elsewhere is lost unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.git import Git
from tests.recipes.test_affected import Repository

from .test_branches import PKGS, SPEC, X90, heads, remote, repository, shown

__all__ = ["remote", "repository"]

FILE = ".github/ci-matrix.yaml"
BUMPED = SPEC.replace("pytorch: 2.10.0, torchvision: 0.25.0", "pytorch: 2.10.1, torchvision: 0.25.0")


def edit(repository: Repository, branch: str, text: str, path: str = FILE) -> None:
    """Merges a change of a file into `branch`, and leaves `main` checked out."""
    repository.git("checkout", "-qf", branch)
    repository.write(path, text)
    repository.commit()
    repository.git("checkout", "-qf", "main")


@pytest.fixture
def synced(repository: Repository) -> Repository:
    """The repository after a sync, with `main` checked out."""
    assert repository.ci("sync") == 0
    repository.git("checkout", "-qf", "main")
    return repository


def test_a_change_that_was_merged_on_another_branch_is_never_rolled_back_unseen(
    synced: Repository, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(synced, "cuda-13_0", BUMPED)
    synced.git("push", "-q", "origin", "cuda-13_0")
    before = heads(synced), Git(remote).heads()
    assert synced.ci("sync", "--push") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        "error: cuda-13_0:.github/ci-matrix.yaml: changes branches.cuda-13_0.versions.pytorch, which main "
        "does not have; --take cuda-13_0 takes it over, --drop cuda-13_0 drops it [edited-elsewhere]"
    )
    assert (heads(synced), Git(remote).heads()) == before


def test_a_change_that_is_taken_over_reaches_every_branch_with_the_change_made_here(synced: Repository) -> None:
    edit(synced, "cuda-13_0", BUMPED)
    synced.write(FILE, SPEC.replace("owner: my-org", "owner: our-org"))
    assert synced.ci("sync", "--take", "cuda-13_0") == 2  # the merged file would replace one that is in no commit
    synced.commit()
    assert synced.ci("sync", "--take", "cuda-13_0") == 0
    for branch in ("main", "cuda-13_0"):
        assert shown(synced, branch, FILE) == BUMPED.replace("owner: my-org", "owner: our-org").strip()
    assert "2.10.1" in shown(synced, "cuda-13_0", f"{PKGS}/{X90.replace('12_8', '13_0')}.nix")
    synced.git("checkout", "-qf", "main")
    assert synced.ci("sync") == 0


def test_a_change_that_is_dropped_is_overwritten(synced: Repository) -> None:
    edit(synced, "cuda-13_0", BUMPED)
    assert synced.ci("sync", "--drop", "cuda-13_0") == 0
    assert shown(synced, "cuda-13_0", FILE) == SPEC.strip()


def test_changes_that_conflict_are_not_merged(synced: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    edit(synced, "cuda-13_0", BUMPED)
    synced.write(FILE, BUMPED.replace("2.10.1", "2.10.2"))
    before = heads(synced)
    assert synced.ci("sync", "--take", "cuda-13_0") == 2
    assert "conflicts with the version here" in capsys.readouterr().err
    assert heads(synced) == before


def test_a_template_that_was_changed_elsewhere_is_a_change_too(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = SPEC.replace(
        "pytorch: {attribute: torch,",
        "pytorch: {attribute: torch, recipes: {'*-cpu-*': template}, template: nix/t.nix,",
    )
    repository.git("checkout", "-q", "main")
    repository.write(FILE, spec)
    repository.write("nix/t.nix", '{ }: "@version@"\n')
    repository.commit()
    assert repository.ci("sync") == 0
    edit(repository, "cuda-13_0", '{ }: "@version@" + "a"\n', "nix/t.nix")
    assert repository.ci("sync") == 2
    assert "cuda-13_0:nix/t.nix: changes 2 lines" in capsys.readouterr().err


def test_a_checkout_that_lacks_the_newest_version_of_main_does_not_roll_it_back(
    synced: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(synced, "main", BUMPED)
    synced.git("checkout", "-qf", "topic")
    assert synced.ci("sync") == 2
    assert "main:.github/ci-matrix.yaml: changes branches.cuda-13_0.versions.pytorch" in capsys.readouterr().err
    synced.git("merge", "-q", "main")
    assert synced.ci("sync") == 0
    assert shown(synced, "cuda-13_0", FILE) == BUMPED.strip()


def test_a_version_that_a_branch_still_has_is_older_and_no_change(synced: Repository) -> None:
    edit(synced, "main", BUMPED)
    assert synced.ci("sync") == 0
    assert shown(synced, "cuda-13_0", FILE) == BUMPED.strip()


@pytest.mark.parametrize("option", ["--take", "--drop"])
def test_an_unknown_branch_is_an_error(synced: Repository, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert synced.ci("sync", option, "cuda-13") == 2
    assert f"{option}: unknown branch 'cuda-13'; did you mean cuda-13_0?" in capsys.readouterr().err


def test_the_check_of_a_pull_request_says_where_the_spec_is_edited(
    synced: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    synced.git("checkout", "-qb", "bump", "cuda-13_0")
    assert synced.ci("--check", "--branch", "cuda-13_0") == 0
    synced.write(FILE, BUMPED)
    assert synced.ci("--branch", "cuda-13_0") == 0
    synced.commit()
    capsys.readouterr()
    assert synced.ci("--check", "--branch", "cuda-13_0") == 1
    said = "changes branches.cuda-13_0.versions.pytorch; edit it on main, from which `ci-compile sync` carries it to"
    assert capsys.readouterr().err == f"error: .github/ci-matrix.yaml: {said} cuda-13_0 [edited-elsewhere]\n"
    synced.ci("--check", "--branch", "main")
    assert "edited-elsewhere" not in capsys.readouterr().err


def test_the_check_of_a_pull_request_that_sync_opened_succeeds(synced: Repository) -> None:
    edit(synced, "main", BUMPED)
    assert synced.ci("sync") == 0
    synced.git("checkout", "-qf", "--detach", "cuda-13_0")
    assert synced.ci("--check", "--branch", "cuda-13_0") == 0
