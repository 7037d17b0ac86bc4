"""`ci-compile start`: releases in waves, and the shards of which something changed, by what GitHub says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.github.dispatch import Terms, orders
from ci_compiler.github.waves import PATH as WAVES
from ci_compiler.github.waves import run_waves
from ci_compiler.plan.limits import Limit
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.sync.compiled import compile_files
from ci_compiler.variant import recipe_path
from tests.specs import STARTED, small, spec_of

from .description import description
from .state import GitHub
from .talk import talk

pytestmark = pytest.mark.usefixtures("commands")

SPEC = ".github/ci-matrix.yaml"


def git(root: Path, *arguments: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *names, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(root: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


def recipe(decided: Plan) -> str:
    return recipe_path(decided.shards[0].variants[0])


@pytest.fixture
def repository(tmp_path: Path, github: GitHub) -> tuple[Path, Plan]:
    root = tmp_path / "repository"
    root.mkdir()
    document = small(backend="nix", profiles=STARTED)
    (root / ".github").mkdir()
    (root / SPEC).write_text(json.dumps(document), "utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    decided = plan(spec_of(document))
    committed(root, "first", **{recipe(decided): "{ }: { }"})
    github.workflows.clear()
    github.push(compile_files(decided))
    return root, decided


def start(root: Path, profile: str) -> int:
    return run(PROGRAM, ["start", profile, "--root", str(root)])


def test_a_batch_builds_what_changed_since_the_last_complete_one(repository: tuple[Path, Plan], github: GitHub) -> None:
    root, decided = repository
    first = git(root, "rev-parse", "HEAD")

    def dispatched() -> dict[str, str]:
        assert start(root, "push") == 0
        new, github.dispatched = github.dispatched, []
        for one in github.runs[len(github.runs) - len(new) :]:
            one["head_sha"] = git(root, "rev-parse", "HEAD")
        assert {one["profile"] for one in new} <= {"push"}
        assert {one["publish"] for one in new} <= {"true"}
        return {one["path"]: one["since"] for one in new}

    def end(conclusion: str) -> None:
        for one in github.runs:
            if one["status"] != "completed":
                one |= {"status": "completed", "conclusion": conclusion}

    assert dispatched() == {shard.path: "0" * 40 for shard in decided.shards}
    assert dispatched() == {}  # they go on
    end("success")
    assert dispatched() == {}  # they are complete
    shard = decided.shards[0]
    second = committed(root, "a recipe", **{recipe(decided): "{ }: { a = 1; }"})
    assert dispatched() == {shard.path: first}
    end("failure")
    assert dispatched() == {}  # not again for the same commit
    git(root, "revert", "--no-edit", "HEAD")
    assert dispatched() == {shard.path: f"{first} {second}"}  # it may have published what is reverted


def test_a_batch_of_more_than_may_start_at_once_goes_in_waves(
    repository: tuple[Path, Plan], github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, decided = repository
    assert len(decided.shards) == 2
    monkeypatch.setattr("ci_compiler.reports.forecast.limit", lambda _: Limit(gate=0, limit=0))
    assert start(root, "push") == 0
    (waves,) = github.dispatched
    assert waves == {
        "path": WAVES,
        "ref": "main",
        "profile": "push",
        "about": "the profile push",
        "publish": "true",
    }
    assert start(root, "push") == 0
    assert github.dispatched == [waves]  # they go on
    first, second = orders(decided)
    tip = description().example("branch-get")["commit"]["sha"]
    title = f"{first.shard.title} (all) push since {'0' * 40}"
    github.add_run(first.shard.path, [], event="workflow_dispatch", display_title=title, head_sha=tip)
    talking = talk(github)
    terms = Terms(publish=True, profile="push", request="77")
    assert not run_waves(talking.client, decided, [[first], [second]], terms, until=talking.clock.at + 1)
    started = github.dispatched[1:]
    assert [(one["path"], one["since"], one["request"]) for one in started] == [(second.shard.path, "0" * 40, "77")]


def test_a_release_is_a_tag_at_the_tip_of_a_branch(
    repository: tuple[Path, Plan], github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    root, _ = repository
    assert start(root, "release") == 2
    assert "a commit with a tag such as v*; this one has no tag" in capsys.readouterr().err
    git(root, "tag", "v1.0")
    assert start(root, "release") == 0
    (one,) = github.dispatched
    assert (one["profile"], one["branch"], one["publish"]) == ("release", "main", "true")
    committed(root, "later", notes="x")
    git(root, "checkout", "--quiet", "v1.0")
    assert start(root, "release") == 2
    assert "v1.0 is at the tip of no branch of the spec" in capsys.readouterr().err


def test_a_profile_that_no_run_is_of_is_an_error(
    repository: tuple[Path, Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(repository[0], "pull-request") == 2
    assert "no run is of the profile 'pull-request'; known are nightly, push, release" in capsys.readouterr().err
