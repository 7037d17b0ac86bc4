"""`ci-compile update`: a new release becomes an edit of the spec, and nothing else of it changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.output import checked
from tests.recipes.test_affected import Repository
from tests.specs import PIN
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


def test_three_branches_go_from_2_8_to_2_11_without_an_edit_by_hand(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet.ci("update") == 0
    assert "every branch has the newest release of its line" in capsys.readouterr().out
    upstreams.release("2.9.0", "0.24.0", "2.9.0")
    assert fleet.ci("update", "pytorch", "--to", "2.9", "--branch", "next", "--branch", "edge") == 0
    upstreams.release("2.9.1", "0.24.1", "2.9.1")
    nixpkgs = upstreams.nixpkgs("nixos-unstable", torch="2.9.1", torchvision="0.24.1")
    assert fleet.ci("update") == 0
    assert versions(fleet) == {"main": ["2.8.0", "0.23.0"], "next": ["2.9.1", "0.24.1"], "edge": ["2.9.1", "0.24.1"]}
    assert [branch(fleet, name)["nixpkgs"] for name in ("main", "next", "edge")] == [PIN, nixpkgs, nixpkgs]
    assert "sources" not in branch(fleet, "next")
    assert branch(fleet, "edge")["pnames"] == {"pytorch": "pytorch29"}
    upstreams.release("2.10.0", "0.25.0", "2.10.0")
    assert fleet.ci("update", "pytorch", "--to", "2.10.0", "--branch", "edge") == 0
    source = branch(fleet, "edge")["sources"]["pytorch"]
    assert {**source, "hash": ""} == {
        "repository": TORCH,
        "tag": "v2.10.0",
        "hash": "",
        "submodules": True,
        "commit": upstreams.git(TORCH, "rev-parse", "v2.10.0^{commit}"),
    }
    upstreams.release("2.11.0", "0.26.0", "2.11.0")
    assert fleet.ci("update", "pytorch", "--to", "2.11.0", "--branch", "edge") == 0
    assert versions(fleet) == {"main": ["2.8.0", "0.23.0"], "next": ["2.9.1", "0.24.1"], "edge": ["2.11.0", "0.26.0"]}
    assert branch(fleet, "edge")["sources"]["torchvision"]["tag"] == "v0.26.0"
    assert branch(fleet, "edge")["pnames"] == {"pytorch": "pytorch211"}
    assert fleet.ci() == 0
    remarks = [line.partition("#")[2] for line in SPEC.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in text(fleet).splitlines() if "#" in line] == remarks


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
    assert "every branch has the newest release of its line" in said.out
    assert said.err.count("release-incomplete pytorch 2.8.1 goes with torchvision 0.23.1, which is not released") == 3
    assert text(fleet) == SPEC


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
    assert f"tag-moved the tag v2.8.1 of {TORCH} names {now[:12]} now" in line
    assert text(fleet) == before
    upstreams.git(TORCH, "tag", "-d", "v2.8.1")
    assert fleet.ci("update") == 2
    assert "is gone" in capsys.readouterr().err


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
