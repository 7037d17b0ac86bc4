"""Publishing is bound to the commit: its recipe decides what is published, and the tested content is the content."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.runner.jobs.world import TORCH, World, recipe

BACKENDS = pytest.mark.parametrize("backend", ["flox", "nix"])
MANIFEST = Path("build-output/manifest.json")


def built(world: World, backend: str = "nix") -> None:
    """Builds, checks out as actions/checkout does, and sets the secret."""
    world.spec(backend=backend, cache=world.cache())
    world.commit()
    assert world.build() == 0
    world.git("checkout", "--quiet", "--detach")
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
    assert f"{TORCH}: foreign-output {message}" in capsys.readouterr().err
    assert not world.signed(foreign["store_path"])
    assert world.catalog == {}


def test_a_foreign_path_beside_the_own_ones_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    built(world)
    foreign, own = evil(world), world.manifest
    outputs = [*own["outputs"], *foreign["outputs"]]
    swap(world, outputs=outputs, closure=own["closure"] | foreign["closure"])
    assert world.publish() == 1
    assert f"foreign-output {foreign['store_path']} is not an output of " in capsys.readouterr().err
    assert not world.signed(foreign["store_path"])
    assert not world.signed(own["store_path"])


def test_a_manifest_that_omits_an_output_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    built(world)
    own = world.manifest
    dev = next(path for path in own["outputs"] if path.endswith("-dev"))
    swap(world, outputs=[path for path in own["outputs"] if path != dev])
    assert world.publish() == 1
    assert f"foreign-output {dev} is an output of " in capsys.readouterr().err


def test_the_recipe_of_the_commit_counts_whatever_the_checkout_has(world: World) -> None:
    built(world)
    world.torch("9.9")
    assert world.publish() == 0
    assert world.signed(world.manifest["store_path"])
    assert world.git("worktree", "list").count("\n") == 1


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
    assert f"{TORCH}: content-differs " in capsys.readouterr().err
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
