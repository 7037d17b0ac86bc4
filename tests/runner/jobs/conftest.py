"""The world for the tests of the stages, a new one for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.jobs.world import World, made


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return made(tmp_path, monkeypatch)
