"""A published derivation is not built again: over three stores, for every event that builds it."""

from __future__ import annotations

import os

import pytest

from ci_compiler.backends.cache_files import held
from ci_compiler.backends.staged import point
from ci_compiler.spec.build import parse_spec
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


def staging(world: World, *builders: str) -> None:
    """A spec whose cache has a staging store, and whose `builders` sign what they build."""
    keys = [world.cache(name)["public-key"] for name in ("builder", *builders)]
    world.spec(cache=world.cache() | {"staging": f"file://{world.folder}/staging", "builder-keys": keys})
    world.commit()


def build_on(world: World, machine: str, key: str = "") -> bool:
    """Builds TORCH on a `machine` with a store of its own, whose Nix signs with `key`; whether it was compiled."""
    world.use_store(machine)
    with pytest.MonkeyPatch.context() as patch:
        if key:
            world.cache(key)
            patch.setenv("NIX_CONFIG", f"{os.environ['NIX_CONFIG']}secret-key-files = {world.folder}/{key}.secret\n")
        assert world.build() == 0
    return bool(world.manifest["built"])


@pytest.mark.parametrize("key", ["", "other"])
def test_what_no_trusted_daemon_signed_is_built_again(world: World, key: str) -> None:
    staging(world)
    assert build_on(world, "one", key)
    assert build_on(world, "two")
    assert world.builds == 2


def test_a_pointer_to_what_somebody_else_staged_is_not_followed(world: World) -> None:
    staging(world)
    assert build_on(world, "one", "builder")
    derivation, staged = world.manifest["derivation"], world.manifest["staged"]
    world.spec(cache=world.cache() | {"staging": f"file://{world.folder}/staging"})
    world.commit()
    world.use_store("planter")
    assert build_on(world, "planter")  # the same derivation, staged without a signature
    planted = world.manifest["staged"]
    assert planted != staged
    staging(world)
    for pointed, builds in ((planted, 3), ("../../etc/passwd", 4)):
        cache = parse_spec((world.root / ".github/ci-matrix.yaml").read_bytes(), shown="").cache
        assert cache is not None
        assert point(cache, derivation, pointed, seconds=60).status == 0
        assert build_on(world, f"after-{builds}")
        assert world.builds == builds
