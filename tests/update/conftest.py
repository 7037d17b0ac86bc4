"""Local upstreams, and a repository whose spec follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.workflows import render
from ci_compiler.workflows.pins import action_pins
from tests.checkers import require
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once
from tests.specs import PIN
from tests.update.upstreams import NIXPKGS, Upstreams

SPEC = f"""\
# Our fleet. Edit it here, then run ci-compile.
version: 1
owner: my-org

branches:
  main:  # what most users have
    cuda: "12.8"
    nixpkgs: {PIN}   # torch 2.8.0
    versions: {{pytorch: 2.8.0, torchvision: '0.23.0'}}
  next:
    {{cuda: "12.9", publish: false, nixpkgs: {PIN}, versions: {{pytorch: "2.8.0", torchvision: 0.23.0}}}}
  # the newest
  edge:
    cuda:
      "12.9": {{allow-broken: true}}
    publish: false
    nixpkgs: {PIN}
    versions:
      pytorch: 2.8.0
      torchvision: 0.23.0   # goes with it
    pnames: {{pytorch: pytorch28}}

packages:
  pytorch: {{attribute: torch}}
  torchvision: {{needs: [pytorch]}}

matrix:
  python: ["3.13"]
  isas: {{x86_64-linux: [avx2]}}
  gpus:
    cpu:
    sm90: {{branches: [main, next, edge]}}

runners:
  builder: {{runs-on: [self-hosted, linux, x64, b], cpu: [avx2], count: 2}}
  h100: {{runs-on: [self-hosted, linux, x64, gpu-sm90], gpu: sm90, cpu: [avx512]}}
publish: {{on-shared-machines: true}}
"""
FILE = ".github/ci-matrix.yaml"
CHECKOUT = "actions/checkout"


def first_releases(folder: Path) -> None:
    made = Upstreams(folder)
    made.release("2.8.0", "0.23.0", "2.8.0")
    made.nixpkgs("nixos-unstable", torch="2.7.0", torchvision="0.22.0", torchaudio="2.7.0")
    made.git(NIXPKGS, "branch", "nixos-25.05")


PROGRAMS = {
    "actions/runner": "v2.0.0",
    "flox/flox": "v9999.0.0",
    "NixOS/nix": "2.0.0",
    "actions/actions-runner-controller": "gha-runner-scale-set-0.0.1",
}


def first_programs(folder: Path) -> None:
    for repository, tag in {CHECKOUT: action_pins()[CHECKOUT]["tag"], **PROGRAMS}.items():
        Upstreams(folder).tag(repository, tag)


@pytest.fixture
def upstreams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upstreams:
    """The upstreams with torch 2.8.0, and nixpkgs with branches that have nothing."""
    require("git")
    require("nix-hash")
    made = Upstreams(tmp_path / "upstreams")
    copy_once(first_releases, made.folder)
    monkeypatch.setenv("CI_COMPILE_UPSTREAMS", made.address)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return made


@pytest.fixture
def fleet(upstreams: Upstreams) -> Repository:
    """A repository with three branches in its spec, all of them at torch 2.8.0."""
    root = upstreams.folder.parent / "fleet"
    copy_once(first_fleet, root)
    return Repository(root)


def first_fleet(folder: Path) -> None:
    made = Repository(folder)
    made.write(FILE, SPEC)
    made.commit()


@pytest.fixture
def actions(upstreams: Upstreams, monkeypatch: pytest.MonkeyPatch) -> Upstreams:
    """The upstreams with every action at its bundled pin, and the programs of the runner images."""
    assert render  # the workflows read the whole table when they are imported
    copy_once(first_programs, upstreams.folder)
    monkeypatch.setitem(action_pins()[CHECKOUT], "commit", upstreams.git(CHECKOUT, "rev-parse", "HEAD"))
    for action in set(action_pins()) - {CHECKOUT}:
        monkeypatch.delitem(action_pins(), action)
    return upstreams
