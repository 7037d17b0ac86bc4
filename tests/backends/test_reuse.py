"""The same inputs are built once: over pull request, queue, push, night and dispatch, within the trust of each."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.attested import subjects
from ci_compiler.runner.jobs.build import Given, build
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.runner.jobs.needed import HandedOver
from ci_compiler.runner.jobs.reuse import inputs_of
from ci_compiler.runner.jobs.setting import Job
from ci_compiler.runner.targets import find
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.backends.project import Project
from tests.backends.wheel import NAME

pytestmark = pytest.mark.slow

SCRIPT = '#!/bin/bash -e\nmkdir -p dist\necho called >>"$COUNT"\ncat src/fastpath.py >dist/made.txt\n'

PULL, QUEUE = ("pull_request", "refs/pull/1/merge"), ("merge_group", "refs/heads/gh-readonly-queue/main/pr-1")
OWN = PUSH, NIGHT, DISPATCH = [(event, "refs/heads/main") for event in ("push", "schedule", "workflow_dispatch")]
BRANCH = ("workflow_dispatch", "refs/heads/topic")
TAG = ("workflow_dispatch", "refs/tags/main")


class Fleet:
    """The project's repository, what its runs kept, and how often its build script ran.

    A run builds on a machine that has nothing but the checkout and what it fetches.
    """

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self._monkeypatch = project, monkeypatch
        self.kept: dict[str, Path] = {}
        self._count = project.root.parent / "count"
        monkeypatch.setenv("COUNT", str(self._count))
        self.declare()

    def declare(self, **command: Any) -> None:
        (self.project.root / "ci/build.sh").write_text(SCRIPT, "utf-8")
        self.project.declare(**{"files": ["dist/*.txt"], "reuse": True, **command})

    def calls(self) -> int:
        return len(self._count.read_text("utf-8").splitlines()) if self._count.exists() else 0

    def run(self, event: tuple[str, str], fetched: Path | None = None, **job: Any) -> Manifest:
        """Builds in a run of `event`; returns the manifest. `fetched` is an output in place of what is kept."""
        root, out = self.project.root, self.project.root / "build-output"
        for name, value in zip(("GITHUB_EVENT_NAME", "GITHUB_REF"), event, strict=True):
            self._monkeypatch.setenv(name, value)
        spec = parse_spec((root / ".github/ci-matrix.yaml").read_bytes(), shown="ci-matrix.yaml")
        for made in ("dist", "build-output"):
            shutil.rmtree(root / made, ignore_errors=True)
        self._monkeypatch.chdir(root)
        work = Job(spec, root, **job)
        wanted = inputs_of(work, [find(spec, NAME, "main")], HandedOver(), os.environ)
        earlier = fetched or next((self.kept[one] for one in wanted if one in self.kept), None)
        manifest, _ = build(work, NAME, "main", out, Given(earlier=earlier))
        if manifest.inputs and event in {*OWN, PULL, QUEUE}:  # as `github.earlier` believes
            self.kept[manifest.inputs] = self.copy(manifest.inputs)
        return manifest

    def copy(self, name: str) -> Path:
        """A copy of the output of the last build."""
        place = self.project.root.parent / "kept" / name
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(self.project.root / "build-output", place))


@pytest.fixture
def fleet(project: Project, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(project, monkeypatch)


def compilations(fleet: Fleet, *events: tuple[str, str]) -> list[int]:
    """How often the script ran in a run of each of `events`, one after the other."""
    found = []
    for event in events:
        before = fleet.calls()
        fleet.run(event)
        found.append(fleet.calls() - before)
    return found


def test_without_the_key_every_run_compiles(fleet: Fleet) -> None:
    fleet.declare(reuse=False)
    assert compilations(fleet, PULL, QUEUE, PUSH, DISPATCH) == [1, 1, 1, 1]
    assert fleet.kept == {}


def test_the_same_inputs_are_compiled_once_per_trust(fleet: Fleet) -> None:
    assert compilations(fleet, PULL, PULL, QUEUE, PUSH, PUSH, NIGHT, DISPATCH, PULL, BRANCH) == [
        *(1, 0, 0),  # a pull request, pushed to without a change of what it reads, and its queue
        *(1, 0, 0, 0),  # merged; then nothing, whatever starts it
        *(0, 0),
    ]


def test_a_request_takes_what_its_branch_built(fleet: Fleet) -> None:
    assert compilations(fleet, PUSH, PULL, QUEUE) == [1, 0, 0]


def test_a_branch_takes_nothing_of_a_request(fleet: Fleet) -> None:
    fleet.run(PULL)
    planted = fleet.copy("planted")
    for event in (PUSH, NIGHT, DISPATCH):
        before = fleet.calls()
        assert fleet.run(event, planted).origin == ""
        assert fleet.calls() == before + 1


def test_a_tag_with_the_name_of_the_branch_is_not_trusted(fleet: Fleet) -> None:
    assert fleet.run(TAG).inputs.startswith("request-")
    assert compilations(fleet, PUSH) == [1]


def test_code_of_a_fork_takes_and_leaves_nothing(fleet: Fleet) -> None:
    fleet.run(PUSH)
    manifest = fleet.run(PULL, fleet.copy("protected"), shared=False)
    assert (manifest.inputs, manifest.origin, fleet.calls()) == ("", "", 2)


def test_the_manifest_says_where_the_files_come_from(fleet: Fleet) -> None:
    first = fleet.run(PUSH)
    fleet.project.write("README.md", "changed\n")
    second = fleet.run(PUSH)
    assert second.commit != first.commit == second.origin
    assert (second.built, second.closure, second.started) == (False, first.closure, first.started)
    assert subjects(second, "sha256:" + "0" * 64).splitlines()[1].endswith(f"@{first.commit}")
    assert fleet.run(PUSH).origin == first.commit
    read = json.loads((fleet.project.root / "build-output/manifest.json").read_text("utf-8"))
    assert read["origin"] == first.commit
    fleet.declare(reuse=False)
    fleet.run(PUSH)
    assert not {"inputs", "origin"} & json.loads((fleet.project.root / "build-output/manifest.json").read_text()).keys()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: one.project.write("src/fastpath.py", "X = 1\n"), id="a source"),
        pytest.param(lambda one: one.project.write("src/new.py", ""), id="a new file"),
        pytest.param(lambda one: one.project.write("ci/build.sh", f"{SCRIPT}# more\n"), id="the script"),
        pytest.param(lambda one: one.declare(env={"LEVEL": "2"}), id="a variable"),
        pytest.param(lambda one: one.declare(files=["dist/made.*"]), id="the files"),
    ],
)
def test_another_input_is_another_build(fleet: Fleet, change: Any) -> None:
    before = fleet.run(PUSH).inputs
    change(fleet)
    assert fleet.run(PUSH, fleet.kept[before]).inputs != before
    assert fleet.calls() == 2


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda folder: (folder / "files/made.txt").write_text("planted\n"), id="another content"),
        pytest.param(lambda folder: (folder / "files/more.txt").write_text("planted\n"), id="another file"),
        pytest.param(lambda folder: (folder / "manifest.json").write_text("{}"), id="no manifest"),
        pytest.param(lambda folder: shutil.rmtree(folder / "files"), id="no files"),
    ],
)
def test_a_build_that_is_not_what_it_states_is_built_again(fleet: Fleet, plant: Any, capsys: Any) -> None:
    kept = fleet.kept[fleet.run(PUSH).inputs]
    plant(kept)
    manifest = fleet.run(PUSH)
    assert (fleet.calls(), manifest.origin) == (2, "")
    assert f"{NAME}: not taken from an earlier run: " in capsys.readouterr().out
    made = fleet.project.root / "build-output/files"
    assert [(one.name, one.read_text("utf-8")) for one in made.iterdir()] == [
        ("made.txt", (fleet.project.root / "src/fastpath.py").read_text("utf-8"))
    ]


def test_the_workflow_looks_before_it_builds_and_marks_afterwards(fleet: Fleet) -> None:
    spec = parse_spec((fleet.project.root / ".github/ci-matrix.yaml").read_bytes(), shown="ci-matrix.yaml")
    files = compile_files(plan(spec))
    job = yaml.safe_load(files[".github/workflows/cell.yml"])["jobs"]["fastpath_build"]
    steps = {step["name"]: step for step in job["steps"]}
    names = list(steps)
    look, fetch, keep = (
        "Look for an earlier build from the same inputs",
        "Fetch the earlier build",
        "Note what it was built from",
    )
    assert [name for name in names if name in {look, fetch, "Build", keep}] == [look, fetch, "Build", keep]
    assert job["permissions"] == {"contents": "read", "actions": "read"}
    tokens = [name for name, step in steps.items() if "github.token" in json.dumps(step)]
    assert tokens == [look, fetch]
    # A folder that is committed under the name of the download is not taken.
    assert steps["Build"]["run"].endswith(' ${EARLIER:+--earlier "$EARLIER"}')
    assert steps["Build"]["env"]["EARLIER"] == "${{ steps.fetched.outcome == 'success' && 'earlier-output' || '' }}"
    assert steps[fetch]["with"]["path"] == "earlier-output"
