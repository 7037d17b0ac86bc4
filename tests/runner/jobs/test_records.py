"""Tests that passed are left out where the binary cache has the record; failed tests always run again."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler.runner.jobs import smoke, suite
from ci_compiler.runner.jobs.publish_run import read_results
from ci_compiler.stages import BUILD, CPU_TEST
from tests.runner.jobs.test_smoke_store import package_recipes
from tests.runner.jobs.world import SPEC, TORCH, World, ci_runner
from tests.runner.machines import known

MANIFEST = ("--manifest", "build-output/manifest.json")
SUITE = {"command": 'echo ran >>"$RAN"; test ! -e fail', "minutes": 1, "shards": 2}
EXPECTED = {"test": "*", "because": "No kernels.", "until": "2999-12-31"}


@pytest.fixture
def cached(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a cache and one build of TORCH, which has a suite that counts its runs in the file `ran`."""
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("haswell"))
    monkeypatch.setenv("RAN", str(world.folder / "ran"))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")

    def make() -> None:
        specify(world)
        package_recipes(world)
        assert world.build() == 0

    world.once("recorded", make)
    return world


def specify(world: World, *, cache: bool = True, **keys: Any) -> None:
    """Writes the spec: TORCH's suite with `keys` replaced, and a cache unless it has none."""
    torch = {"attribute": "torch", "suites": {"unit": SUITE | keys}}
    packages = {"packages": SPEC["packages"] | {"pytorch": torch}}
    world.spec(**packages, **({"cache": world.cache()} if cache else {}))


def smoke_result(*options: str, status: int = 0) -> dict[str, Any]:
    """The result of a smoke test."""
    assert ci_runner("smoke", TORCH, *MANIFEST, *options) == status
    found: dict[str, Any] = json.loads(Path("test-output/result.json").read_text("utf-8"))
    return found


def suite_runs(world: World, *options: str, status: int = 0) -> int:
    """How many times the suite's command ran in all, after one more test of a shard."""
    assert ci_runner("suite", TORCH, "--suite", "unit", *MANIFEST, *options) == status
    return len((world.folder / "ran").read_text("utf-8").splitlines())


def behave(world: World, **behaviour: Any) -> None:
    """Commits a build of TORCH that behaves in another way, and builds it."""
    (world.root / ".flox/pkgs/packages/behaviour.json").write_text(json.dumps(behaviour), "utf-8")
    world.commit()
    assert world.build() == 0


def test_a_smoke_test_that_passed_is_left_out_and_publishing_accepts_it(cached: World) -> None:
    first = smoke_result()
    second = smoke_result()
    assert (first["recorded"], second["recorded"]) == (False, True)
    assert (second["passed"], second["content"], second["reach"]) == (True, first["content"], first["reach"])
    assert "passed before" in cached.summary
    results = Path("results")
    shutil.copytree("build-output", results / "build")
    shutil.copytree("test-output", results / "test")
    manifest = cached.manifest
    files = {BUILD: results / "build/manifest.json", CPU_TEST: results / "test/result.json"}
    digests = {stage: f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for stage, path in files.items()}
    assert read_results(results, "main", manifest["commit"], {TORCH: digests}).passed(TORCH, CPU_TEST)


def test_another_machine_finds_the_record(cached: World) -> None:
    smoke_result()
    cached.use_store("second")
    assert ci_runner("fetch", MANIFEST[1]) == 0
    assert smoke_result()["recorded"] is True


def test_other_content_is_smoke_result(cached: World) -> None:
    first = smoke_result()
    behave(cached, unused=1)
    second = smoke_result()
    assert (second["recorded"], second["content"] != first["content"]) == (False, True)


def test_a_smoke_test_that_failed_runs_again_and_fails_again(cached: World) -> None:
    behave(cached, version="9.9.9")
    for _ in range(2):
        result = smoke_result(status=1)
        assert (result["passed"], result["recorded"]) == (False, False)
    assert "passed before" not in cached.summary


@pytest.mark.usefixtures("cached")
def test_again_runs_what_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoke_result()
    assert smoke_result("--again")["recorded"] is False
    event = tmp_path / "event.json"
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    for again, left_out in (("true", False), (True, False), ("false", True), (None, True)):
        event.write_text(json.dumps({"inputs": {"again": again} if again is not None else None}), "utf-8")
        assert smoke_result()["recorded"] is left_out


@pytest.mark.usefixtures("cached")
def test_a_test_with_another_expectation_runs() -> None:
    smoke_result()
    assert smoke_result("--expect-version", "2.8", status=1)["recorded"] is False


def test_without_a_cache_nothing_is_left_out(cached: World) -> None:
    smoke_result()
    specify(cached, cache=False)
    assert [smoke_result()["recorded"], smoke_result()["recorded"]] == [False, False]


def test_a_machine_that_cannot_write_to_the_cache_says_so_and_tests_again(cached: World) -> None:
    (cached.folder / "cache").rename(cached.folder / "gone")
    (cached.folder / "cache").write_text("not a folder", "utf-8")
    assert [smoke_result()["recorded"], smoke_result()["recorded"]] == [False, False]
    assert "the record cannot be copied to `file://" in cached.summary


def test_a_shard_of_a_suite_that_passed_is_left_out_on_the_same_tree(cached: World) -> None:
    assert suite_runs(cached, "--shard", "1/2") == 1
    assert suite_runs(cached, "--shard", "1/2") == 1
    result = json.loads(Path("test-output/suite.json").read_text("utf-8"))
    assert (result["passed"], result["recorded"]) == (True, True)
    assert "| unit 1/2 | passed before |" in cached.summary
    assert suite_runs(cached, "--shard", "2/2") == 2
    assert suite_runs(cached, "--shard", "1/2", "--again") == 3
    (cached.root / "test_of_the_suite").touch()
    cached.commit()
    assert suite_runs(cached, "--shard", "1/2") == 4


def test_a_suite_in_a_changed_checkout_leaves_no_record(cached: World) -> None:
    (cached.root / ".flox/pkgs/python.nix").write_text("changed", "utf-8")
    assert [suite_runs(cached), suite_runs(cached)] == [1, 2]


def test_a_suite_that_failed_runs_again(cached: World) -> None:
    fail = cached.root / "fail"
    fail.touch()
    assert [suite_runs(cached, status=1), suite_runs(cached, status=1)] == [1, 2]


def test_a_shard_is_not_left_out_once_an_expected_failure_has_expired(
    cached: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = '<testcase classname="a" name="b"><failure/></testcase>'
    command = f"{SUITE['command']}; echo '<testsuite>{case}</testsuite>' >r.xml"
    specify(cached, **{"command": command, "junit": "r.xml", "expected-failures": [EXPECTED]})
    cached.commit()
    assert [suite_runs(cached), suite_runs(cached)] == [1, 1]
    monkeypatch.setattr(suite, "datetime", SimpleNamespace(now=lambda zone: datetime(3000, 1, 1, tzinfo=zone)))
    assert suite_runs(cached, status=1) == 2


def test_a_run_that_may_publish_believes_only_the_records_that_publishing_signed(
    cached: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [smoke_result()["recorded"], smoke_result()["recorded"]] == [False, True]
    assert suite_runs(cached, "--shard", "1/2") == suite_runs(cached, "--shard", "1/2") == 1
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    result = smoke_result()
    assert result["recorded"] is False
    assert suite_runs(cached, "--shard", "1/2") == 2
    results = cached.folder / "results"
    for name in ("cpu-test/result.json", "shard-1/suite.json", "shard-2/suite.json"):
        kind, _, file = name.partition("/")
        shard = kind.removeprefix("shard-")
        assert file == "result.json" or suite_runs(cached, "--shard", f"{shard}/2", "--again") > 0
        (results / kind).mkdir(parents=True)
        shutil.copy(f"test-output/{file}", results / kind)
    cached.key()
    place = ("--branch", "main", "--commit", cached.manifest["commit"], *MANIFEST, "--results", str(results))
    (results / "shard-2").rename(cached.folder / "shard-2")
    assert ci_runner("publish", TORCH, *place) == 1
    (cached.folder / "shard-2").rename(results / "shard-2")
    assert ci_runner("publish", TORCH, *place) == 0
    assert smoke_result()["recorded"] is True
    before = suite_runs(cached, "--shard", "1/2")
    assert suite_runs(cached, "--shard", "2/2") == before
