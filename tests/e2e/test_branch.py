"""Runs on a branch: a dispatch of a whole shard, a second dispatch of one variant, a push, what is not published."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.act import PASSED
from tests.loops import each

from .world import PYTHON, TAG, VERSIONS, World

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

NEWER = {f"{package}-{TAG}-cpu-{isa}": package for isa in ("avx", "avx2") for package in ("engine", "vision")}
"""The variants of the shard that is built whole, with their packages."""

STAGES = ["build doctor", "build build", "cpu-test doctor", "cpu-test fetch", "cpu-test smoke"]
"""What the machines do for a CPU-only variant before it is published."""

OWN = ["Select", "Preflight on builder", "Publish on builder", "Verdict"]
"""The jobs of a run that publishes, besides those of its cells."""

SECRET = {("preflight", "doctor"), ("publish", "publish-run")}
"""The commands of the machines that receive the secret, by job."""

PUBLISHED = "publish-builder"
"""The artifact with the outcomes of publishing."""

FILES = {
    "build": {"manifest.json", "build.log", "sbom.cdx.json"},
    "cpu-test": {"result.json", "junit.xml", "probe.log"},
}


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    return new_world("nix")


# All of a shard.


@pytest.fixture(scope="module")
def everything(world: World) -> Run:
    return world.dispatch("build-cuda-13_0-cpu.yml", "cuda-13_0", variant="all", publish="true")


@pytest.mark.weekly
def test_a_dispatch_of_all_runs_every_job_and_is_green(everything: Run) -> None:
    stages = [f"{package} / {stage}" for package in NEWER.values() for stage in ("build", "cpu-test")]
    assert everything.ended("success") == sorted([*OWN, *stages])
    assert (everything.status, len(everything.log.started)) == (0, len(everything.log.jobs))
    assert {step.result for step in everything.log.steps} == {"success"}


def test_every_variant_goes_through_its_stages_in_order(everything: Run) -> None:
    assert {variant: everything.did(variant) for variant in NEWER} == dict.fromkeys(NEWER, STAGES)


@pytest.mark.parametrize("isa", ["avx", "avx2"])
def test_a_build_waits_for_the_build_that_it_needs_and_publishing_for_every_test(everything: Run, isa: str) -> None:
    engine, vision = f"engine-{TAG}-cpu-{isa}", f"vision-{TAG}-cpu-{isa}"
    assert everything.before(("build", engine), ("build", vision))
    assert everything.before(("cpu-test", engine), ("publish", "-"))


def test_nothing_is_built_before_the_preflight_has_passed(everything: Run) -> None:
    assert all(everything.before(("preflight", "-"), ("build", variant)) for variant in NEWER)


def test_the_secret_reaches_only_the_preflight_and_the_step_that_publishes(world: World, everything: Run) -> None:
    assert {(entry.job, entry.command) for entry in everything.journal if entry.secret} == SECRET
    key = world.key.partition(":")[2]
    assert key not in everything.log.said + everything.log.summary
    assert not [path for path in everything.artifacts.rglob("*") if path.is_file() and key in path.read_text("utf-8")]


def test_only_the_checkout_for_publishing_keeps_credentials_and_has_history(everything: Run) -> None:
    kept = [line for line in everything.log.said.splitlines() if line.endswith("credentials=true")]
    assert len(kept) == 1
    assert all("depth=0" in line for line in kept)


def test_each_stage_leaves_one_artifact_per_variant_and_publishing_one_in_all(everything: Run) -> None:
    per_variant = {f"{stage}-{variant}@cuda-13_0" for stage in FILES for variant in NEWER}
    assert everything.artifact_names == {*per_variant, PUBLISHED}
    assert everything.files(PUBLISHED) == {f"{variant}/published.json" for variant in NEWER}
    for stage, files in FILES.items():
        for variant in NEWER:
            assert everything.files(f"{stage}-{variant}") == files


def test_the_manifest_describes_the_build(world: World, everything: Run) -> None:
    for variant, package in each(NEWER.items()):
        manifest = everything.json(f"build-{variant}", "manifest.json")
        store_path = manifest["store_path"]
        assert store_path.startswith(f"{world.root}/store/")
        assert store_path.endswith(f"-{variant}-{VERSIONS['cuda-13_0'][package]}")
        assert manifest["derivation"] == world.ask_store("builder", "--deriver", store_path)
        closure = world.ask_store("builder", "--requisites", store_path).split()
        assert manifest["closure_size"] == sum(map(int, world.ask_store("builder", "--size", *closure).split()))
        assert (manifest["name"], manifest["branch"], manifest["backend"]) == (variant, "cuda-13_0", "nix")
        assert manifest["commit"] == world.git("rev-parse", "origin/cuda-13_0")
        assert manifest["nixpkgs"] == "6a030d535719c5190187c4cec156f335e95e3211"
        assert manifest["machine"]["system"] == "x86_64-linux"
        assert manifest["built"] is True
        assert manifest["seconds"] >= 0
        assert datetime.fromisoformat(manifest["started"])


def test_the_log_shows_that_the_recipe_was_built_and_nothing_else(everything: Run) -> None:
    for variant in each(NEWER):
        log = (everything.folder(f"build-{variant}") / "build.log").read_text("utf-8")
        flag = "-mavx2" if variant.endswith("avx2") else "-mno-avx2"
        assert f"built {variant} with -m" in log
        assert flag in log
        assert log.count("building '") == 1


def test_the_tests_report_what_they_found(world: World, everything: Run) -> None:
    for variant, package in each(NEWER.items()):
        result = everything.json(f"cpu-test-{variant}", "result.json")
        manifest = everything.json(f"build-{variant}", "manifest.json")
        assert (result["name"], result["branch"], result["passed"]) == (variant, "cuda-13_0", True)
        assert result["store_path"] == manifest["store_path"]
        assert result["python"].startswith(f"{world.root}/store/")
        assert result["python"].endswith(f"/bin/python{PYTHON}")
        checks = {check["check"]: check["message"] for check in result["checks"]}
        assert manifest["store_path"] in checks["import"]
        assert VERSIONS["cuda-13_0"][package] in checks["version"]
        suite = ET.parse(everything.folder(f"cpu-test-{variant}") / "junit.xml").getroot()[0]  # noqa: S314
        assert (suite.get("failures"), suite.get("tests")) == ("0", str(len(checks)))


@pytest.mark.usefixtures("machines_apart")
def test_closures_are_transferred_only_through_the_cache(world: World, everything: Run) -> None:
    for variant in each(NEWER):
        path = everything.json(f"build-{variant}", "manifest.json")["store_path"]
        assert f"{variant}: fetched from the cache" in everything.log.said
        assert world.ask_store("tester", "--hash", path) == world.ask_store("builder", "--hash", path)


def test_what_is_published_is_in_the_cache_with_valid_signatures(world: World, everything: Run) -> None:
    paths = [everything.json(f"build-{variant}", "manifest.json")["store_path"] for variant in NEWER]
    assert world.signed(*paths)
    assert not world.signed(*paths, key="miniature-1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    for variant in NEWER:
        assert everything.json(PUBLISHED, f"{variant}/published.json")["published"] is True


def test_the_table_at_the_end_of_the_run_shows_every_result(world: World, everything: Run) -> None:
    commit = world.git("rev-parse", "origin/cuda-13_0")[:12]
    for variant, package in each(NEWER.items()):
        build, cpu_test, gpu_test, time, size, published = everything.row(variant)
        assert (build, gpu_test) == ("passed", "–")
        assert cpu_test in PASSED
        assert (time[-2:], size[-3:]) == (" s", " kB")
        assert published == f"{VERSIONS['cuda-13_0'][package]} from cuda-13_0 at {commit}"


# One variant of it, again.


@pytest.fixture(scope="module")
def again(world: World, everything: Run) -> tuple[Run, bool]:
    """A second dispatch, of one variant, with an empty builder; and whether the cache remained unchanged."""
    assert everything.status == 0
    world.new_builder()
    before = world.cached()
    run = world.dispatch("build-cuda-13_0-cpu.yml", "cuda-13_0", variant=f"vision-{TAG}-cpu-avx2", publish="true")
    return run, world.cached() == before


def test_a_dispatch_of_one_variant_runs_only_its_jobs(again: tuple[Run, bool]) -> None:
    run, _ = again
    stages = [f"vision / {stage}" for stage in ("build", "cpu-test")]
    assert run.ended("success") == sorted([*OWN, *stages])
    assert sorted(run.log.started) == run.ended("success")
    assert run.did(f"vision-{TAG}-cpu-avx2") == STAGES
    assert {entry.variant for entry in run.journal} == {f"vision-{TAG}-cpu-avx2", "-"}


def test_what_it_needs_is_fetched_and_never_built_again(world: World, again: tuple[Run, bool]) -> None:
    run, _ = again
    log = (run.folder(f"build-vision-{TAG}-cpu-avx2") / "build.log").read_text("utf-8")
    assert f"built engine-{TAG}" not in log
    assert run.status == 0
    store_path = run.json(f"build-vision-{TAG}-cpu-avx2", "manifest.json")["store_path"]
    assert f"-engine-{TAG}-cpu-avx2-" in world.ask_store("builder", "--references", store_path)


def test_what_passed_on_the_same_content_is_not_tested_again(everything: Run, again: tuple[Run, bool]) -> None:
    variant = f"vision-{TAG}-cpu-avx2"
    before, after = (run.json(f"cpu-test-{variant}", "result.json") for run in (everything, again[0]))
    assert (before["recorded"], after["recorded"]) == (False, True)
    assert (after["passed"], after["content"]) == (True, before["content"])
    assert any(cell.startswith("passed before") for cell in again[0].row(variant))


def test_publishing_what_is_published_does_nothing(again: tuple[Run, bool]) -> None:
    run, unchanged = again
    assert unchanged
    outcome = run.json(PUBLISHED, f"vision-{TAG}-cpu-avx2/published.json")
    assert outcome["published"] is False
    assert run.row(f"vision-{TAG}-cpu-avx2")[-1].startswith("published already")


# A push.


@pytest.fixture(scope="module")
def pushed(world: World) -> Run:
    """A push that changes one recipe, which another one imports."""
    world.edit(f".flox/pkgs/engine-{TAG}-cpu-avx2.nix", "MAX_JOBS=1", "MAX_JOBS=2")
    world.commit("Build engine for AVX2 with two jobs")
    return world.push("build-main-cpu.yml", "main")


def test_a_push_builds_and_publishes_what_it_changes_and_what_needs_that(world: World, pushed: Run) -> None:
    affected = {f"{package}-{TAG}-cpu-avx2" for package in ("engine", "vision")}
    assert pushed.status == 0
    assert {entry.variant for entry in pushed.journal} == {*affected, "-"}
    assert all(pushed.did(variant) == STAGES for variant in affected)
    manifests = [pushed.json(f"build-{variant}", "manifest.json") for variant in affected]
    assert {manifest["commit"] for manifest in manifests} == {world.git("rev-parse", "main")}
    assert world.signed(*(manifest["store_path"] for manifest in manifests))


def test_the_cells_that_it_does_not_change_are_skipped_and_the_verdict_is_green(pushed: Run) -> None:
    assert pushed.log.started.count("engine / build") == 1
    assert "Verdict" in pushed.ended("success")
    assert f"| `engine-{TAG}-cpu-avx` |" not in pushed.log.summary


# What is not published.


def test_a_dispatch_of_what_is_not_published_builds_it(world: World, pushed: Run) -> None:
    assert pushed.status == 0
    run = world.dispatch("build-main-cpu.yml", "main", variant="unpublished", publish="false")
    unpublished = {f"{package}-{TAG}-cpu-avx" for package in ("engine", "vision")}
    assert run.status == 0
    assert {entry.variant for entry in run.journal} == unpublished
    assert all(run.did(variant) == STAGES for variant in unpublished)
    assert {run.row(variant)[-1] for variant in unpublished} == {"no: not asked for"}
