"""Compiler seeds in a job: they travel, signed, from builder to builder through a cache that is not public."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.cache_files import held
from tests.runner.jobs.world import TORCH, World, ci_runner, recipe

SEED = f"{TORCH}-compiler-seed-2.8.0"


def seeded(world: World, **cache: Any) -> None:
    """Writes a TORCH that takes a seed, whose builds are counted in the file `seeds`."""
    seed = f"""seed = derivation {{
    name = "{SEED}";
    system = builtins.currentSystem;
    builder = "/bin/sh";
    PATH = "/usr/bin:/bin";
    args = [ "-c" "echo seed >>{world.folder}/seeds; echo objects >$out" ];
  }};"""
    script = f'echo built >>{world.folder}/builds; read -r line <"$seed"; echo 2.8.0 >"$out"'
    world.write(TORCH, recipe(TORCH, "2.8.0", script, extra=seed))
    world.spec(cache=world.cache() | cache)
    world.commit()


def build(world: World, machine: str) -> Path:
    """Builds TORCH on a `machine` with a store of its own; the path of the seed that it took."""
    world.use_store(machine)
    assert ci_runner("build", TORCH, "--branch", "main", "--out", "build-output") == 0
    return taken(world)


def built(world: World, *, signed: bool) -> Path:
    """What a build on the machine `one`, with or without the key, leaves; the path of the seed that it took."""
    if signed:
        world.key()

    def make() -> None:
        seeded(world)
        build(world, "one")

    world.once(f"seeded-{signed}", make)
    return taken(world)


def taken(world: World) -> Path:
    (derivation,) = (path for path in references(world.manifest["derivation"]) if path.endswith(f"{SEED}.drv"))
    return Path(*store("--query", "--outputs", derivation))


def store(*arguments: str) -> list[str]:
    return subprocess.run(["nix-store", *arguments], capture_output=True, text=True, check=True).stdout.split()


def references(path: str) -> list[str]:
    return store("--query", "--references", path)


def seeds(world: World) -> int:
    """How often the seed was built."""
    return len((world.folder / "seeds").read_text("utf-8").splitlines())


def in_cache(world: World, name: str = "cache") -> list[str]:
    """The seeds that the cache has."""
    return [path for path in held(world.folder / name) if path.endswith(SEED)]


def plant(world: World, seed: Path, options: str = "") -> None:
    """Copies a seed to the cache, by hand."""
    assert world.nix("copy", "--to", f"{world.cache()['url']}{options}", str(seed)).returncode == 0


def test_a_builder_takes_the_seed_that_another_one_signed(world: World) -> None:
    seed = built(world, signed=True)
    assert in_cache(world) == [str(seed)]
    assert world.signed(str(seed))
    assert build(world, "two") == seed
    assert seed.read_text("utf-8") == "objects\n"
    assert (world.builds, seeds(world)) == (2, 1)


def test_a_builder_that_only_holds_the_seed_copies_it(world: World) -> None:
    seed = built(world, signed=False)
    assert in_cache(world) == []
    world.key()
    assert build(world, "one") == seed
    assert in_cache(world) == [str(seed)]
    assert (world.builds, seeds(world)) == (1, 1)


def test_a_seed_that_the_builders_nix_signs_needs_no_key_in_the_job(world: World) -> None:
    seeded(world)
    world.patch.setenv("NIX_CONFIG", f"{os.environ['NIX_CONFIG']}secret-key-files = {world.folder}/cache.secret\n")
    assert world.signed(str(build(world, "one")))


@pytest.mark.parametrize("key", ["", "other"])
def test_a_seed_without_the_caches_signature_is_not_taken(
    world: World, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = built(world, signed=False)
    if key:
        world.cache(key)
    plant(world, seed, f"?secret-key={world.folder}/{key}.secret" if key else "")
    capsys.readouterr()
    build(world, "two")
    said = capsys.readouterr().out
    assert f"{seed} is built here; it cannot be fetched" in said
    assert "lacks a valid signature" in said
    assert seeds(world) == 2


def test_nothing_copies_a_seed_to_a_public_cache_or_takes_one_from_there(world: World) -> None:
    seed = built(world, signed=True)
    shutil.rmtree(world.folder / "cache")
    (world.folder / "empty").mkdir()
    seeded(world, public=True, push="own", others=[f"file://{world.folder}/empty"])
    assert build(world, "one") == seed
    assert in_cache(world) == []
    plant(world, seed, f"?secret-key={world.folder}/cache.secret")
    build(world, "two")
    assert seeds(world) == 2


def test_what_is_published_does_not_contain_the_seed(world: World) -> None:
    seed = built(world, signed=False)
    assert str(seed) not in world.manifest["closure"]
    world.git("checkout", "--quiet", "--detach")
    world.key()
    assert world.publish() == 0
    assert world.signed(world.manifest["store_path"])
    assert in_cache(world) == []


def test_a_cache_that_does_not_take_the_seed_fails_the_build(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    seed = built(world, signed=True)
    entry = world.folder / "cache" / f"{seed.name[:32]}.narinfo"
    entry.unlink()
    entry.mkdir()
    assert world.build() == 1
    assert f"{seed}: it cannot be copied to file://" in capsys.readouterr().err
