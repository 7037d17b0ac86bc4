"""What earlier runs completed is left out of a run before a machine is asked: counted over every event that builds."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.summary import SummarisedRun, complete
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.merges import merge_request
from tests.specs import CACHE, small

from .server import serving
from .state import REPOSITORY, TOKEN, GitHub

SHARD, REQUEST = ".github/workflows/build-main-cpu.yml", ".github/workflows/pull-request.yml"
PULL, QUEUE, PUSH, DISPATCH = "pull_request", "merge_group", "push", "workflow_dispatch"

NAME = "pytorch-python313-cpu-avx2"
KEYS = {"builder-keys": ["builder-1:0f8Hk9JvJ9bGmYVvHyuZQ6lZkkYHkS7pq2LZ4wWrbSg="]}


def spec(**changes: Any) -> dict[str, Any]:
    """A spec of two variants, whose builds are taken from machines that sign them."""
    document = small(cache=CACHE["cache"] | KEYS, packages={"pytorch": {"attribute": "torch"}})
    document["branches"]["main"]["versions"] = {"pytorch": "2.8.0"}
    document["matrix"]["gpus"] = {"cpu": {}}
    del document["runners"]["h100"]
    return document | changes


class Fleet:
    """A repository whose builders have keys, and a GitHub that knows of its earlier runs."""

    def __init__(self, root: Path, github: GitHub, patch: pytest.MonkeyPatch) -> None:
        self.root, self.github, self.patch = root / "repository", github, patch
        self.root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("README.md", "The first.\n")
        self.base = self.git("rev-parse", "HEAD")
        self.commit(".github/ci-matrix.yaml", json.dumps(spec()))
        assert run(PROGRAM, ["recipes", "--branch", "main", "--root", str(self.root)]) == 0
        self.commit("src.txt", "The second.\n")
        text = (self.root / ".github/ci-matrix.yaml").read_bytes()
        github.push(compile_files(plan(parse_spec(text, shown="ci-matrix.yaml"))))
        environment = {"GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_RUN_ID": "7"}
        for name, value in environment.items():
            patch.setenv(name, value)
        for name in ("EVENT_PATH", "OUTPUT", "STEP_SUMMARY"):
            patch.setenv(f"GITHUB_{name}", str(root / name))

    def git(self, *words: str) -> str:
        identity = [word for key in ("name", "email") for word in ("-c", f"user.{key}=a@example.com")]
        done = subprocess.run(["git", *identity, *words], cwd=self.root, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")

    def choose(self, event: str, **inputs: str) -> tuple[list[str], str]:
        """The variants that a run of `event` builds, and the name of what it will note."""
        request: dict[str, Any] = {}
        if event == PULL:  # the merge has the tree of its head
            self.git("branch", "--force", "onto", self.base)
            request = merge_request(self.git, self.git("rev-parse", "HEAD"), "onto")
            request["pull_request"]["base"]["ref"] = "main"
        payload: dict[str, Any] = {
            PULL: request,
            QUEUE: {"merge_group": {"base_ref": "refs/heads/main", "head_ref": "refs/heads/q", "base_sha": self.base}},
            PUSH: {"before": self.base, "ref": "refs/heads/main"},
            DISPATCH: {"ref": "refs/heads/main", "inputs": {"variant": "all", **inputs}},
        }
        folder, is_request = self.root.parent, event in {PULL, QUEUE}
        (folder / "EVENT_PATH").write_text(json.dumps(payload[event]), "utf-8")
        (folder / "OUTPUT").write_text("", "utf-8")
        self.patch.setenv("GITHUB_EVENT_NAME", event)
        self.patch.setenv("GITHUB_TOKEN", TOKEN)
        words = ["--pull-request"] if is_request else ["--shard", "build-main-cpu"]
        assert run(PROGRAM, ["choose", *words, "--root", str(self.root)]) == 0
        outputs = dict(line.split("=", 1) for line in (folder / "OUTPUT").read_text("utf-8").splitlines())
        chosen = json.loads(outputs["chosen"])
        return chosen["main"] if is_request else chosen, outputs["complete"]

    def end(self, event: str, name: str, names: list[str], *, publish: bool = False, **more: Any) -> dict[str, Any]:
        """Ends a run of `event` that completed the variants `names`, and notes that in the artifact `name`."""
        head, tree = self.git("rev-parse", "HEAD"), self.git("rev-parse", "HEAD^{tree}")
        content = more.pop("content", json.dumps({"publish": publish, "variants": {"main": names}}))
        path = more.pop("path", REQUEST if event in {PULL, QUEUE} else SHARD)
        entry = self.github.add_run(path, [], event=event, head_sha=head)
        entry["head_repository"] = entry["head_repository"] | {"id": entry["repository"]["id"]}
        entry["head_commit"] = entry["head_commit"] | {"tree_id": more.pop("tree", tree)}
        entry |= more
        self.github.moves.setdefault("refs/heads/main", []).append(head)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("complete.json", content)
        self.github.add_artifact(entry["id"], name, packed.getvalue())
        return entry

    def built(self, event: str, **inputs: str) -> int:
        """How many variants a run of `event` asks machines for. It succeeds, and a push publishes."""
        chosen, name = self.choose(event, **inputs)
        if chosen:
            self.end(event, name, chosen, publish=event == PUSH or inputs.get("publish") == "true")
        return len(chosen)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    with serving(GitHub()) as github:
        yield Fleet(tmp_path, github, monkeypatch)
    assert github.problems == []


def test_the_same_tree_is_built_and_tested_once_per_trust_and_once_more_to_publish(fleet: Fleet) -> None:
    assert [fleet.built(event) for event in (PULL, PULL, QUEUE)] == [2, 0, 0]
    assert [fleet.built(PUSH), fleet.built(DISPATCH), fleet.built(DISPATCH, publish="true")] == [2, 0, 0]
    assert "2 variants left out, which `https://github.com/" in (fleet.root.parent / "STEP_SUMMARY").read_text("utf-8")
    assert [fleet.built(DISPATCH, again="true"), fleet.built(DISPATCH)] == [2, 0]
    before = (fleet.root / "README.md").read_text("utf-8")
    fleet.commit("README.md", "Another.\n")
    assert [fleet.built(DISPATCH), fleet.built(DISPATCH)] == [2, 0]
    assert [fleet.built(DISPATCH, publish="true") for _ in range(2)] == [2, 0]
    fleet.commit("README.md", before)
    assert fleet.built(DISPATCH, publish="true") == 0


@pytest.mark.parametrize(
    ("event", "more"),
    [
        pytest.param(DISPATCH, {"conclusion": "failure"}, id="a run that failed"),
        pytest.param(DISPATCH, {"conclusion": None, "status": "in_progress"}, id="a run that has not ended"),
        pytest.param(DISPATCH, {"tree": "0" * 40}, id="a run of another tree"),
        pytest.param(DISPATCH, {"id": 7}, id="the run itself"),
        pytest.param(DISPATCH, {"path": REQUEST}, id="another workflow"),
        pytest.param(PULL, {}, id="a pull request"),
        pytest.param(PULL, {"path": SHARD}, id="a pull request that triggers the shard"),
        pytest.param(DISPATCH, {"head_branch": "topic"}, id="another branch"),
        pytest.param(DISPATCH, {"content": "[]"}, id="no note"),
        pytest.param(DISPATCH, {"content": '{"publish": true, "variants": {"main": [3]}}'}, id="no names"),
        pytest.param(DISPATCH, {"publish": False}, id="a run that did not publish"),
    ],
)
def test_what_another_run_notes_is_not_left_out(fleet: Fleet, event: str, more: dict[str, Any]) -> None:
    chosen, name = fleet.choose(DISPATCH, publish="true")
    fleet.end(event, name, chosen, **{"publish": True} | more)
    assert fleet.choose(DISPATCH, publish="true") == (chosen, name)


def test_what_a_part_of_the_variants_lacks_is_built(fleet: Fleet) -> None:
    (first, second), name = fleet.choose(PUSH)
    fleet.end(PUSH, name, [first], publish=True)
    assert fleet.choose(PUSH) == ([second], name)


EXPECTED = [{"test": "*", "because": "No kernels.", "until": "2999-12-31"}]
PASSED = {"publish": True, "outcome": {"published": True, "result": "published"}}


@pytest.mark.parametrize(
    ("is_complete", "changes", "run"),
    [
        pytest.param(True, {}, {"publish": False}, id="nothing is published"),
        pytest.param(True, {}, PASSED, id="it is published"),
        pytest.param(True, {}, {"publish": True, "outcome": {"result": "published already: 1.4.0"}}, id="it was"),
        pytest.param(False, {}, {"publish": True, "outcome": {"result": "held back: others fail"}}, id="it waits"),
        pytest.param(False, {}, {"publish": True}, id="no outcome"),
        pytest.param(False, {"cache": CACHE["cache"]}, PASSED, id="the spec does not ask for it"),
        pytest.param(False, {"suites": EXPECTED}, PASSED, id="a failure is excused until a day"),
    ],
)
def test_a_run_notes_what_later_ones_need_nothing_of(
    tmp_path: Path, is_complete: bool, changes: dict[str, Any], run: dict[str, Any]
) -> None:
    changes = dict(changes)
    expected = changes.pop("suites", None)
    document = spec(**changes)
    if expected:
        unit = {"command": "true", "minutes": 1, "junit": "r.xml", "expected-failures": expected}
        document["packages"]["pytorch"]["suites"] = {"unit": unit}
    decided = plan(parse_spec(json.dumps(document).encode(), shown="ci-matrix.yaml"))
    if outcome := run.get("outcome"):
        folder = tmp_path / "publish-builder" / NAME
        folder.mkdir(parents=True)
        (folder / "published.json").write_text(json.dumps(outcome), "utf-8")
    summarised = SummarisedRun(event=DISPATCH, ref="main", publish=run["publish"])
    names = [*complete(decided, summarised, "main", [NAME], tmp_path)]
    assert names == [NAME] * is_complete


def test_without_an_answer_of_github_everything_is_built(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.built(PUSH)
    fleet.github.token = "another"  # noqa: S105
    assert len(fleet.choose(PUSH)[0]) == 2
    assert "; nothing is left out" in capsys.readouterr().err


@pytest.mark.parametrize(("profile", "noted"), [("nightly", False), ("", True)])
def test_a_run_that_leaves_tests_out_by_its_profile_completes_nothing(
    fleet: Fleet, tmp_path: Path, *, profile: str, noted: bool
) -> None:
    document = spec()
    document["profiles"] = {"nightly": {"schedule": {"days": ["sun"]}, "tests": []}}
    fleet.commit(".github/ci-matrix.yaml", json.dumps(document))
    fleet.choose(DISPATCH, **({"profile": profile} if profile else {}))
    results = tmp_path / "results"
    for folder, file in ((f"build-{NAME}@main", "manifest.json"), (f"cpu-test-{NAME}@main", "result.json")):
        (results / folder).mkdir(parents=True)
        (results / folder / file).write_text(json.dumps({"name": NAME, "branch": "main", "passed": True}))
    words = [str(results), "--chosen", json.dumps([NAME]), "--branch", "main", "--publish", "false"]
    assert run(PROGRAM, ["summary", *words, "--note", str(tmp_path / "note"), "--root", str(fleet.root)]) == 0
    assert (tmp_path / "note").exists() == noted
