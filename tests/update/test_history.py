"""A fleet of three branches that follows PyTorch from 2.8 to 2.12, as the releases came.

The history was written down after the code that it runs on. Its facts: torch 2.8.0 of 2025-08-06, 2.9.0 of 2025-10-15,
2.9.1 of 2025-11-12, 2.10.0 of 2026-01-21, 2.11.0 of 2026-03-23 and 2.12.0 of 2026-05-13, with the torchvision and
torchaudio of the package index; nixpkgs got torch 2.11.0 after its release (pull request 502810). Torch 2.8.1 alone
never existed: it stands for a patch release on an old line.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.recipes.test_affected import Repository
from tests.specs import PIN
from tests.update.conftest import FILE, SPEC
from tests.update.upstreams import AUDIO, TORCH, VISION, Upstreams

HAS_2_9_1 = "6a030d535719c5190187c4cec156f335e95e3211"
"""A commit of nixpkgs that the compiler knows."""


def with_audio() -> str:
    """The spec with torchaudio, and with a toolkit on `edge` that has a nixpkgs commit of its own."""
    text = SPEC.replace(
        "torchvision: {needs: [pytorch]}", "torchvision: {needs: [pytorch]}\n  torchaudio: {needs: [pytorch]}"
    )
    text = text.replace(
        '"12.9": {allow-broken: true}', f'"12.8":\n      "12.9": {{nixpkgs: {PIN}, allow-broken: true}}'
    )
    for now in ("torchvision: '0.23.0'}", "torchvision: 0.23.0}"):
        text = text.replace(now, f"{now[:-1]}, torchaudio: 2.8.0}}")
    return text.replace("0.23.0   # goes with it", "0.23.0   # goes with it\n      torchaudio: '2.8.0'")


class Fleet:
    """The fleet's repository, and what `update` says there."""

    def __init__(self, repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
        self._repository = repository
        self._capsys = capsys
        repository.write(FILE, with_audio())

    def update(self, *words: str, ends: int = 0) -> str:
        """What the command prints on both streams."""
        self._capsys.readouterr()
        assert self._repository.ci("update", *words) == ends
        return "".join(self._capsys.readouterr())

    @property
    def text(self) -> str:
        return (self._repository.root / FILE).read_text("utf-8")

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = yaml.safe_load(self.text)["branches"]
        return found

    @property
    def torch(self) -> dict[str, tuple[str, str, list[str]]]:
        """For each branch its torch, the start of its nixpkgs commit, and its sources' tags."""
        return {
            name: (
                row["versions"]["pytorch"],
                row["nixpkgs"],
                [one["tag"] for one in row.get("sources", {}).values()],
            )
            for name, row in self.rows.items()
        }


def test_three_branches_follow_the_releases_without_an_edit_by_hand(
    fleet: Repository, upstreams: Upstreams, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Fleet(fleet, capsys)
    upstreams.tag(TORCH, "v2.9.0-rc1", "v2.9.0-rc9", "ciflow/trunk/165000", f"trunk/{'a' * 40}", "flight_5", "v0.1.10")
    upstreams.tag(VISION, "v0.24.0-rc1")
    assert "every branch has the newest release of its line" in made.update()
    to_2_9 = ("pytorch", "--to", "2.9", "--branch", "next", "--branch", "edge")
    assert "pytorch: has no release 2.9; its newest release is 2.8.0" in made.update(*to_2_9, ends=2)

    upstreams.release("2.9.0", "", "2.9.0")
    (line,) = made.update(*to_2_9, ends=2).splitlines()
    assert line.startswith(f"error: {FILE}:11:")
    assert "pytorch 2.9.0 goes with torchvision 0.24.0, which is not released" in line
    assert made.text == with_audio()
    upstreams.release("", "0.24.0", "")
    made.update(*to_2_9)
    tags = ["v2.9.0", "v0.24.0", "v2.9.0"]
    assert made.torch == {"main": ("2.8.0", PIN, []), "next": ("2.9.0", PIN, tags), "edge": ("2.9.0", PIN, tags)}
    assert [one["tag"] for one in made.rows["edge"]["cuda"]["12.9"]["sources"].values()] == tags

    upstreams.release("2.9.1", "0.24.1", "2.9.1")
    made.update()
    assert made.torch["next"] == made.torch["edge"] == ("2.9.1", HAS_2_9_1, [])
    assert made.rows["edge"]["cuda"]["12.9"] == {"nixpkgs": HAS_2_9_1, "allow-broken": True}

    upstreams.release("2.10.0", "0.25.0", "2.10.0")
    made.update("pytorch", "--to", "2.10", "--branch", "next", "--new-branch", "torch-2.10")
    assert made.torch["torch-2.10"] == ("2.10.0", HAS_2_9_1, ["v2.10.0", "v0.25.0", "v2.10.0"])
    assert made.torch["next"] == ("2.9.1", HAS_2_9_1, [])

    first = upstreams.git(TORCH, "rev-parse", "v2.10.0^{commit}")
    now = upstreams.tag(TORCH, "v2.10.0", text="other code")
    (line,) = made.update(ends=2).splitlines()
    assert f"the tag v2.10.0 of {TORCH} names {now[:12]} now, and its hash is of {first[:12]}" in line
    upstreams.git(TORCH, "tag", "-f", "v2.10.0", first)

    upstreams.release("2.11.0", "0.26.0", "2.11.0")
    upstreams.release("2.8.1", "0.23.1", "2.8.1")
    made.update("pytorch", "--to", "2.11", "--branch", "edge")
    assert made.torch["edge"] == ("2.11.0", HAS_2_9_1, ["v2.11.0", "v0.26.0", "v2.11.0"])
    assert made.rows["edge"]["pnames"] == {"pytorch": "pytorch211"}
    assert "main  pytorch      2.8.0   2.8.1" in made.update("--dry-run")

    newer = upstreams.nixpkgs("nixpkgs-unstable", torch="2.11.0", torchvision="0.26.0", torchaudio="2.11.0")
    listed = [line.split()[:3] for line in made.update("nixpkgs").splitlines() if newer[:12] in line]
    assert listed[:2] == [
        ["edge", "nixpkgs", HAS_2_9_1[:12]],
        ["edge", "nixpkgs", "for"],
    ]
    assert [made.torch[name][1:] for name in ("edge", "torch-2.10")] == [
        (newer, []),
        (HAS_2_9_1, made.torch["torch-2.10"][2]),
    ]
    assert made.rows["edge"]["cuda"]["12.9"] == {"nixpkgs": newer, "allow-broken": True}
    assert "nothing is stale" in made.update("nixpkgs")

    upstreams.tag(TORCH, "v2.12.0")
    upstreams.tag(VISION, "v0.27.0")
    no_longer = "pytorch 2.12.0 is no longer built with CUDA 12.8 by PyTorch, but with 12.6, 13.0, 13.2"
    assert no_longer in made.update("pytorch", "--to", "2.12", "--branch", "edge")
    assert made.rows["edge"]["versions"] == {"pytorch": "2.12.0", "torchvision": "0.27.0", "torchaudio": "2.11.0"}
    assert not [tag for tag in upstreams.git(AUDIO, "tag").splitlines() if "2.12" in tag]

    assert fleet.ci() == 0
    before, after = ([line.partition("#")[2] for line in text.splitlines()] for text in (with_audio(), made.text))
    assert list(filter(None, after)) == list(filter(None, before))
