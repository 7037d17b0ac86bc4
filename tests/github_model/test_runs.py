"""Single runs in the model: what the compiled files of the examples do, and what was in doubt about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ci_compiler.spec.build import bundled_spec, load_spec
from tests.github_model.explore import Scenario, explore
from tests.github_model.model import Environment, Play, World
from tests.github_model.scenarios import FIRST, ROOT, SECOND, Stack, bundled, miniature, scenarios
from tests.github_model.state import ALL, FAILED, FAILURE, SUCCESS, Frozen, State
from tests.github_model.switches import AS_REGISTERED
from tests.github_model.tree import Document, Tree, read_tree, tree_of
from tests.loops import each
from tests.test_examples import of_example

EXAMPLES = ROOT / "tests/examples/good"

EXAMPLE_NAMES = ["", *sorted(path.name for path in EXAMPLES.iterdir())]

Action = Callable[[Play], None]


class Repository:
    """A world that is played action by action; each job ends well, unless it is to fail."""

    def __init__(self, world: World, **settings: bool) -> None:
        self.world = world
        self.state = State(settings=Frozen({**AS_REGISTERED, **settings}), tip=FIRST)
        self.said: list[str] = []

    def play(self, *actions: Action) -> None:
        """Plays actions one after the other."""
        for action in actions:
            play = Play(self.world, self.state)
            action(play)
            self.state = play.state()
            self.said += play.said

    def waiting(self, status: str) -> Iterator[tuple[int, str]]:
        """The jobs that run, or that wait for an approval."""
        for run in self.state.runs:
            yield from ((run.number, path) for path, job in run.jobs.items() if job.status == status)

    def end(self, *, fails: str = "") -> None:
        """Ends every job, approves what asks for it, and lets the job whose path ends in `fails` fail."""
        while running := [*self.waiting("running")] or [*self.waiting("approval")]:
            self.play(self._next(*running[0], fails))

    def _next(self, number: int, path: str, fails: str) -> Action:
        run = self.state.runs[number - 1]
        if run.jobs[path].status == "approval":
            return lambda play: play.approve(number, path)
        if not (fails and path.endswith(fails)):
            return lambda play: play.finish(number, path)
        at = len(self.world.tree.job(run.file, path).body["steps"]) - 2  # before the report is kept
        return lambda play: play.finish(number, path, "fails", at)

    def push(self, branch: str, *files: str) -> None:
        """A push of the first commit, and its runs."""
        self.play(lambda play: play.push(FIRST, branch, files))
        self.end()


@cache
def example(name: str) -> Tree:
    """A compiled tree: an example, or what this repository compiles for the bundled stack ('')."""
    if not name:
        return read_tree(ROOT / ".github/workflows", bundled_spec())
    folder = EXAMPLES / name
    with TemporaryDirectory() as scratch:
        for path, text in of_example(name).items():
            Path(scratch, path).parent.mkdir(parents=True, exist_ok=True)
            Path(scratch, path).write_text(text, "utf-8")
        return read_tree(Path(scratch, ".github/workflows"), load_spec(folder / "ci-matrix.yaml", shown="spec"))


def touched(document: Mapping[str, Any]) -> str:
    """A file whose push starts the workflow."""
    return str(document["on"]["push"]["paths"][0]).replace("**", "a").replace("*", "a")


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_a_push_builds_tests_and_publishes_the_first_variant_of_every_shard(name: str) -> None:
    tree = example(name)
    for shard in each(tree.plan.shards):
        (build, *_) = [cell.joined for cell, _ in shard.cells]
        first = [cell for cell, _ in shard.cells if build and cell.joined == build]
        chosen = [one.name for cell in first for one in cell.variants] or [shard.variants[0]]
        world = World(
            tree=tree,
            changed={FIRST: chosen},
            environments={tree.spec.publish.environment: Environment(reviewers=True)},
        )
        repository = Repository(world)
        repository.push(shard.branch, touched(tree.files[f"{shard.name}.yml"]))
        runs = [run for run in repository.state.runs if run.file == f"{shard.name}.yml"]
        assert [run.conclusion for run in runs] == [SUCCESS], repository.said
        published = tree.spec.branches[shard.branch].publish and tree.spec.publish.on_push
        assert [one.variant for one in repository.state.published] == (chosen if published else [])
        assert repository.state.wrong == ()


# Single runs.


@pytest.fixture(params=[bundled, miniature], ids=["bundled", "miniature"])
def stack(request: pytest.FixtureRequest) -> Stack:
    found: Stack = request.param()
    return found


def pushed(stack: Stack, environments: Mapping[str, Environment], **settings: bool) -> Repository:
    """A repository after a push of one variant."""
    repository = Repository(stack.world(environments=environments), **settings)
    repository.push(stack.branch, f".flox/pkgs/{stack.variants(0)[0]}.nix")
    return repository


def reviewed(stack: Stack, **more: Any) -> dict[str, Environment]:
    return {stack.tree.spec.publish.environment: Environment(reviewers=True, **more)}


def test_a_step_that_the_table_does_not_know_is_an_error(stack: Stack) -> None:
    def edit(document: Document, _: object) -> None:
        for job in document["jobs"].values():
            job.get("steps", []).append({"name": "Build", "run": "ci-runner build-all"})

    world = replace(stack.world(), tree=stack.tree.changed(edit))
    with pytest.raises(LookupError, match="does not know what this step does: ci-runner build-all"):
        Repository(world).push(stack.branch, f".flox/pkgs/{stack.variants(0)[0]}.nix")


IGNORED = "a pause ignored"
MACHINE = '["self-hosted", "linux", "x64", "builder"]'
EVERY = "build and cpu-test and gpu-test and publish"


def test_a_story_is_told_in_sentences() -> None:
    found = explore(scenarios(miniature())["a push, a pause and a re-run"], AS_REGISTERED | {"variables-rerun": False})
    story = next(one for one in found.stories if one.kind == "a pause ignored")
    assert str(story).splitlines() == [
        "a pause ignored:",
        "1. A push of a1b2 to main starts run 1 of build-main-sm90.yml",
        "2. A person pauses all",
        "3. `select/select` of run 1 ends: success",
        "4. `verdict/verdict` of run 1 ends: failure",
        "5. `verdict/verdict` of run 1: paused by all",
        f"6. `verdict/verdict` of run 1: {EVERY} of engine-python313-cuda12_8-sm90-avx2 left no result",
        "7. run 1 ends: failure",
        "8. A person re-runs all jobs of run 1, which ended as failure",
        "9. `select/select` of run 1 ends: success",
        f"10. `preflight-builder/preflight` of run 1 is let through to {MACHINE} although all is paused: {IGNORED}.",
    ]


def test_a_push_of_other_files_starts_no_shard(stack: Stack) -> None:
    repository = Repository(stack.world())
    repository.push(stack.branch, "README.md", ".flox/pkgs/another.nix")
    assert repository.state.runs == ()


@pytest.mark.parametrize("fork", [False, True])
def test_a_pull_request_builds_and_publishes_nothing_and_one_of_a_fork_does_not_build(stack: Stack, fork: bool) -> None:
    repository = Repository(stack.world())
    repository.play(lambda play: play.pull_request(SECOND, stack.branch, fork=fork))
    repository.end()
    (run,) = repository.state.runs
    assert (run.jobs["verdict"].result, run.jobs["cells"].result) == ((FAILURE, "skipped") if fork else (SUCCESS,) * 2)
    assert bool(repository.state.tested) is not fork
    assert repository.state.published == ()


def test_a_newer_push_to_a_pull_request_cancels_the_run_before(stack: Stack) -> None:
    repository = Repository(stack.world())
    for sha in (FIRST, SECOND):
        repository.play(lambda play, sha=sha: play.pull_request(sha, stack.branch))
    repository.end()
    assert [run.conclusion for run in repository.state.runs] == ["cancelled", SUCCESS]


# Partial re-runs and artifacts.


@pytest.mark.parametrize("holds", [True, False])
def test_a_failed_test_that_is_re_run_is_published_or_the_verdict_is_bad(stack: Stack, holds: bool) -> None:
    """With the artifacts of the first attempt nothing is built again; without them, the re-run fails visibly."""
    repository = Repository(stack.world(), **{"artifact-rerun-failed": holds})
    files = [f".flox/pkgs/{stack.variants(0)[0]}.nix"]
    repository.play(lambda play: play.push(FIRST, stack.branch, files))
    repository.end(fails="gpu-test")
    assert [run.conclusion for run in repository.state.runs] == [FAILURE]
    repository.play(lambda play: play.rerun(1, FAILED))
    repository.end()
    assert [run.conclusion for run in repository.state.runs] == [SUCCESS if holds else FAILURE]
    assert [one.content for one in repository.state.published] == ([f"{FIRST}-1.1"] if holds else [])


# A pause that `select` saw, and one that it did not.


@pytest.mark.parametrize("seen", [True, False])
def test_a_verdict_that_is_re_run_alone_after_a_pause_stays_bad(stack: Stack, seen: bool) -> None:
    """It has the pause that the old `select` saw; of one that began later, the missing results tell it."""

    def set_pause(value: str) -> Action:
        return lambda play: setattr(play, "pause", value)

    repository = Repository(stack.world())
    files = [f".flox/pkgs/{stack.variants(0)[0]}.nix"]
    push: Action = lambda play: play.push(FIRST, stack.branch, files)  # noqa: E731
    repository.play(*([set_pause("all"), push] if seen else [push, set_pause("all")]))
    repository.end()
    repository.play(set_pause(""), lambda play: play.rerun(1, FAILED))
    repository.end()
    said = "paused by all" if seen else f"{EVERY} of {stack.variants(0)[0]} left no result"
    assert any(one.startswith("`verdict") and one.endswith(f" of run 1: {said}") for one in repository.said[-3:])
    assert repository.state.runs[0].conclusion == FAILURE
    repository.play(lambda play: play.rerun(1, ALL))
    repository.end()
    assert (repository.state.runs[0].conclusion, len(repository.state.published)) == (SUCCESS, 1)


# Schedules beside other events.


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_no_workflow_with_a_schedule_is_started_by_a_push(name: str) -> None:
    """GitHub would disable both."""
    files = example(name).files
    assert [file for file, document in files.items() if {"schedule", "push"} <= document["on"].keys()] == []


def test_what_github_disables_after_60_days_builds_and_publishes_nothing(stack: Stack) -> None:
    scheduled = {file for file, document in stack.tree.files.items() if "schedule" in document["on"]}
    assert scheduled <= {"schedule.yml", "fleet-watch.yml", "pages-schedule.yml"}
    there = {stack.tree.spec.publish.environment: Environment()}
    world = replace(stack.world(environments=there), disabled=frozenset(scheduled))
    repository = Repository(world)
    repository.push("main", f".flox/pkgs/{stack.variants(0)[0]}.nix", ".github/ci-matrix.yaml")
    repository.play(lambda play: play.dispatch(stack.file, stack.branch, variant="all", publish=True))
    repository.play(lambda play: play.dispatch("waves.yml", "main"))
    repository.end()
    assert {run.file for run in repository.state.runs} >= {stack.file, "waves.yml", "pages.yml"}
    assert len(repository.state.published) == 1


# Environments.


def test_a_missing_environment_has_no_secret_so_that_nothing_is_built_or_published(stack: Stack) -> None:
    """GitHub creates it without protection: the preflight fails before anything is built."""
    for created in (True, False):
        repository = pushed(stack, {}, **{"missing-environment": created})
        assert [run.conclusion for run in repository.state.runs] == [FAILURE]
        assert (repository.state.published, repository.state.tested) == ((), frozenset())
    assert any("the secret" in sentence and "is missing" in sentence for sentence in pushed(stack, {}).said)


def test_a_branch_that_the_environment_does_not_allow_publishes_nothing(stack: Stack) -> None:
    repository = pushed(stack, reviewed(stack, branches=("another",)))
    assert [run.conclusion for run in repository.state.runs] == [FAILURE]
    assert repository.state.published == ()


@pytest.mark.parametrize("holds", [True, False])
def test_reviewers_are_asked_twice_unless_the_spec_names_them(stack: Stack, holds: bool) -> None:
    """Before anything is built and before it is published; with `reviewers: true`, before publishing alone."""
    world = reviewed(stack)
    repository = pushed(stack, world, **{"approval-each-job": holds, "approval-holds-group": holds})
    assert [(run.asked, run.conclusion) for run in repository.state.runs] == [(2 if holds else 1, SUCCESS)]
    spec = stack.tree.spec
    told = replace(stack, tree=tree_of(replace(spec, publish=replace(spec.publish, reviewers=True))))
    repository = pushed(told, world, **{"approval-each-job": holds, "approval-holds-group": holds})
    assert [(run.asked, run.conclusion) for run in repository.state.runs] == [(1, SUCCESS)]
    assert len(repository.state.published) == 1


def test_an_approval_that_comes_late_stops_no_other_run_for_ever(stack: Stack) -> None:
    """Two pushes whose publishing waits for approvals, with the group held meanwhile or not."""
    world = stack.world(environments=reviewed(stack))
    settings = {row: True for row in AS_REGISTERED if not row.startswith("approval-")}
    found = explore(Scenario(world=world, happenings=stack.pushes()), settings)
    assert (found.kinds, found.states > 100) == (set(), True)
