"""The same workflows with Flox: the compiled jobs never ask for anything that the stand-in for Flox refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .world import TAG, VERSIONS, World, token

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

STAGES = ["build doctor", "build build", "cpu-test doctor", "cpu-test fetch", "cpu-test smoke"]
ENGINE, VISION = (f"{package}-{TAG}-cpu-avx2" for package in ("engine", "vision"))


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    return new_world("flox")


def catalog(world: World) -> dict[str, list[dict[str, Any]]]:
    """What was published, by its name in the catalog."""
    return json.loads(world.catalog.read_text("utf-8")) if world.catalog.exists() else {}


# A token that has expired.


@pytest.fixture(scope="module")
def expired(world: World) -> Run:
    world.token, good = token(valid_for=-60), world.token
    run = world.dispatch("build-cuda-13_0-cpu.yml", "cuda-13_0", variant=ENGINE, publish="true")
    world.token = good
    return run


def test_an_expired_token_fails_the_run_before_anything_is_built(world: World, expired: Run) -> None:
    assert expired.status != 0
    assert expired.ended("failure") == ["Preflight on builder"]  # act ends a run when a called job fails
    assert expired.did("-") == ["preflight doctor: 1"]
    assert {entry.variant for entry in expired.journal} == {"-"}
    assert "token: FLOX_FLOXHUB_TOKEN expired" in expired.log.said
    assert catalog(world) == {}


# A push.


@pytest.fixture(scope="module")
def pushed(world: World) -> Run:
    world.edit(f".flox/pkgs/{ENGINE}.nix", "MAX_JOBS=1", "MAX_JOBS=2")
    world.commit("Build engine for AVX2 with two jobs")
    return world.push("build-main-cpu.yml", "main")


def test_a_push_builds_tests_and_publishes_with_flox(pushed: Run) -> None:
    assert pushed.status == 0
    assert {variant: pushed.did(variant) for variant in (ENGINE, VISION)} == dict.fromkeys((ENGINE, VISION), STAGES)
    assert pushed.before(("build", ENGINE), ("build", VISION))
    assert {(entry.job, entry.command) for entry in pushed.journal if entry.secret} == {
        ("preflight", "doctor"),
        ("publish", "publish-run"),
    }


def test_what_is_published_is_the_commit_that_was_built_and_its_result(world: World, pushed: Run) -> None:
    published = catalog(world)
    assert set(published) == {f"my-org/{variant}" for variant in (ENGINE, VISION)}
    for package, variant in (("engine", ENGINE), ("vision", VISION)):
        (entry,) = published[f"my-org/{variant}"]
        manifest = pushed.json(f"build-{variant}", "manifest.json")
        assert entry == {
            "version": VERSIONS["main"][package],
            "store_path": manifest["store_path"],
            "branch": "main",
            "revision": world.git("rev-parse", "main"),
        }
        assert manifest["backend"] == "flox"


# Again.


def test_publishing_again_does_nothing(world: World, pushed: Run) -> None:
    before = catalog(world)
    run = world.dispatch("build-main-cpu.yml", "main", variant=VISION, publish="true")
    assert pushed.status == run.status == 0
    assert run.did(VISION) == STAGES
    assert catalog(world) == before
    assert run.json("publish-builder", f"{VISION}/published.json")["published"] is False
    assert run.row(VISION)[-1].startswith("published already")


def test_flox_is_asked_what_is_published(world: World, pushed: Run) -> None:
    run = world.dispatch("build-main-cpu.yml", "main", job="select", variant="unpublished")
    (chosen,) = (line for line in run.log.said.splitlines() if line.startswith("chosen="))
    assert pushed.status == run.status == 0
    assert json.loads(chosen.partition("=")[2]) == [f"{package}-{TAG}-cpu-avx" for package in ("engine", "vision")]
