"""What is read of a derivation's file and in one answer is what Nix says, and a job starts few programs of Nix."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends import nix_store
from ci_compiler.backends.nix_store import Store
from ci_compiler.errors import StageError
from ci_compiler.spec.model import Cache
from tests.runner.jobs.world import TORCH, VISION, World, recipe

ODD = """odd = "a\\"),(\\"b\\\\ \\n \\t"; list = [ "(" "," "," "," "," "),(" "],[" ]; file = ./flake.nix;"""
"""Values that look like other parts of a derivation, and a file of its own."""


def told(*arguments: str) -> list[str]:
    """The words that `nix-store --query` prints."""
    done = subprocess.run(["nix-store", "--query", *arguments], capture_output=True, encoding="utf-8", check=True)
    return done.stdout.split()


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


def test_a_derivation_is_read_as_nix_reads_it(world: World) -> None:
    world.write("flake", "{ }\n")
    world.write(VISION, recipe(VISION, "1.0", needs=TORCH, extra=ODD))
    store = Store(seconds=60)
    derivation = store.instantiate(world.root / f".flox/pkgs/{VISION}.nix")
    assert list(store.outputs(derivation)) == told("--outputs", derivation)
    inputs = store.inputs(derivation)
    assert sorted(inputs) == sorted(told("--references", derivation))
    assert any(one.endswith("-flake.nix") for one in inputs)
    assert store.attributes(derivation)["odd"] == 'a"),("b\\ \n \t'
    with pytest.raises(StageError, match="does not have the form of a derivation"):
        store.outputs(next(one for one in inputs if not one.endswith(".drv")))
    with pytest.raises(StageError):
        store.outputs(f"{derivation}-that-is-not-there")


def test_paths_are_described_as_nix_describes_them_here_and_in_a_cache(world: World) -> None:
    cache = world.cache()
    world.nix_build(f".flox/pkgs/{VISION}.nix", "--no-out-link")
    store = Store(seconds=60)
    outputs = store.outputs(store.instantiate(world.root / f".flox/pkgs/{VISION}.nix"))
    paths = told("--requisites", *outputs)
    assert len(paths) > len(outputs)
    assert world.nix("copy", "--to", cache["url"], *outputs).returncode == 0
    for url in ("", cache["url"]):
        infos = store.described(paths, url)
        for path in paths:
            assert [infos[path].content] == told("--hash", path)
            assert [str(infos[path].size)] == told("--size", path)
            assert sorted(infos[path].references) == sorted(told("--references", path))
    assert store.closures(outputs) == {path: set(told("--requisites", path)) for path in outputs}
    with pytest.raises(StageError, match="is not valid"):
        store.described([*paths, f"{paths[0]}-that-is-not-there"])


def test_a_path_that_is_gone_is_no_longer_known(world: World) -> None:
    world.nix_build(f".flox/pkgs/{TORCH}.nix", "--no-out-link")
    store = Store(seconds=60)
    (*_, path) = store.outputs(store.instantiate(world.root / f".flox/pkgs/{TORCH}.nix"))
    assert path in store.closures([path])[path]
    assert store.delete([path]).status == 0
    with pytest.raises(StageError, match="is not valid"):
        store.closures([path])


def test_a_valid_signature_is_verified_once_until_the_cache_is_written_to(
    world: World, asked: list[Sequence[str]]
) -> None:
    world.built(signed=True)
    entry = world.cache()
    cache = Cache(url=entry["url"], public_key=entry["public-key"])
    other = Cache(url=entry["url"], public_key=world.cache("other")["public-key"])
    store, paths = Store(seconds=60), world.manifest["outputs"]
    assert store.signed(cache, paths)
    count = len(asked)
    assert store.signed(cache, paths)
    assert len(asked) == count
    assert not store.signed(other, paths)
    assert not store.signed(other, paths)
    assert len(asked) == count + 2
    store.copy(paths=paths, to=cache.url)
    assert store.signed(cache, paths)
    assert len(asked) == count + 4


@pytest.mark.parametrize(("command", "most"), [("build", 10), ("publish", 12)])
def test_a_job_starts_few_programs_of_nix(world: World, asked: list[Sequence[str]], command: str, most: int) -> None:
    world.built(cached=True)
    world.key()
    asked.clear()
    assert (world.build() if command == "build" else world.publish()) == 0
    said = [" ".join(one) for one in asked]
    assert len(said) <= most, said
