"""The world for the tests of the stages, a new one for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.jobs.world import World, made


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the world of every test."""
    return tmp_path_factory.mktemp("worlds")


@pytest.fixture
def world(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return made(worlds / "world", monkeypatch)
