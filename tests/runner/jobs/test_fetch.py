"""Fetching: from the store, from the cache with valid signatures, or one line that says why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runner.jobs.world import World, ci_runner

MANIFEST = "build-output/manifest.json"


def test_paths_in_the_store_are_not_fetched(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.built()
    capsys.readouterr()
    assert ci_runner("fetch", MANIFEST) == 0
    out, err = capsys.readouterr()
    assert out == f"{world.manifest['store_path']}\n"
    assert err.endswith(": already in the store\n")


def test_the_key_of_the_cache_is_trusted_only_for_this_closure(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.built(signed=True)
    path = world.manifest["store_path"]
    world.use_store("second")
    assert world.nix("copy", "--from", world.cache()["url"], path).returncode != 0
    assert ci_runner("fetch", MANIFEST) == 0
    assert capsys.readouterr().err.endswith(": fetched from the cache\n")
    assert Path(path).read_text("utf-8") == "2.8.0\n"


def test_an_unsigned_closure_is_fetched_if_it_matches_the_manifest(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.built(cached=True)
    path = world.manifest["store_path"]
    assert not world.signed(path)
    world.use_store("second")
    assert ci_runner("fetch", MANIFEST) == 0
    assert capsys.readouterr().err.endswith(": fetched from the cache\n")
    assert Path(path).read_text("utf-8") == "2.8.0\n"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("another build, unsigned", "is staged with another content than the manifest states"),
        ("another build, other key", "lacks a valid signature"),
        ("tampered", "hash mismatch"),
        ("not there", "there is no substituter that can build it"),
        ("no cache", "and the spec names no `cache` to fetch it from"),
    ],
)
def test_a_closure_that_cannot_be_fetched_is_reported_on_one_line(
    world: World, why: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unsigned = why == "another build, unsigned"
    world.built(cached=unsigned, signed=not unsigned)
    path = world.manifest["store_path"]
    if why.startswith("another build"):
        contents = dict.fromkeys(world.manifest["closure"], f"sha256:{'0' * 52}")
        (world.root / MANIFEST).write_text(json.dumps(world.manifest | {"closure": contents}), "utf-8")
    if why == "another build, other key":
        world.spec(cache=world.cache() | {"public-key": world.cache("another")["public-key"]})
    elif why == "tampered":
        for archive in (world.folder / "cache" / "nar").iterdir():
            archive.write_bytes(archive.read_bytes()[:-20] + b"x" * 20)
        told = f"cannot be fetched from {world.cache()['url']}"
    elif why == "not there":
        world.spec(cache=world.cache() | {"url": f"file://{world.folder}/empty"})
    elif why == "no cache":
        world.spec()
    world.use_store("second")
    capsys.readouterr()
    assert ci_runner("fetch", MANIFEST) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert f"{path} is not in this machine's store" in err
    assert told in err
    assert not Path(path).exists()


def test_a_file_that_is_not_a_manifest_is_wrong_input(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.root / "odd.json").write_text("{}", "utf-8")
    assert ci_runner("fetch", "odd.json") == 2
    assert "error: odd.json: has no 'store_path' [broken-manifest]" in capsys.readouterr().err.splitlines()
