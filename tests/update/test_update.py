"""`ci-compile update`: a new release becomes an edit of the spec, and nothing else of it changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ci_compiler.spec.releases import facts
from tests.output import checked
from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import TORCH, Upstreams


def text(fleet: Repository) -> str:
    return (fleet.root / FILE).read_text("utf-8")


def branch(fleet: Repository, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text(fleet))["branches"][name]
    return found


def versions(fleet: Repository) -> dict[str, list[str]]:
    rows = yaml.safe_load(text(fleet))["branches"]
    return {name: [*row["versions"].values()] for name, row in rows.items()}


def test_a_patch_release_on_an_old_line_moves_that_line_alone(fleet: Repository, upstreams: Upstreams) -> None:
    upstreams.release("2.9.1", "0.24.1", "")
    assert fleet.ci("update", "--to", "2.9.1", "pytorch", "--branch", "next") == 0
    upstreams.release("2.10.0", "0.25.0", "")
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update") == 0
    assert versions(fleet) == {"main": ["2.8.1", "0.23.1"], "next": ["2.9.1", "0.24.1"], "edge": ["2.8.1", "0.23.1"]}


def test_a_release_whose_torchvision_is_missing_waits(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.release("2.8.1", "", "2.8.1")
    assert fleet.ci("update") == 0
    said = capsys.readouterr()
    assert said.out == "nothing can be updated\n"
    assert said.err.count("pytorch 2.8.1 goes with torchvision 0.23.1, which is not released") == 3
    assert said.err.count("[release-incomplete]") == 3
    assert text(fleet) == SPEC


def test_a_release_that_does_not_support_the_toolkit_is_named_and_not_taken(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(facts()["toolkits"], "2.9", ["13.0", "13.2"])
    upstreams.release("2.9.0", "0.24.0", "")
    refused = "pytorch 2.9.0 does not support CUDA 12.8: PyTorch builds it with 13.0, 13.2"
    assert fleet.ci("update", "pytorch", "--to", "2.9", "--branch", "main") == 2
    assert f"error: {FILE}:9:25: {refused} [toolkit-not-of-torch]" in capsys.readouterr().err
    assert text(fleet) == SPEC
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main", "--new-branch", "newest") == 0
    assert f"{refused} [toolkit-not-of-torch]" in capsys.readouterr().err
    assert branch(fleet, "newest")["versions"] == {"pytorch": "2.8.1", "torchvision": "0.23.1"}


def test_prereleases_and_other_tags_are_ignored(fleet: Repository, upstreams: Upstreams) -> None:
    upstreams.tag(TORCH, "v2.8.1-rc1", "v2.8.2rc1", "v2.8.3a0", "ciflow/2.8.4", "v2.8.5.dev20260101")
    assert fleet.ci("update") == 0
    assert text(fleet) == SPEC


def test_a_tag_that_was_moved_by_force_stops_the_next_step(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main") == 0
    before = text(fleet)
    upstreams.release("2.8.2", "0.23.2", "")
    now = upstreams.tag(TORCH, "v2.8.1", text="other code")
    capsys.readouterr()
    assert fleet.ci("update") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the tag v2.8.1 of {TORCH} names {now[:12]} now" in line
    assert "[tag-moved]" in line
    assert text(fleet) == before
    upstreams.git(TORCH, "tag", "-d", "v2.8.1")
    assert fleet.ci("update") == 2
    assert "is gone" in capsys.readouterr().err


def test_a_moved_tag_stops_no_other_branch(
    fleet: Repository, actions: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    actions.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--branch", "main") == 0
    actions.tag(TORCH, "v2.8.1", text="other code")
    actions.release("2.8.2", "0.23.2", "")
    for words, status in (("--check",), 1), (("--branch", "edge", "--check"), 1), (("--branch", "edge"), 0):
        capsys.readouterr()
        assert fleet.ci("update", *words) == status
        assert ("[tag-moved]" in capsys.readouterr().err) == ("edge" not in words)
    assert versions(fleet) == {"main": ["2.8.1", "0.23.1"], "next": ["2.8.0", "0.23.0"], "edge": ["2.8.2", "0.23.2"]}


def test_a_new_branch_is_made_from_an_existing_one(fleet: Repository, upstreams: Upstreams) -> None:
    upstreams.release("2.9.0", "0.24.0", "")
    assert fleet.ci("update", "--branch", "edge", "--new-branch", "torch-2.9") == 0
    assert branch(fleet, "torch-2.9")["versions"] == {"pytorch": "2.9.0", "torchvision": "0.24.0"}
    assert branch(fleet, "torch-2.9")["pnames"] == {"pytorch": "pytorch29"}
    assert "sm90: {branches: [main, next, edge, torch-2.9]}" in text(fleet)
    added = [line for line in text(fleet).splitlines() if line not in SPEC.splitlines()]
    removed = [line for line in SPEC.splitlines() if line not in text(fleet).splitlines()]
    assert len(removed) == 1
    assert added[0] == "  torch-2.9:"


def test_a_dry_run_writes_nothing(fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]) -> None:
    upstreams.release("2.8.1", "0.23.1", "")
    assert fleet.ci("update", "--dry-run") == 0
    assert text(fleet) == SPEC
    out = capsys.readouterr().out
    assert "main  pytorch      2.8.0   2.8.1" in out
    assert fleet.ci("update", "--dry-run", "--json") == 0
    found = checked("ci-compile update", capsys.readouterr().out)
    assert found["changes"][0] == {"branch": "main", "package": "pytorch", "before": "2.8.0", "after": "2.8.1"}
    assert "rebuilt" in found["meaning"]
    assert "rebuilt" in out
