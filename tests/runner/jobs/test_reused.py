"""A published derivation is not built again: over three stores, for every event that builds it."""

from __future__ import annotations

import pytest

from ci_compiler.backends.cache_files import held
from tests.runner.jobs.world import TORCH, World


def test_what_is_published_is_built_on_no_other_machine(world: World) -> None:
    world.built(signed=True)
    assert world.builds == 1
    for machine in ("two", "three"):  # a merge queue, a night, a dispatch of what is published
        world.use_store(machine)
        assert world.build() == 0
        assert (world.manifest["built"], world.builds) == (False, 1)
        assert world.manifest["staged"] == ""


@pytest.mark.parametrize("key", ["", "other"])
def test_what_anybody_else_put_into_the_cache_is_built(world: World, key: str) -> None:
    world.built(cached=True)
    if key:
        world.cache(key)
    options = f"?secret-key={world.folder}/{key}.secret" if key else ""
    assert world.nix("copy", "--to", f"{world.cache()['url']}{options}", *world.manifest["outputs"]).returncode == 0
    assert any(path.endswith(f"-{TORCH}-2.8.0") for path in held(world.folder / "cache"))
    world.use_store("two")
    assert world.build() == 0
    assert (world.manifest["built"], world.builds) == (True, 2)
