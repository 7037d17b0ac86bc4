"""Publishing is bound to the commit: its recipe decides what is published, and the tested content is the content."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.cache_files import held
from tests.runner.jobs.world import TORCH, VISION, World, built_apart, ci_runner, recipe

BACKENDS = pytest.mark.parametrize("backend", ["flox", "nix"])
MANIFEST = Path("build-output/manifest.json")


def built(world: World, backend: str = "nix") -> None:
    """A build, checked out as actions/checkout does, with the secret set."""

    def make() -> None:
        world.spec(backend=backend, cache=world.cache())
        world.commit()
        with world.patch.context() as patch:
            patch.setenv("GITHUB_OUTPUT", str(world.folder / "outputs"))
            assert world.build() == 0
        world.git("checkout", "--quiet", "--detach")

    world.once(f"bound-{backend}", make)
    world.token() if backend == "flox" else world.key()


def swap(world: World, **changes: Any) -> None:
    """Exchanges values of the manifest."""
    (world.root / MANIFEST).write_text(json.dumps(world.manifest | changes), "utf-8")


def evil(world: World) -> dict[str, Any]:
    """A path that another derivation made, which is in the store; the values of a manifest that names it."""
    world.write("evil", recipe("glibc", "2.40", 'echo "EVIL glibc" >"$out"'))
    paths = world.nix_build(".flox/pkgs/evil.nix", "--no-out-link").stdout.split()
    (world.root / ".flox/pkgs/evil.nix").unlink()
    hashes = subprocess.run(["nix-store", "--query", "--hash", *paths], capture_output=True, check=True).stdout.split()
    closure = dict(zip(paths, (one.decode() for one in hashes), strict=True))
    return {"store_path": paths[0], "outputs": paths, "closure": closure}


@BACKENDS
def test_a_manifest_that_names_a_foreign_path_is_refused(
    world: World, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built(world, backend)
    foreign = evil(world)
    swap(world, **foreign)
    capsys.readouterr()
    assert world.publish() == 1
    message = f"{foreign['store_path']} is not an output of .flox/pkgs/{TORCH}.nix at {world.head[:12]}, "
    assert f"{TORCH}: {message}" in capsys.readouterr().err
    assert not world.signed(foreign["store_path"])
    assert world.catalog == {}


def test_a_foreign_path_beside_the_own_ones_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    built(world)
    foreign, own = evil(world), world.manifest
    outputs = [*own["outputs"], *foreign["outputs"]]
    swap(world, outputs=outputs, closure=own["closure"] | foreign["closure"])
    assert world.publish() == 1
    assert f"{foreign['store_path']} is not an output of " in capsys.readouterr().err
    assert not world.signed(foreign["store_path"])
    assert not world.signed(own["store_path"])


def test_a_manifest_that_omits_an_output_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    built(world)
    own = world.manifest
    dev = next(path for path in own["outputs"] if path.endswith("-dev"))
    swap(world, outputs=[path for path in own["outputs"] if path != dev])
    assert world.publish() == 1
    err = capsys.readouterr().err
    assert f"{dev} is an output of " in err
    assert "[foreign-output]" in err


def test_the_recipe_of_the_commit_counts_whatever_the_checkout_has(world: World) -> None:
    built(world)
    world.torch("9.9")
    assert world.publish() == 0
    assert world.signed(world.manifest["store_path"])
    assert world.git("worktree", "list").count("\n") == 1


def reported(world: World) -> dict[str, str]:
    """What the build reported to the run, beside the artifact."""
    return dict(line.split("=", 1) for line in (world.folder / "outputs").read_text("utf-8").splitlines())


@pytest.mark.parametrize("command", ["fetch", "publish"])
def test_a_manifest_that_was_exchanged_after_the_build_is_refused(
    world: World, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built(world)
    digest, commit = reported(world)["manifest"], world.manifest["commit"]
    assert reported(world)["staged"] == world.manifest["staged"]

    def run() -> int:
        if command == "fetch":
            return ci_runner("fetch", MANIFEST, "--digest", digest)
        return world.publish(TORCH, "--digest", digest, commit=commit)

    swap(world, seconds=1.0)
    assert run() == 2
    assert "is not the file that the build wrote: its digest is sha256:" in capsys.readouterr().err
    digest = ""
    assert run() == 2
    assert not world.signed(world.manifest["store_path"])


def test_the_digest_that_the_build_reports_is_that_of_its_manifest(world: World) -> None:
    built(world)
    digest = reported(world)["manifest"]
    assert ci_runner("fetch", MANIFEST, "--digest", digest) == 0
    assert world.publish(TORCH, "--digest", digest) == 0
    assert world.signed(world.manifest["store_path"])


@pytest.mark.parametrize("lie", ["another content", "a path too many"])
def test_a_store_that_does_not_hold_what_the_manifest_states_is_not_published(
    world: World, lie: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built(world)
    own = world.manifest
    if lie == "another content":
        swap(world, closure=own["closure"] | {own["store_path"]: f"sha256:{'0' * 52}"})
    else:
        swap(world, closure=own["closure"] | evil(world)["closure"])
    assert world.publish() == 1
    assert "[content-differs]" in capsys.readouterr().err
    assert not world.signed(own["store_path"])


@pytest.mark.parametrize(
    "changes", [{"outputs": []}, {"closure": {}}, {"store_path": f"/nix/store/{'0' * 32}-other"}], ids=str
)
def test_a_manifest_whose_values_contradict_each_other_is_wrong_input(
    world: World, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    built(world)
    swap(world, **changes)
    assert world.publish() == 2
    assert "broken-manifest" in capsys.readouterr().err


# Builds that are not bit-reproducible.

RANDOM = 'mkdir -p "$out/lib"; echo same >"$out/lib/same"; date +%s%N >"$out/lib/stamp"; ln -s stamp "$out/lib/link"'
"""A build whose content is new each time."""


def stamp(path: str) -> str:
    return Path(path, "lib/stamp").read_text("utf-8")


def irreproducible(world: World, **cache: Any) -> None:
    world.spec(cache=world.cache() | cache)
    world.write(TORCH, recipe(TORCH, "2.8.0", RANDOM))
    world.commit()


def built_once(world: World) -> None:
    """A build that is not reproducible."""

    def make() -> None:
        irreproducible(world)
        assert world.build() == 0

    world.once("irreproducible", make)


def built_twice(world: World) -> None:
    """Two different builds, of which the store has the second. The first one's manifest and stamp are kept."""

    def make() -> None:
        built_once(world)
        (world.folder / "first.json").write_text(json.dumps(world.manifest), "utf-8")
        (world.folder / "first-stamp").write_text(stamp(world.manifest["store_path"]), "utf-8")
        world.use_store("second")
        assert world.build() == 0

    world.once("irreproducible-twice", make)


def published_once(world: World) -> None:
    """A published build that is not reproducible."""

    def make() -> None:
        built_once(world)
        with world.patch.context() as patch:
            patch.setenv("NIX_CACHE_SIGNING_KEY", (world.folder / "cache.secret").read_text("utf-8"))
            assert world.publish() == 0

    world.once("irreproducible-published", make)


def test_each_of_two_builders_passes_its_own_build_on(world: World) -> None:
    built_twice(world)
    path = world.manifest["store_path"]
    first, second = (world.folder / "first-stamp").read_text("utf-8"), stamp(path)
    assert first != second
    for content, manifest in (
        (second, world.manifest),
        (first, json.loads((world.folder / "first.json").read_text("utf-8"))),
    ):
        (world.root / MANIFEST).write_text(json.dumps(manifest), "utf-8")
        world.use_store(f"tester-of-{content.strip()}")
        assert ci_runner("fetch", MANIFEST) == 0
        assert stamp(path) == content


def test_the_build_that_was_tested_is_published_though_another_one_was_first(world: World) -> None:
    built_twice(world)
    path = world.manifest["store_path"]
    content = stamp(path)
    world.use_store("publisher")
    world.key()
    assert world.publish() == 0
    assert all(world.signed(one) for one in world.manifest["outputs"])
    world.patch.delenv("NIX_CACHE_SIGNING_KEY")
    world.use_store("user")
    entry = world.cache()
    key = ("--option", "trusted-public-keys", entry["public-key"])
    assert world.nix("copy", *key, "--from", entry["url"], path).returncode == 0
    assert stamp(path) == content


def test_a_foreign_write_to_the_cache_is_replaced_by_the_build_that_was_tested(world: World) -> None:
    irreproducible(world)
    world.use_store("foreign")
    assert world.nix_build(f".flox/pkgs/{TORCH}.nix").returncode == 0
    path = str((world.root / "result").readlink())
    assert world.nix("copy", "--to", world.cache()["url"], path).returncode == 0
    foreign = stamp(path)
    world.use_store("builder")
    assert world.build() == 0
    content = stamp(path)
    world.use_store("publisher")
    world.key()
    assert world.publish() == 0
    assert world.signed(path)
    world.use_store("user")
    assert ci_runner("fetch", MANIFEST) == 0
    assert stamp(path) == content != foreign


def test_what_is_published_stays_when_another_builder_builds_it_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    built_apart(world)
    published_once(world)
    path = world.manifest["store_path"]
    before = {file: file.read_bytes() for file in (world.folder / "cache").glob("*.narinfo")}
    world.use_store("second")
    assert world.build() == 0
    other = stamp(path)
    world.use_store("tester")
    assert ci_runner("fetch", MANIFEST) == 0
    assert stamp(path) == other
    world.key()
    capsys.readouterr()
    assert world.publish() == 0
    assert "published already" in capsys.readouterr().out
    assert {file: file.read_bytes() for file in before} == before


def test_the_files_that_differ_between_two_builds_are_reported(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    built_apart(world)
    published_once(world)
    world.use_store("second")
    capsys.readouterr()
    assert world.build() == 0
    message = f"has another build of {world.manifest['store_path']} (published), which differs: 1 of 3 files: lib/stamp"
    assert message in capsys.readouterr().out
    assert "which differs: 1 of 3 files: lib/stamp" in world.summary


def test_a_tester_whose_store_has_another_build_gets_the_one_of_the_manifest(world: World) -> None:
    built_once(world)
    path, content = world.manifest["store_path"], stamp(world.manifest["store_path"])
    world.use_store("tester")
    assert world.nix_build("--no-out-link", f".flox/pkgs/{TORCH}.nix").returncode == 0
    assert stamp(path) != content
    (world.root / f"result-{TORCH}").unlink()
    assert ci_runner("fetch", MANIFEST) == 0
    assert stamp(path) == content


def test_a_build_uses_the_staged_build_of_what_it_needs(world: World) -> None:
    world.spec(cache=world.cache())
    assert world.build() == 0
    torch = world.manifest
    world.use_store("second")
    arguments = ("build", VISION, "--branch", "main", "--out", "build-output")
    assert ci_runner(*arguments) == 1
    assert ci_runner(*arguments, "--staged", f" {torch['staged']} ") == 0
    assert torch["store_path"] in world.manifest["closure"]
    assert world.builds == 1


@pytest.mark.parametrize("harm", ["another build", "damaged"])
def test_a_staged_build_with_another_content_is_not_fetched(
    world: World, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built_twice(world)
    if harm == "another build":
        swap(world, staged=json.loads((world.folder / "first.json").read_text("utf-8"))["staged"])
    else:
        for archive in (world.folder / "cache/nar").iterdir():
            archive.write_bytes(archive.read_bytes()[:-20] + b"x" * 20)
    path = world.manifest["store_path"]
    world.use_store("tester")
    capsys.readouterr()
    assert ci_runner("fetch", MANIFEST) == 1
    said = "is staged with another content than the manifest states" if harm == "another build" else "cannot be fetched"
    assert said in capsys.readouterr().err
    assert not Path(path).exists()


def test_staged_builds_have_a_place_of_their_own_and_are_removed_after_their_days(world: World) -> None:
    staging = world.folder / "staging"
    irreproducible(world, staging=f"file://{staging}", **{"staging-days": 3})
    assert world.build() == 0
    first = world.manifest["staged"]
    assert list(held(staging)) == [first]
    assert list(held(world.folder / "cache")) == []
    for file in staging.rglob("*"):
        os.utime(file, (time.time() - 4 * 86400,) * 2)
    world.use_store("second")
    assert world.build() == 0
    assert list(held(staging)) == [world.manifest["staged"]] != [first]
    assert len(list((staging / "nar").iterdir())) == 1
