"""The site: `pages.yml` reads the runs of GitHub, and each of its runs continues the history of the one before."""

from __future__ import annotations

import io
import json
import time
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.github.server import serving
from tests.github.state import REPOSITORY as AT_GITHUB
from tests.github.state import TOKEN, GitHub

from .world import PYTHON, TAG

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

SHARD = ".github/workflows/build-main-cpu.yml"
HISTORY = "history.json"
JOBS = ["pages/Deploy", "pages/Write the page"]


def add_run(github: GitHub, workflow: str, age: float, jobs: list[str]) -> int:
    """Adds a run of the default branch that was created `age` seconds ago, and returns its number."""
    started = f"{datetime.fromtimestamp(time.time() - age, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
    more = {"created_at": started, "head_branch": "main", "event": "push", "run_attempt": 1}
    number = int(github.add_run(workflow, [(job, "completed", "success") for job in jobs], **more)["id"])
    times = dict.fromkeys(("created_at", "started_at", "completed_at"), started)
    github.jobs[number] = [job | times for job in github.jobs[number]]
    return number


def keep(github: GitHub, run: Run) -> bytes:
    """Puts the history that `run` uploaded where GitHub has it, and returns it."""
    [file] = (run.artifacts / HISTORY).iterdir()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(file, file.name)
    github.add_artifact(add_run(github, ".github/workflows/pages.yml", 60, []), HISTORY, archive.getvalue())
    return file.read_bytes()


def test_each_run_continues_the_history_of_the_one_before(new_world: NewWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world("nix")
    monkeypatch.setattr("tests.e2e.world.REPOSITORY", AT_GITHUB)  # by which the workflow names it
    with serving(GitHub()) as github:
        files = (world.clone / ".github/workflows").glob("*.yml")
        github.push({f".github/workflows/{one.name}": one.read_text("utf-8") for one in files})
        world.github, world.github_token, github.pages = f"{github.url} {AT_GITHUB}", TOKEN, True
        jobs = [f"{PYTHON} avx / engine / {stage}" for stage in ("build", "cpu-test")]
        first = add_run(github, SHARD, 86400, jobs)
        run = world.dispatch("pages.yml", "main")
        assert (run.status, run.ended("success")) == (0, JOBS)
        published = json.loads(keep(github, run))
        assert published["runs"]["id"] == [first]
        assert {one.name for one in (run.artifacts / "deployed").iterdir()} == {"index.html", "status.html", HISTORY}
        second = add_run(github, SHARD, 3600, jobs)
        github.jobs[first].clear()
        github.asked.clear()
        run = world.dispatch("pages.yml", "main")
        assert (run.status, run.ended("success")) == (0, JOBS)
        continued = json.loads(keep(github, run))
        assert continued["runs"]["id"] == [first, second]
        [row] = [one for one in continued["variants"] if one["name"] == f"engine-{TAG}-cpu-avx"]
        assert row["result"] == "pp"
        read = [path for _, path, _ in github.asked if "/jobs" in path]
        assert [path.split("/runs/")[1].partition("/")[0] for path in read] == [str(second)]
