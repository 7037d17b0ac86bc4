"""Publishing the variants of a run: only what passed with all that it needs, each with its own result."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.suites import Bench
from ci_compiler.runner.jobs.manifest import Manifest, read_manifest
from ci_compiler.runner.jobs.publish import PublishCandidate
from ci_compiler.runner.jobs.publish_run import RunResults, candidates
from ci_compiler.stages import CPU_TEST, GPU_TEST, Stage
from tests.runner.jobs.world import PYTHON, TORCH, VISION, World, ci_runner
from tests.specs import small, spec_of


class Results:
    """The artifacts of a run of the small fleet's sm90 AVX2 cell, in which everything passed."""

    def __init__(self, **spec: Any) -> None:
        self.plan = plan(spec_of(small(**spec)))
        self.part = next(
            part for shard in self.plan.shards for part in shard.cells if part[0].suffix.endswith("sm90-avx2")
        )
        self.names = {variant.package: variant.name for variant in self.part[0].variants}
        self.records: list[dict[str, Any]] = []
        self.manifests: dict[str, tuple[Manifest, Path]] = {}
        self.suites: dict[str, set[Bench]] = {}
        for name in self.names.values():
            self.manifests[name] = (manifest(name), Path())
            for stage in (CPU_TEST, GPU_TEST):
                self.record(name, stage)

    def record(self, name: str, stage: Stage, **more: Any) -> None:
        """Adds the record of a test that passed."""
        own = {"name": name, "branch": "main", "stage": stage.name, "content": manifest(name).content, "passed": True}
        self.records.append(own | more)

    def held(self, *chosen: str) -> dict[str, str]:
        """Why each chosen package is not published."""
        found = self.found(*chosen).items()
        return {package: one.because.replace(self.part[0].suffix, "*") for package, one in found}

    def found(self, *chosen: str) -> dict[str, PublishCandidate]:
        """The chosen packages, each as a candidate for publishing."""
        results = RunResults(manifests=self.manifests, records=self.records, suites=self.suites)
        names = [self.names[package] for package in chosen or self.names]
        found = candidates(self.plan.spec, [self.part], names, results)
        return {one.name.partition("-")[0]: one for one in found}


def manifest(name: str, content: str = "0" * 52) -> Any:
    """The manifest of a build, as far as publishing looks at it."""
    path = f"/nix/store/{'a' * 32}-{name}"
    empty: Any = dict.fromkeys(Manifest.__slots__, "")
    return Manifest(**empty | {"name": name, "branch": "main", "closure": {path: f"sha256:{content}"}, "needs": {}})


def test_what_passed_with_all_that_it_needs_is_published() -> None:
    assert Results().held() == {"pytorch": "", "torchvision": ""}


def test_a_torchvision_whose_torch_failed_its_test_is_not_published() -> None:
    results = Results()
    next(one for one in results.records if one["name"] == results.names["pytorch"])["passed"] = False
    reason = "pytorch-* did not pass cpu-test"
    assert results.held() == {"pytorch": reason, "torchvision": reason}


def test_of_a_torch_that_this_run_did_not_build_or_built_otherwise_a_record_must_show_that_it_passed() -> None:
    results = Results()
    torch, vision = results.names["pytorch"], results.names["torchvision"]
    alone = results.found("torchvision")["torchvision"].evidence
    assert (alone.needs, list(alone.elsewhere)) == ({torch: ("cpu-test", "gpu-test")}, [torch])
    assert list(results.found()["torchvision"].evidence.elsewhere) == []
    other = dict.fromkeys(manifest(torch).closure, f"sha256:{'1' * 52}")
    built, folder = results.manifests[vision]
    results.manifests[vision] = (replace(built, closure={**built.closure, **other}), folder)
    results.record(vision, CPU_TEST, content=results.manifests[vision][0].content)
    results.record(vision, GPU_TEST, content=results.manifests[vision][0].content)
    assert list(results.found()["torchvision"].evidence.elsewhere) == [torch]


@pytest.mark.parametrize("tests", [{"cpu-test": "never", "gpu-test": "never"}, {}])
def test_a_package_whose_need_has_no_test_is_published_only_with_a_reason_in_the_spec(tests: dict[str, str]) -> None:
    reason = "no test covers pytorch-*, and the spec does not say why (`untested`)"
    torch, vision = {"attribute": "torch"}, {"needs": ["pytorch"], "untested": "It is a plain wrapper."}
    results = Results(tests=tests, publish={"after": []}, packages={"pytorch": torch, "torchvision": vision})
    assert results.held("torchvision") == {"torchvision": reason}
    assert [one.code.value for one in results.plan.warnings if "pytorch" in one.message] == ["no-test"]
    some = {
        "pytorch": torch | {"untested": {"*-sm90-*": "The machine is away.", "*": "Why not."}},
        "torchvision": vision,
    }
    results = Results(tests=tests, publish={"after": []}, packages=some)
    assert results.held() == {"pytorch": "", "torchvision": ""}
    assert results.found()["pytorch"].evidence.claims == "untested (The machine is away.)"
    assert not [one for one in results.plan.warnings if one.code.value == "no-test"]


@pytest.mark.parametrize("change", [{"content": "sha256:other"}, {"branch": "next"}, {"passed": "yes"}])
def test_only_a_record_of_the_very_content_that_passed_counts(change: dict[str, Any]) -> None:
    results = Results()
    for one in results.records:
        if one["name"] == results.names["torchvision"] and one["stage"] == "gpu-test":
            one.update(change)
    assert results.held() == {"pytorch": "", "torchvision": "torchvision-* did not pass gpu-test"}


def test_a_variant_without_a_build_is_not_published() -> None:
    results = Results()
    del results.manifests[results.names["torchvision"]]
    assert results.held()["torchvision"] == "torchvision-* was not built"


def test_only_the_tests_that_the_spec_names_count() -> None:
    results = Results(publish={"after": ["cpu-test"]})
    results.records = [one for one in results.records if one["stage"] == "cpu-test"]
    assert results.held() == {"pytorch": "", "torchvision": ""}


def test_all_jobs_of_a_suite_must_have_passed() -> None:
    suites = {"ops": {"command": "ci/ops.sh", "minutes": 9, "shards": 2}}
    results = Results(packages={"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}})
    package = results.plan.spec.packages["pytorch"]
    (suite,) = package.suites.values()
    assert results.held()["pytorch"] == "pytorch-* did not pass suite ops"
    results.suites[results.names["pytorch"]] = {Bench(suite.stage, suite.gpus)}
    assert results.held() == {"pytorch": "", "torchvision": ""}


# The command.

JOB = f"python{PYTHON.replace('.', '')}-avx2"
"""The id of the job of the cell."""


@pytest.fixture
def built(world: World) -> World:
    """A build of torch and of torchvision, with tests that passed, as the artifacts of a run."""

    def make() -> None:
        world.spec(backend="flox")
        world.commit()
        for name in (TORCH, VISION):
            assert world.build(name) == 0
            shutil.copytree(world.root / "build-output", world.root / f"results/build-{name}")
            leave_result(world, name, passed=True)
        world.git("checkout", "--quiet", "--detach")

    world.once("run", make)
    world.token()
    return world


def leave_result(world: World, name: str, *, passed: bool, by: str = "") -> None:
    """The result of a test of `name` in the artifact of its own job, or in another."""
    content = read_manifest(world.root / f"results/build-{name}/manifest.json").content
    record = {"name": name, "branch": "main", "stage": "cpu-test", "content": content, "passed": passed}
    folder = world.root / f"results/{by or 'cpu-test-' + name}"
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(json.dumps(record), "utf-8")


def reported(world: World, **changes: str) -> str:
    """The context `needs` with the digests of the files that are there, as the jobs would report them."""
    digests, records = {}, [json.loads(path.read_text("utf-8")) for path in world.root.glob("results/*/result.json")]
    for package, name in (("pytorch", TORCH), ("torchvision", VISION)):
        for stage, file in (("build", "manifest.json"), ("cpu-test", "result.json")):
            content = (world.root / f"results/{stage}-{name}/{file}").read_bytes()
            digests[f"{package}_{stage}"] = f"sha256:{hashlib.sha256(content).hexdigest()}"
    result = "success" if all(record["passed"] for record in records) else "failure"
    return json.dumps({JOB: {"result": result, "outputs": digests | changes}, "select": {"outputs": {}}})


def publish_run(world: World, *more: str, needs: str = "") -> int:
    chosen = json.dumps([TORCH, VISION])
    words = ("build-main-cpu", "--pool", "builder", "--chosen", chosen, "--commit", world.head)
    words += ("--needs", needs or reported(world))
    return ci_runner("publish-run", *words, *more)


def outcomes(world: World) -> dict[str, dict[str, Any]]:
    files = (world.root / "publish-output").glob("*/published.json")
    return {path.parent.name: json.loads(path.read_text("utf-8")) for path in files}


def test_a_run_publishes_all_of_its_variants_one_after_the_other(built: World) -> None:
    assert publish_run(built) == 0
    assert list(built.catalog) == [f"my-org/{TORCH}", f"my-org/{VISION}"]
    assert {name: one["published"] for name, one in outcomes(built).items()} == {TORCH: True, VISION: True}
    assert publish_run(built) == 0
    assert {len(entries) for entries in built.catalog.values()} == {1}
    assert publish_run(built, "--again") == 0
    assert {len(entries) for entries in built.catalog.values()} == {2}


def test_a_variant_that_cannot_be_published_stops_no_other(built: World, capsys: pytest.CaptureFixture[str]) -> None:
    path = built.root / f"results/build-{TORCH}/manifest.json"
    path.write_text(path.read_text("utf-8").replace('"version": "2.8.0"', '"version": "2.7.0"'), "utf-8")
    capsys.readouterr()
    assert publish_run(built) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {TORCH}: was built as version 2.7.0")
    assert f"\n{VISION}: 0.23.0 from main" in said.out
    assert list(built.catalog) == [f"my-org/{VISION}"]
    assert outcomes(built)[TORCH]["result"].startswith("failed: was built as version 2.7.0")


def test_what_is_held_back_is_listed_with_its_reason(built: World, capsys: pytest.CaptureFixture[str]) -> None:
    leave_result(built, TORCH, passed=False)
    capsys.readouterr()
    assert publish_run(built) == 0
    reason = f"{TORCH} did not pass cpu-test"
    assert capsys.readouterr().out.splitlines()[-1] == f"{VISION}: not published: {reason}"
    assert {one["result"] for one in outcomes(built).values()} == {f"no: {reason}"}
    assert built.catalog == {}


def test_another_commit_counts_as_not_built(built: World) -> None:
    built.commit(push=False)
    assert publish_run(built) == 1
    assert {one["result"] for one in outcomes(built).values()} >= {f"no: {TORCH} was not built"}


@pytest.mark.parametrize("missing", ["the artifacts of an earlier attempt", "the results of a skipped test"])
@pytest.mark.parametrize("result", ["success", "skipped", "failure"])
def test_missing_results_that_no_failed_job_explains_fail_the_job(
    built: World, missing: str, result: str, capsys: pytest.CaptureFixture[str]
) -> None:
    skipped = {"pytorch_cpu-test": "", "torchvision_cpu-test": ""} if "skipped" in missing else {}
    needs = json.loads(reported(built, **skipped))
    needs[JOB]["result"] = result
    if not skipped:
        shutil.rmtree(built.root / "results")
    capsys.readouterr()
    assert publish_run(built, needs=json.dumps(needs)) == (0 if result == "failure" else 1)
    said = capsys.readouterr()
    why = "did not pass cpu-test" if skipped else "was not built"
    assert f"{TORCH}: not published: {TORCH} {why}\n" in said.out
    assert (
        f"error: {TORCH}: {TORCH} {why}, and none of its jobs failed; re-run all jobs [variant-unfinished]" in said.err
    ) is (result != "failure")
    assert built.catalog == {}


# What binds it to the builds.


def exchange(world: World, name: str, /, **changes: Any) -> None:
    """Writes another manifest in place of the one of the build of `name`."""
    path = world.root / f"results/build-{name}/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


@pytest.mark.parametrize("digest", ["of the build", "none"])
def test_a_manifest_that_its_build_did_not_report_is_refused(
    built: World, digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if digest == "none":
        needs = reported(built, pytorch_build="")
        message = "and the build reported none"
    else:
        needs = reported(built)
        exchange(built, TORCH, seconds=1.0)
        message = f"not '{json.loads(needs)[JOB]['outputs']['pytorch_build']}'"
    capsys.readouterr()
    assert publish_run(built, needs=needs) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {TORCH}: is not the file that the build wrote: its digest is sha256:")
    assert f", {message} [broken-manifest]\n" in said.err
    assert f"{VISION}: not published: {TORCH} has a manifest that its build did not report" in said.out
    assert outcomes(built)[TORCH]["result"].startswith("failed: is not the file that the build wrote")
    assert built.catalog == {}


def test_a_manifest_of_another_artifact_takes_no_manifests_place(built: World) -> None:
    for folder in ("a-job", "z-job"):
        shutil.copytree(built.root / f"results/build-{TORCH}", built.root / f"results/{folder}")
        path = built.root / f"results/{folder}/manifest.json"
        path.write_text(path.read_text("utf-8").replace('"seconds": ', '"seconds": 1'), "utf-8")
    assert publish_run(built) == 0
    assert list(built.catalog) == [f"my-org/{TORCH}", f"my-org/{VISION}"]


@pytest.mark.parametrize("forged", ["beside", "in place", "for a test that another job reported"])
def test_a_result_that_its_test_did_not_report_proves_nothing(built: World, forged: str) -> None:
    leave_result(built, TORCH, passed=False)
    needs = reported(built)
    leave_result(built, TORCH, passed=True, by={"in place": ""}.get(forged, "a-job"))
    if forged.startswith("for"):
        digest = hashlib.sha256((built.root / "results/a-job/result.json").read_bytes()).hexdigest()
        needs = reported(built, **{"torchvision_cpu-test": f"sha256:{digest}"})
    assert publish_run(built, needs=needs) == 0
    assert outcomes(built)[TORCH]["result"] == f"no: {TORCH} did not pass cpu-test"
    assert built.catalog == {}


def test_a_manifest_that_names_a_foreign_path_stops_no_other_variant(
    built: World, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = json.loads((built.root / f"results/build-{TORCH}/manifest.json").read_text("utf-8"))
    exchange(built, VISION, **{key: torch[key] for key in ("store_path", "outputs", "closure")})
    leave_result(built, VISION, passed=True)
    capsys.readouterr()
    assert publish_run(built) == 1
    said = capsys.readouterr().err
    assert any(f"{VISION}: {path} is not an output of " in said for path in torch["outputs"]), said
    assert list(built.catalog) == [f"my-org/{TORCH}"]
    assert outcomes(built)[VISION]["result"].startswith("failed: ")


def test_the_content_in_the_store_must_be_that_of_the_manifest(
    built: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = built.root / f"results/build-{VISION}/manifest.json"
    own = json.loads(path.read_text("utf-8"))
    exchange(built, VISION, closure=own["closure"] | {own["store_path"]: f"sha256:{'0' * 52}"})
    leave_result(built, VISION, passed=True)
    capsys.readouterr()
    assert publish_run(built) == 1
    assert "[content-differs]" in capsys.readouterr().err
    assert list(built.catalog) == [f"my-org/{TORCH}"]


WRONG_FIELDS: dict[str, Any] = {
    "package": "torchvision",
    "nixpkgs": "1" * 40,
    "backend": "nix",
    "untested": {"cpu-test": "because"},
    "needs": {VISION: f"sha256:{'0' * 64}"},
}


@pytest.mark.parametrize("field", [*WRONG_FIELDS, "unknown package", "derivation", "another's name"])
def test_a_field_that_the_plan_has_otherwise_is_a_finding_of_that_variant_alone(
    built: World, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = json.loads((built.root / f"results/build-{VISION}/manifest.json").read_text("utf-8"))
    key = field.rpartition(" ")[2]
    more = {"unknown package": "nowhere", "derivation": other["derivation"], "another's name": VISION}
    exchange(built, TORCH, **{key: (more | WRONG_FIELDS)[field]})
    leave_result(built, TORCH, passed=True)
    capsys.readouterr()
    assert publish_run(built) == 1
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    assert line.startswith(f"error: {TORCH}: ")
    assert " is not the derivation of " in line or f": states the {key} " in line
    if key != "name":  # else its build did not report it
        assert f"\n{VISION}: 0.23.0 from main" in said.out
        assert list(built.catalog) == [f"my-org/{VISION}"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_nothing_is_written_through_what_an_artifact_brought(built: World, kind: str) -> None:
    """The stand-in for a file of the machine stays as it was, and a pipe that nobody reads stops nothing."""
    kept = built.root / "kept"
    kept.mkdir()
    (kept / "result.json").write_text("{}", "utf-8")
    folder = built.root / f"publish-output/{TORCH}"
    folder.mkdir(parents=True)
    for file in (".published.json.new", "published.json"):
        if kind == "link":
            (folder / file).symlink_to(kept / file)
        else:
            os.mkfifo(folder / file)
    assert publish_run(built) == 0
    assert [path.name for path in kept.iterdir()] == ["result.json"]
    assert outcomes(built)[TORCH]["published"] is True


@pytest.mark.parametrize("needs", ["[]", "{", '{"select": 1}', "[" * 100_000])
def test_needs_of_another_form_is_wrong_input(built: World, needs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish_run(built, needs=needs) == 2
    assert "--needs: is not the JSON of the context `needs`" in capsys.readouterr().err
    assert built.catalog == {}


@pytest.mark.parametrize("job", [{}, {"result": "skipped"}, {"outputs": {}}, {"outputs": None}], ids=str)
def test_a_build_that_reported_nothing_is_not_published(built: World, job: dict[str, Any]) -> None:
    assert publish_run(built, needs=json.dumps({JOB: job})) == 1
    assert built.catalog == {}


def test_an_unknown_pool_is_refused(built: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish_run(built, "--pool", "bilder") == 2
    assert "--pool: unknown pool 'bilder'; did you mean builder?" in capsys.readouterr().err
