"""The second build of a stage that takes two: the neighbour, else the last publication, else none without an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.runner.jobs.manifest import read_manifest
from tests.runner.jobs.world import TORCH, World, ci_runner, recipe

NEIGHBOUR = TORCH.replace("avx2", "avx")
BESIDE = Path("beside-output/manifest.json")


def fetch(neighbour: str = NEIGHBOUR) -> dict[str, Any]:
    """The manifest that `fetch` leaves of the second build; {} if it leaves none."""
    words = ("fetch", "build-output/manifest.json", "--beside", neighbour, "--beside-manifest", BESIDE)
    assert ci_runner(*words) == 0
    if not BESIDE.exists():
        return {}
    read_manifest(BESIDE)
    found: dict[str, Any] = json.loads(BESIDE.read_text("utf-8"))
    BESIDE.unlink()
    return found


def changed(world: World) -> str:
    """Builds a changed TORCH, which is not published; returns the commit that made it as it was."""
    before = world.git("rev-list", "--max-count=1", "HEAD", "--", f".flox/pkgs/{TORCH}.nix").strip()
    world.torch("2.8.1")
    world.commit()
    assert world.build() == 0
    return before


def test_the_last_publication_is_that_of_an_earlier_recipe_and_not_the_build_itself(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.built(signed=True)
    assert fetch("") == {}
    said = capsys.readouterr().err
    assert "second build: none\n" in said
    assert "none of the last 1 commits that changed its recipe has another build that is published" in said
    before, unbuilt = changed(world), TORCH.replace("avx2", "avx512")
    found = fetch(unbuilt)
    assert (found["name"], found["commit"], found["built"]) == (TORCH, before, False)
    assert found["store_path"] != world.manifest["store_path"]
    assert Path(found["store_path"]).read_text("utf-8") == "2.8.0\n"
    assert f"{unbuilt} is not built" in capsys.readouterr().err


def test_the_neighbour_comes_before_the_publication_unless_there_is_a_floor(world: World) -> None:
    world.built(signed=True)
    world.write(NEIGHBOUR, recipe(NEIGHBOUR, "2.8.0"))
    world.commit()
    assert world.build(NEIGHBOUR) == 0
    world.sign()
    before = changed(world)
    world.use_store("second")
    found = fetch()
    assert (found["name"], found["commit"]) == (NEIGHBOUR, world.head)
    assert Path(found["store_path"]).is_file()
    assert found["store_path"] in found["closure"]
    world.spec(cache=world.cache(), benchmark={"floor": 5}, tests={"benchmark": "where-routed"})
    found = fetch()
    assert (found["name"], found["commit"]) == (TORCH, before)


def test_the_manifest_of_the_run_counts_if_it_is_of_the_same_commit(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.spec(cache=world.cache())
    world.write(NEIGHBOUR, recipe(NEIGHBOUR, "2.8.0"))
    world.commit()
    assert world.build(NEIGHBOUR) == 0
    of_run = world.manifest
    assert world.build() == 0
    world.use_store("second")  # the neighbour is staged, and not signed
    BESIDE.parent.mkdir()
    BESIDE.write_text(json.dumps(of_run), "utf-8")
    assert fetch() == of_run
    assert Path(of_run["store_path"]).is_file()
    BESIDE.write_text(json.dumps(of_run | {"commit": "0" * 40}), "utf-8")
    assert fetch() == {}
    assert f"states the commit {'0' * 40}, not {world.head}" in capsys.readouterr().err


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
