"""The spec is edited on the default branch: no change that was made elsewhere is lost unseen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.sync.carried import OtherEdit, changes, other_edits, refuse, take
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once

from .test_branches import PKGS, SPEC, X90, heads, remote, repository, shown, two_branches

__all__ = ["remote", "repository"]

FILE = ".github/ci-matrix.yaml"
BUMPED = SPEC.replace("pytorch: 2.10.0, torchvision: 0.25.0", "pytorch: 2.10.1, torchvision: 0.25.0")


def edited(branch: str, base: str, text: str, path: str = FILE) -> OtherEdit:
    return OtherEdit(branch=branch, path=path, base=base.encode(), text=text.encode())


@pytest.mark.parametrize(
    ("edits", "carried", "found"),
    [
        ([], "new", []),
        (["old"], "new", []),
        (["new"], "new", []),
        (["other"], "new", [("new", "other")]),
        (["other"], "other", []),
        (["old", "other"], "new", [("old", "other")]),
        (["other", "old"], "new", []),
        ([None], "new", []),
    ],
)
def test_an_edit_is_a_version_that_the_known_history_does_not_have(
    tmp_path: Path, edits: list[str | None], carried: str, found: list[tuple[str, str]]
) -> None:
    made = Repository(tmp_path)
    for text in ("old", "new"):
        made.write("a", text)
        known = made.commit()
    for text in edits:
        made.write("a", text)
        made.commit()
    git = Git(tmp_path)
    tips, heads = {"next": made.git("rev-parse", "HEAD"), "main": known}, dict.fromkeys(("next", "main"), known)
    expected = [edited("next", base, text, "a") for base, text in found]
    assert list(other_edits(git, tips, heads, {"a": carried, "missing": "x"})) == expected


def test_an_edit_without_a_version_before_it_has_an_empty_base_and_links_are_none(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    known = made.commit()
    made.write("a", "mine")
    (tmp_path / "b").symlink_to("a")
    tip = made.commit()
    found = other_edits(Git(tmp_path), {"next": tip}, {"next": known}, {"b": "x", "a": "y"})
    assert list(found) == [edited("next", "", "mine", "a")]


@pytest.mark.parametrize(
    ("base", "text", "said"),
    [
        ("a: 1", "a: 2", "a"),
        ("a: {b: 1}", "a: {b: 2, c: 3}", "a.b, a.c"),
        ("a: 1", "b: 1\nc: 1\n", "a, b, c"),
        ("a: 1", "b: 1\nc: 1\nd: 1\n", "a, b, c and 1 more"),
        ("a: 1", "b: 1\nc: 1\nd: 1\ne: 1\n", "a, b, c and 2 more"),
        ("a: 1\nb: 2\n", "a: 1\n", "b"),
        ("a: 1\n", "a: 1 # why\n", "2 lines"),
        ("{ }: 1\nx\n", "{ }: 1\n", "1 line"),
    ],
)
def test_what_an_edit_changes_in_settings_or_in_lines(base: str, text: str, said: str) -> None:
    assert changes(edited("next", base, text)) == said


def test_edits_are_merged_line_by_line_or_conflict(tmp_path: Path) -> None:
    git, base = Git(Repository(tmp_path).root), "1\n2\n3\n4\n5\n6\n7\n"
    first, second = (
        edited("next", base, base.replace("7", "seven"), "a"),
        edited("last", base, base.replace("4", "four"), "a"),
    )
    files = {"a": base.replace("1", "one"), "b": "x"}
    merged = "one\n2\n3\nfour\n5\n6\nseven\n"
    assert take(git, files, [first, second]) == {"a": merged, "b": "x"}
    assert files["b"] == "x"
    other = edited("next", base, base.replace("1", "eins"), "a")
    with pytest.raises(InputError) as raised:
        take(git, files, [other, other])
    message = "conflicts with the version here; make the change here by hand, then give --drop next"
    assert [str(one) for one in raised.value.findings] == [f"next:a: {message} [edited-elsewhere]"] * 2


def test_edits_that_nobody_decided_about_are_refused() -> None:
    refuse([], "main")
    with pytest.raises(InputError) as raised:
        refuse([edited("next", "a: 1", "a: 2"), edited("main", "a: 1", "b: 1")], "main")
    assert [str(one) for one in raised.value.findings] == [
        (
            f"next:{FILE}: changes a, which main does not have; --take next takes it over, --drop next drops it "
            "[edited-elsewhere]"
        ),
        (
            f"main:{FILE}: changes a, b, which this checkout does not have; --take main takes it over, "
            "--drop main drops it [edited-elsewhere]"
        ),
    ]


def edit(repository: Repository, branch: str, text: str, path: str = FILE) -> None:
    """Merges a change of a file into `branch`, and leaves `main` checked out."""
    repository.git("checkout", "-qf", branch)
    repository.write(path, text)
    repository.commit()
    repository.git("checkout", "-qf", "main")


@pytest.fixture
def synced(repository: Repository) -> Repository:
    """The repository after a sync, with `main` checked out."""
    shutil.rmtree(repository.root)
    copy_once(after_a_sync, repository.root)
    return repository


def after_a_sync(folder: Path) -> None:
    two_branches(folder)
    assert Repository(folder).ci("sync") == 0
    Repository(folder).git("checkout", "-qf", "main")


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
