"""A job starts few programs of Nix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends import nix_store
from tests.runner.jobs.world import World


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands of Nix that are started from now on."""
    found: list[Sequence[str]] = []
    ask = nix_store.ask

    def counted(command: Sequence[str], **more: Any) -> Any:
        found.append([Path(command[0]).name, *command[1:]])
        return ask(command, **more)

    monkeypatch.setattr(nix_store, "ask", counted)
    return found


@pytest.mark.parametrize(("command", "most"), [("build", 11), ("publish", 13)])
def test_a_job_starts_few_programs_of_nix(world: World, asked: list[Sequence[str]], command: str, most: int) -> None:
    world.built(cached=True)
    world.key()
    asked.clear()
    assert (world.build() if command == "build" else world.publish()) == 0
    said = [" ".join(one) for one in asked]
    assert len(said) <= most, said
