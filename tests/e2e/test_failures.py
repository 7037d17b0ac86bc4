"""Failures and what they prevent: a failing build, a failing test, a build without its dependencies; expected ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, GitHub

from .world import HERE, PYTHON, TAG, World

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

BROKEN, BEHIND_IT, WRONG = f"engine-{TAG}-cpu-avx2", f"vision-{TAG}-cpu-avx2", f"vision-{TAG}-cpu-avx"


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    return new_world("nix")


@pytest.fixture(scope="module")
def engine(world: World) -> Run:
    """A successful build of a variant that another variant of the cell needs."""
    return world.dispatch("build-main-cpu.yml", "main", variant=f"engine-{TAG}-cpu-avx", publish="false")


@pytest.fixture(scope="module")
def pushed(world: World, engine: Run) -> Run:
    """A push in which one cell has a recipe that fails, and the other one that builds a version it does not state."""
    assert engine.status == 0
    world.edit(f".flox/pkgs/{BROKEN}.nix", "export MAX_JOBS=1", "echo 'the compiler is on fire'; exit 3")
    changed = '(thin: thin.overrideAttrs (old: { preConfigure = old.preConfigure + "version=9.9.9\\n"; }))'
    world.edit(f".flox/pkgs/{WRONG}.nix", "import", f"{changed} (import")
    world.edit(f".flox/pkgs/{WRONG}.nix", "  ];\n}\n", "  ];\n})\n")
    world.commit("Break two recipes")
    return world.push("build-main-cpu.yml", "main")


def test_without_being_asked_nothing_is_published(world: World, engine: Run) -> None:
    assert "publish" not in {entry.job for entry in engine.journal}
    assert not [entry for entry in engine.journal if entry.secret]
    assert not world.signed(engine.json(f"build-engine-{TAG}-cpu-avx", "manifest.json")["store_path"])
    assert engine.row(f"engine-{TAG}-cpu-avx")[-1] == "no: not asked for"


def test_a_run_with_a_failure_is_red(pushed: Run) -> None:
    assert pushed.status != 0
    assert pushed.ended("failure") == ["engine / build", "vision / cpu-test"]


def test_a_build_that_fails_ends_its_variant_and_keeps_the_log_and_no_manifest(pushed: Run) -> None:
    assert pushed.did(BROKEN) == ["build doctor", "build build: 1"]
    assert pushed.files(f"build-{BROKEN}") == {"build.log"}
    assert "the compiler is on fire" in (pushed.folder(f"build-{BROKEN}") / "build.log").read_text("utf-8")


def test_the_reason_is_shown_where_the_build_ran(pushed: Run) -> None:
    assert "[build-failed]" in pushed.log.said
    assert f"| {BROKEN} | build | failed |" in pushed.log.summary


def test_what_needs_a_failed_build_is_not_started(pushed: Run) -> None:
    assert pushed.did(BEHIND_IT) == []


def test_a_test_that_fails_says_what_it_found_and_what_it_wanted(pushed: Run) -> None:
    assert pushed.did(WRONG) == [
        "build doctor",
        "build build",
        "cpu-test doctor",
        "cpu-test fetch",
        "cpu-test smoke: 1",
    ]
    result = pushed.json(f"cpu-test-{WRONG}", "result.json")
    assert result["passed"] is False
    (failed,) = (check for check in result["checks"] if check["verdict"] == "failed")
    assert failed["check"] == "version"
    assert "9.9.9" in failed["message"]
    assert "0.5.0" in failed["message"]


def test_nothing_is_published_after_a_failure(world: World, pushed: Run) -> None:
    assert not world.signed(pushed.json(f"build-{WRONG}", "manifest.json")["store_path"])


@pytest.fixture(scope="module")
def verdict(world: World, pushed: Run) -> Run:
    return world.verdict(
        "build-main-cpu.yml", pushed, {"select": "success", f"{TAG}-avx": "failure", f"{TAG}-avx2": "failure"}
    )


def test_the_verdict_is_red(verdict: Run) -> None:
    assert verdict.status != 0
    assert "Verdict" in verdict.ended("failure")


def test_the_table_shows_how_far_each_variant_came(verdict: Run) -> None:
    assert verdict.row(BROKEN)[:2] == ["**failed**", "not reached"]
    assert verdict.row(WRONG)[:2] == ["passed", "**failed**"]
    assert {verdict.row(variant)[-1] for variant in (BROKEN, WRONG)} == {"no: it failed before"}


def test_a_package_is_not_built_along_with_what_needs_it(world: World) -> None:
    run = world.dispatch("build-cuda-13_0-cpu.yml", "cuda-13_0", variant=BEHIND_IT, publish="false")
    assert run.did(BEHIND_IT) == ["build doctor", "build build: 1"]
    assert f"needs {BROKEN}, which is neither in this machine's store nor in" in run.log.said
    assert run.status != 0


@pytest.fixture(scope="module")
def again(world: World, pushed: Run, verdict: Run) -> Run:
    """The variant whose test failed, on a branch whose spec expects this by now."""
    assert pushed.status != 0 != verdict.status
    entry = "{variants: vision-*-cpu-avx, stage: cpu-test, because: It states another version., until: 2999-12-31}"
    with (world.clone / ".github/ci-matrix.yaml").open("a", encoding="utf-8") as spec:
        spec.write(f"expected-failures: [{entry}]\n")
    world.on("hosted", HERE / "bin/installed/ci-compile", "--root", world.clone, "--branch", "main")
    world.git("checkout", "--quiet", "--", ".flox")  # the recipes stay as they were edited
    world.commit("Expect the failure")
    world.git("push", "--quiet", "origin", "HEAD:main")
    return world.dispatch("build-main-cpu.yml", "main", variant=WRONG, publish="false")


def test_a_cached_build_whose_test_failed_is_tested_again_and_fails_again(again: Run) -> None:
    assert again.json(f"build-{WRONG}", "manifest.json")["built"] is False
    assert (again.did(WRONG)[-1], again.status != 0) == ("cpu-test smoke: 1", True)
    assert again.json(f"cpu-test-{WRONG}", "result.json")["passed"] is False


def test_a_verdict_accepts_the_expected_failure_and_no_other(world: World, again: Run) -> None:
    """What the local GitHub lists stands for the jobs that `again` had; act has no list of them."""

    def judged(stage: str) -> Run:
        with serving(GitHub()) as github:
            github.runs.append({"id": 1})
            github.set_jobs(1, [(f"{PYTHON} avx / vision / {stage}", "completed", "failure")])
            github.jobs[1][0]["steps"] = [{"name": "Test", "status": "completed", "conclusion": "failure", "number": 1}]
            world.github, world.github_token = f"{github.url} {REPOSITORY}", TOKEN
            ended = world.verdict("build-main-cpu.yml", again, {"select": "success", f"{TAG}-avx": "failure"})
        world.github = ""
        return ended

    accepted, refused = judged("cpu-test (imported only)"), judged("build")
    assert "Verdict" in accepted.ended("success")
    assert "failed as expected: It states another version. (until 2999-12-31)" in accepted.log.summary
    assert accepted.row(WRONG)[1].startswith("**failed**, expected")
    assert "Verdict" in refused.ended("failure")
    assert "failed, and is not the test of a variant that was chosen" in refused.log.said
