"""Pull requests: those of this repository are built, those of forks get only the hosted checks; each has a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checkers import require
from tests.github.server import serving
from tests.github.state import REPOSITORY as AT_GITHUB
from tests.github.state import TOKEN, GitHub

from .world import FORK, HERE, REPOSITORY, TAG, World

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .act import Run
    from .conftest import NewWorld

CHECKS = [f"pull request/{name}" for name in ("Files are as compiled", "Recipes are sound", "What the change means")]
VERDICT = "pull request/Pull request verdict"
HOSTED = sorted([*CHECKS, "pull request/Select", VERDICT])
TESTED = ["build doctor", "build build", "cpu-test doctor", "cpu-test fetch", "cpu-test smoke"]
OTHER, VERSION = "cuda-13_0", "{engine: 1.1.0, vision: 0.6.0}"
CHOSEN = [f"{package}-{TAG}-cpu-avx" for package in ("engine", "vision")]


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    """A branch that changes the spec and the compiled files, so that all of `main` is rebuilt."""
    made = new_world("nix")
    made.git("checkout", "--quiet", "-b", "two-jobs", "main")
    made.write_spec(("jobs: 1  # of engine", "jobs: 2  # of engine"))
    made.compile("main")
    made.commit("Build engine with two jobs")
    return made


# Of this repository.


def test_a_merge_group_is_built_and_tested_and_its_verdict_is_green(world: World) -> None:
    run = world.merge_group("two-jobs", "main")
    assert run.status == 0
    assert {"pull request/Pull request verdict", "engine / build", "vision / cpu-test"} <= set(run.ended("success"))
    assert {entry.variant for entry in run.journal} == set(CHOSEN)
    assert not [entry for entry in run.journal if entry.secret]
    assert "gh workflow run" not in run.log.summary  # the branch of the group is gone after the merge


@pytest.fixture(scope="module")
def own_github(world: World) -> Iterator[GitHub]:
    """The GitHub in which the run of the pull request writes its comment."""
    with serving(GitHub()) as github:
        github.comments[7] = []
        world.github, world.github_token = f"{github.url} {AT_GITHUB}", TOKEN
        yield github
    world.github = ""


@pytest.fixture(scope="module")
def own(world: World, own_github: GitHub) -> Run:
    made = world.pull_request("two-jobs", "main")
    world.github = ""
    assert own_github.comments[7], (made.artifacts.parent / "log").read_text("utf-8")[-9000:]
    return made


def test_its_comment_has_what_the_summary_of_the_run_has(own: Run, own_github: GitHub) -> None:
    (comment,) = own_github.comments[7]
    body = comment["body"]
    assert "### Verdict: passed; [the run](https://github.com/my-org/stack/actions/runs/1)" in body
    assert "`packages.engine.jobs`: `1` → `2`" in body
    for variant in CHOSEN:
        (row,) = (line for line in body.splitlines() if line.startswith(f"| `{variant}` |"))
        assert row in own.log.summary
    assert "gh workflow run build-main-cpu.yml --ref two-jobs -f variant=all" in body


def test_the_checks_and_a_representative_cell_run_and_the_verdict_is_green(own: Run) -> None:
    stages = [f"{package} / {stage}" for package in ("engine", "vision") for stage in ("build", "cpu-test")]
    assert own.status == 0
    assert own.ended("success") == sorted([*HOSTED, *stages, "pull request/Comment"])
    assert sorted(own.log.started) == own.ended("success")


def test_it_builds_and_tests_the_merge_and_publishes_nothing(world: World, own: Run) -> None:
    assert {variant: own.did(variant) for variant in CHOSEN} == dict.fromkeys(CHOSEN, TESTED)
    assert {entry.variant for entry in own.journal} == set(CHOSEN)
    assert not [entry for entry in own.journal if entry.secret]
    merge = world.git("ls-remote", "origin", "refs/pull/7/merge").split()[0]
    for variant in CHOSEN:
        manifest = own.json(f"build-{variant}", "manifest.json")
        assert (manifest["commit"], manifest["branch"]) == (merge, "main")
        assert not world.signed(manifest["store_path"])
        assert own.row(variant)[-1] == "no: pull_request publishes nothing"


def test_what_it_leaves_is_listed_with_the_command_that_starts_it(own: Run) -> None:
    started = [line for line in own.log.summary.splitlines() if line.startswith("gh workflow run")]
    assert started == [
        f"gh workflow run build-{branch}-{shard}.yml --ref two-jobs -f variant=all"
        for branch in ("main", OTHER)
        for shard in ("cpu", "sm90")
    ]


def test_that_command_builds_the_code_of_the_request_and_publishes_nothing(world: World) -> None:
    world.git("push", "--quiet", "origin", "two-jobs")
    run = world.dispatch("build-main-cpu.yml", "two-jobs", variant=CHOSEN[0], publish="false")
    manifest = run.json(f"build-{CHOSEN[0]}", "manifest.json")
    assert (manifest["commit"], manifest["branch"]) == (world.git("rev-parse", "two-jobs"), "main")
    assert run.did(CHOSEN[0]) == TESTED
    assert not [entry for entry in run.journal if entry.secret]
    assert run.row(CHOSEN[0])[-1] == "no: the run is at two-jobs, not at main"


def test_a_dispatch_that_asks_to_publish_that_code_is_refused_before_anything_is_built(world: World) -> None:
    run = world.dispatch("build-main-cpu.yml", "two-jobs", variant=CHOSEN[0], publish="true")
    assert run.ended("failure") == ["Select"]  # act ends a run when a called job fails
    assert "it asks to publish from refs/heads/two-jobs" in run.log.said
    assert run.journal == ()


def test_the_effects_of_the_change_are_shown(own: Run) -> None:
    assert "`packages.engine.jobs`: `1` → `2`" in own.log.summary


# For another branch.


@pytest.fixture(scope="module")
def elsewhere(world: World) -> Run:
    """A request into `main` that changes another branch alone."""
    world.git("checkout", "--quiet", "-b", "bump", "main")
    world.write_spec((f"versions: {VERSION}", f"allow-broken: true\n    versions: {VERSION}"))
    world.compile("main")
    world.commit("Build what is broken")
    world.git("push", "--quiet", "origin", "bump")
    return world.pull_request("bump", "main", number=11)


def test_a_change_of_another_branch_is_built_there(elsewhere: Run) -> None:
    assert elsewhere.status == 0
    assert elsewhere.journal != ()
    for variant in CHOSEN:
        manifest = elsewhere.json(f"build-{variant}@{OTHER}", "manifest.json")
        assert manifest["branch"] == OTHER
        assert elsewhere.did(variant) == [
            *("build checkout", *TESTED[:2], "cpu-test checkout", *TESTED[2:]),
        ]
        assert elsewhere.row(variant)[-1] == "no: pull_request publishes nothing"
    assert not [entry for entry in elsewhere.journal if entry.secret]


def test_what_is_built_there_is_what_the_commit_of_sync_evaluates_to(world: World, elsewhere: Run) -> None:
    before = {branch: world.git("rev-parse", branch) for branch in ("main", OTHER)}
    world.git("checkout", "--quiet", "main")
    world.git("merge", "--quiet", "--no-ff", "--message", "Merge", "bump")
    world.on("hosted", HERE / "bin/installed/ci-compile", "sync", "--root", world.clone)
    world.git("checkout", "--quiet", "--force", OTHER)
    for variant in CHOSEN:
        recipe = world.clone / f".flox/pkgs/{variant}.nix"
        manifest = elsewhere.json(f"build-{variant}@{OTHER}", "manifest.json")
        assert world.on("builder", require("nix-instantiate"), recipe).strip() == manifest["derivation"]
    assert world.git("rev-parse", f"{OTHER}^{{tree}}") in elsewhere.log.said
    for branch, commit in before.items():  # the other tests begin with what the remote has
        world.git("checkout", "--quiet", "-B", branch, commit)


def test_the_printed_command_of_another_branch_builds_the_same(world: World, elsewhere: Run) -> None:
    command = f"gh workflow run build-{OTHER}-cpu.yml --ref bump -f variant=all"
    assert command in elsewhere.log.summary.splitlines()
    run = world.dispatch(f"build-{OTHER}-cpu.yml", "bump", variant=CHOSEN[0], publish="false")
    built, again = (one.json(f"build-{CHOSEN[0]}@{OTHER}", "manifest.json") for one in (elsewhere, run))
    assert (again["commit"], again["derivation"]) == (built["commit"], built["derivation"])
    assert run.row(CHOSEN[0])[-1] == f"no: the run is at bump, not at {OTHER}"


# Of a fork.


@pytest.fixture(scope="module")
def foreign(world: World) -> Run:
    """The same change, from a fork."""
    return world.pull_request("two-jobs", "main", head_repository=FORK, number=8)


def test_no_job_of_a_forks_request_reaches_a_self_hosted_machine(foreign: Run) -> None:
    assert foreign.journal == ()
    assert sorted(foreign.log.started) == HOSTED
    assert {step.job for step in foreign.log.steps} == set(HOSTED)
    assert foreign.artifact_names == set()


def test_a_forks_request_is_checked_and_its_verdict_is_red_since_nothing_of_it_is_built(foreign: Run) -> None:
    assert foreign.status != 0
    assert foreign.ended("failure") == [VERDICT]
    assert foreign.ended("success") == [job for job in HOSTED if job != VERDICT]


def test_it_says_how_many_variants_were_not_built_and_what_to_do(foreign: Run) -> None:
    said = (
        f"{len(CHOSEN)} variants are not built: no machine runs the code of a fork; read the code, push it to a branch"
    )
    assert said in foreign.log.summary
    assert said in foreign.log.said


# Verdicts.


@pytest.mark.parametrize(("owner", "more"), [(REPOSITORY, ["pull request/Comment"]), (FORK, [])])
def test_the_verdict_is_green_where_nothing_is_to_be_built(world: World, owner: str, more: list[str]) -> None:
    world.git("checkout", "--quiet", "-B", "a-word", "main")
    (world.clone / "README.md").write_text("A word.\n", "utf-8")
    world.commit("Say a word")
    run = world.pull_request("a-word", "main", head_repository=owner, number=9)
    assert (run.status, run.journal) == (0, ())
    assert run.ended("success") == sorted([*HOSTED, *more])  # though no GitHub took the comment
    assert "Nothing was to be built." in run.log.summary


@pytest.fixture(scope="module")
def drifted(world: World) -> Run:
    """A request that edits a compiled file and a recipe by hand."""
    world.git("checkout", "--quiet", "-b", "by-hand", "main")
    world.edit(".github/workflows/cell.yml", "timeout-minutes: 480", "timeout-minutes: 4800")
    world.edit(f".flox/pkgs/vision-{TAG}-cpu-avx.nix", '"-mavx"', '"-march=native"')
    world.commit("Edit by hand")
    return world.pull_request("by-hand", "main", head_repository=FORK, number=10)


def test_a_check_that_fails_makes_the_verdict_red(drifted: Run) -> None:
    assert drifted.status != 0
    assert drifted.ended("failure") == sorted([*CHECKS[:2], VERDICT])
    assert drifted.ended("success") == sorted([CHECKS[2], "pull request/Select"])


def test_a_file_that_is_not_as_compiled_is_named_with_the_command_that_fixes_it(drifted: Run) -> None:
    said = drifted.log.said
    assert ".github/workflows/cell.yml: is not as compiled" in said
    assert f".flox/pkgs/vision-{TAG}-cpu-avx.nix: is not as compiled" in said
    assert "run `ci-compile --branch main`" in said
    assert "unknown-flag" in said


def test_what_a_fork_would_build_is_said_after_a_failed_verdict(drifted: Run) -> None:
    failed = [step.name for step in drifted.log.steps if step.job == VERDICT and step.result != "success"]
    assert failed == ["Every chosen job succeeded", "Write the table"]
    assert "not built: no machine runs the code of a fork" in drifted.log.summary
