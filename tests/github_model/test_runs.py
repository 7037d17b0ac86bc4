"""Single runs in the model: what the compiled files of the examples do, and what was in doubt about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.build import load_spec
from tests.github_model.explore import explore
from tests.github_model.model import Environment, Play, World
from tests.github_model.scenarios import FIRST, SECOND, Stack, bundled, miniature, scenarios
from tests.github_model.state import FAILED, FAILURE, SUCCESS, Frozen, State
from tests.github_model.switches import AS_REGISTERED
from tests.github_model.tree import Tree, read_tree

EXAMPLES = Path(__file__).parents[1] / "examples/good"

Action = Callable[[Play], None]


class Repository:
    """A world that is played action by action; each job ends well, unless it is told otherwise."""

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
            number, path = running[0]
            if self.state.runs[number - 1].jobs[path].status == "approval":
                self.play(lambda play: play.approve(number, path))
            elif fails and path.endswith(fails):
                at = len(self.world.tree.job(self.state.runs[number - 1].file, path).body["steps"]) - 2
                self.play(lambda play: play.finish(number, path, "fails", at))
            else:
                self.play(lambda play: play.finish(number, path))

    def push(self, branch: str, *files: str) -> None:
        """A push of the first commit, and its runs."""
        self.play(lambda play: play.push(FIRST, branch, files))
        self.end()


def example(name: str) -> Tree:
    folder = EXAMPLES / name
    return read_tree(folder / "expected/.github/workflows", load_spec(folder / "ci-matrix.yaml", shown="spec"))


def touched(shard: Shard, document: Mapping[str, Any]) -> str:
    """A file that a push of the shard's first variant changes."""
    return str(document["on"]["push"]["paths"][0]).replace("**", "a").replace("*", "a")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_push_builds_tests_and_publishes_the_first_variant_of_every_shard(name: str) -> None:
    tree = example(name)
    for shard in tree.plan.shards:
        (build, *_) = [cell.joined for cell, _ in shard.cells]
        first = [cell for cell, _ in shard.cells if build and cell.joined == build]
        chosen = [one.name for cell in first for one in cell.variants] or [shard.variants[0]]
        world = World(
            tree=tree, changed={FIRST: chosen}, environments={tree.spec.publish.environment: Environment(reviewers=True)}
        )
        repository = Repository(world)
        repository.push(shard.branch, touched(shard, tree.files[f"{shard.name}.yml"]))
        runs = [run for run in repository.state.runs if run.file == f"{shard.name}.yml"]
        assert [run.conclusion for run in runs] == [SUCCESS], repository.said
        published = tree.spec.branches[shard.branch].publish and tree.spec.publish.on_push
        assert [one.variant for one in repository.state.published] == (chosen if published else [])
        assert repository.state.wrong == ()
