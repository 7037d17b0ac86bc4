"""Fixtures: a GitHub server on the loopback interface, and clients with a clock that never waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.sync.compiled import compile_files
from tests.specs import PIN, UNKNOWN_PIN, small, spec_of

from .server import serving
from .state import REPOSITORY, TOKEN, GitHub


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub with a repository of a personal account."""
    with serving(GitHub()) as served:
        yield served


@pytest.fixture
def organisation() -> Iterator[GitHub]:
    """GitHub with a repository of an organisation."""
    with serving(GitHub(organisation=True)) as served:
        yield served


@pytest.fixture(scope="session")
def stack() -> Plan:
    """Two branches with different toolkits: CPU variants are on both, each GPU variant is on one."""
    branches = {
        "main": {"cuda": "12.8", "nixpkgs": PIN, "versions": {"pytorch": "2.8.0", "torchvision": "0.23.0"}},
        "cuda-13_0": {
            "cuda": "13.0",
            "nixpkgs": UNKNOWN_PIN,
            "versions": {"pytorch": "2.10.0", "torchvision": "0.25.0"},
        },
    }
    return plan(spec_of(small(branches=branches)))


@pytest.fixture
def served(github: GitHub, stack: Plan) -> GitHub:
    """GitHub with the compiled workflows pushed."""
    github.push(compile_files(stack))
    github.branches = {"main", "cuda-13_0"}
    return github


@pytest.fixture
def commands(served: GitHub, stack: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options that make a command use the server and the stack, without waiting."""
    for name, value in {"GITHUB_API_URL": served.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "spec.yaml").write_text(json.dumps(stack.spec.document.value), "utf-8")  # JSON is YAML
    return ["--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
