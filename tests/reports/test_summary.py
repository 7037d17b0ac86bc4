"""The table at the end of a run: the results of stages and of test suites, and why nothing was published."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.outside import LARGEST
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import GitHubEvent
from ci_compiler.reports.summary import SummarisedRun, table, unbuilt_request, unfinished
from ci_compiler.stages import CPU_TEST, GPU_TEST
from ci_compiler.workflows.artifacts import MANIFEST_FILE, PUBLISHED, RESULT, artifact_name
from tests.specs import small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx2"
RUN = SummarisedRun(event="workflow_dispatch", ref="main", publish=True)
SUITES = {
    "ops": {"command": "ci/ops.sh", "minutes": 90, "shards": 2, "on": "gpu"},
    "wide": {"command": "ci/wide.sh", "minutes": 45, "on": "gpu", "gpus": 4},
}


@pytest.fixture
def decided() -> Plan:
    return plan(spec_of(small(packages={"pytorch": {"attribute": "torch", "suites": SUITES}, "torchvision": {}})))


def left(results: Path, artifact: str, name: str, **content: Any) -> None:
    """Writes a file of a stage of the variant."""
    path = results / artifact / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"name": NAME, "branch": "main", **content}), "utf-8")


def row(decided: Plan, results: Path, *shards: dict[str, Any]) -> str:
    """The row of the variant, whose stages passed, after these shards of its suites."""
    left(results, f"build-{NAME}@main", "manifest.json")
    for stage in ("cpu-test", "gpu-test"):
        left(results, f"{stage}-{NAME}@main", "result.json", passed=True)
    for index, content in enumerate(shards):
        left(results, f"gpu-test-suites-{index}-{NAME}@main", "suite.json", **content)
    return table(decided, RUN, "main", [NAME], results).splitlines()[-1]


def test_suites_are_listed_with_their_stage(decided: Plan, tmp_path: Path) -> None:
    shown = row(decided, tmp_path, *({"suite": "ops", "passed": True, "failures": []} for _ in range(2)))
    assert "passed; ops: passed; wide: no: no pool for gpu-test on x86\\_64-linux has 4 GPUs" in shown
    assert shown.endswith("| **failed** |")  # publishing left no outcome


def test_an_expected_failure_is_shown_with_its_reason_and_its_date(tmp_path: Path) -> None:
    known = {"test": "ops.fp8*", "because": "FP8 needs driver 580", "until": "2999-12-31"}
    suites = {"ops": {**SUITES["ops"], "junit": "*.xml", "expected-failures": [known]}}
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}}
    shard = {"suite": "ops", "passed": True, "failures": [], "tests": {"passed": 3, "expected to fail": 1}}
    shown = row(plan(spec_of(small(packages=packages))), tmp_path, shard, shard)
    assert "ops: passed, with 2 expected failures: FP8 needs driver 580 (until 2999-12-31)" in shown
    forged = shard | {"tests": {"expected to fail": "|x|"}}
    assert "expected" not in row(plan(spec_of(small(packages=packages))), tmp_path, forged, forged)


def test_a_failed_suite_names_its_failures_and_explains_why_nothing_was_published(
    decided: Plan, tmp_path: Path
) -> None:
    failed = {"suite": "ops", "passed": False, "failures": ["ops.mul: 1 is not 2"]}
    shown = row(decided, tmp_path, {"suite": "ops", "passed": True, "failures": []}, failed)
    assert "passed; ops: **failed** (ops.mul: 1 is not 2)" in shown
    assert shown.endswith("| no: it failed before |")


def broken(results: Path, artifact: str, name: str, text: str) -> None:
    path = results / artifact / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e308", "1" * 4000, "1" * 5000, "-1", "true", '"3"', "[1]"]
)
def test_a_number_that_no_build_writes_is_not_shown(decided: Plan, tmp_path: Path, number: str) -> None:
    row(decided, tmp_path)
    manifest = f'{{"name": "{NAME}", "seconds": {number}, "closure_size": {number}}}'
    broken(tmp_path, f"build-{NAME}@main", "manifest.json", manifest)
    cells = table(decided, RUN, "main", [NAME], tmp_path).splitlines()[-1].split(" | ")
    assert cells[-3:-1] == ["–", "–"]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[]", "7", "\x00", '{"passed": "no"}', '{"passed": 1}']
)
def test_a_result_that_no_stage_writes_is_a_failure(decided: Plan, tmp_path: Path, text: str) -> None:
    row(decided, tmp_path)
    broken(tmp_path, f"cpu-test-{NAME}@main", "result.json", text)
    assert table(decided, RUN, "main", [NAME], tmp_path).splitlines()[-1].split(" | ")[2] == "**failed**"


def test_pipes_and_huge_files_among_the_artifacts_are_not_read(decided: Plan, tmp_path: Path) -> None:
    row(decided, tmp_path)
    pipe = tmp_path / f"cpu-test-{NAME}@main" / "result.json"
    pipe.unlink()
    os.mkfifo(pipe)
    with (tmp_path / f"build-{NAME}@main" / "manifest.json").open("ab") as file:
        file.truncate(LARGEST + 1)
    cells = table(decided, RUN, "main", [NAME], tmp_path).splitlines()[-1].split(" | ")
    assert cells[1:4] == ["**failed**", "not reached", "not reached"]


def test_text_of_an_artifact_mentions_nobody_and_cannot_fill_the_summary(decided: Plan, tmp_path: Path) -> None:
    row(decided, tmp_path)
    (tmp_path / "published").mkdir()
    left(tmp_path, f"published/{NAME}", "published.json", result="ask @org/team \u202egnp.exe " + "1." * 200_000)
    start = time.process_time()
    shown = table(decided, RUN, "main", [NAME], tmp_path).splitlines()[-1].split(" | ")[-1]
    assert time.process_time() - start < 1
    assert shown.startswith("ask `@org/team` gnp.exe 1.")
    assert len(shown) < 320


@pytest.mark.parametrize("failures", [7, "@all", {"a": 1}, [["@all"], None, 3], None])
def test_failures_of_any_form_are_shown(decided: Plan, tmp_path: Path, failures: object) -> None:
    shown = row(decided, tmp_path, {"suite": "ops", "passed": False, "failures": failures})
    assert "ops: **failed**" in shown
    assert "'@all" not in shown


def test_a_suite_with_a_missing_shard_failed(decided: Plan, tmp_path: Path) -> None:
    assert "ops: **failed**;" in row(decided, tmp_path, {"suite": "ops", "passed": True, "failures": []})


def test_a_run_for_several_branches_has_one_table_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU-only variant has the same name on two branches, and each table has its own artifacts."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    name = "pytorch-python313-cpu-avx2"
    left(tmp_path, f"build-{name}@cuda-13_0", "manifest.json", branch="cuda-13_0", seconds=61)
    chosen = json.dumps({"main": [name], "cuda-13_0": [name]})
    assert run(COMPILE, ["summary", str(tmp_path), "--chosen", chosen, "--root", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert f"error: {name}: build and cpu-test left no result in this run" in said.err
    assert "; re-run all jobs [variant-unfinished]\n" in said.err
    main, other = said.out.split("### ")[1:]
    assert main.startswith("main\n")
    assert f"| `{name}` | **failed** |" in main
    assert other.startswith("cuda-13\\_0\n")
    assert f"| `{name}` | passed |" in other
    assert "61 s" in other


# Stages that never ran.


def lacking(decided: Plan, results: Path, run_: SummarisedRun = RUN) -> list[str]:
    """The stages of the variant that left nothing."""
    return [one.message.partition(" left no")[0] for one in unfinished(decided, run_, "main", [NAME], results)]


def test_a_stage_that_left_nothing_is_a_finding(tmp_path: Path) -> None:
    """Jobs that a pause skipped look as if nothing had been to do; a test that failed left its result."""
    fleet = plan(spec_of(small()))
    assert lacking(fleet, tmp_path) == ["build and cpu-test and gpu-test and publish"]
    left(tmp_path, f"build-{NAME}@main", "manifest.json")
    left(tmp_path, f"cpu-test-{NAME}@main", "result.json", passed=False)
    assert lacking(fleet, tmp_path) == ["gpu-test and publish"]
    left(tmp_path, f"gpu-test-{NAME}@main", "result.json", passed=True)
    assert lacking(fleet, tmp_path) == ["publish"]
    for unpublished in (replace(RUN, publish=False), replace(RUN, ref="a-topic")):
        assert lacking(fleet, tmp_path, unpublished) == []
    (tmp_path / "publish-builder").mkdir()
    left(tmp_path, f"publish-builder/{NAME}", "published.json", published=False, result="no: it failed")
    assert lacking(fleet, tmp_path) == []


def test_a_variant_that_is_expected_to_fail_may_leave_nothing(tmp_path: Path) -> None:
    failure = {"variants": "*", "stage": "cpu-test", "because": "a reason", "until": "2999-12-31"}
    assert lacking(plan(spec_of(small(**{"expected-failures": [failure]}))), tmp_path) == []


@pytest.mark.parametrize(("chosen", "status"), [("", 1), ("[]", 0), ("{}", 0)])
def test_a_run_that_lost_what_it_chose_is_not_complete(
    tmp_path: Path, chosen: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(COMPILE, ["summary", str(tmp_path), "--chosen", chosen, "--root", str(tmp_path)]) == status
    assert ("--chosen: is empty" in capsys.readouterr().err) is bool(status)


# Requests of which no machine builds anything.

OWN, STRANGER = "my-org/stack", "a-stranger/stack"
READ_IT = (
    "1 variant is not built: no machine runs the code of a fork; read the code, push it to a branch of my-org/stack, "
    "and open a pull request from there"
)
FORKED = "1 variant is not built: a-stranger/stack is a fork; if its own machines are to build, set `repository`"


def request(head: str, repository: str = OWN, *, fork: bool = False) -> dict[str, Any]:
    """A pull request from the repository `head` into `repository`."""
    base, here = {"ref": "main", "repo": {"full_name": repository}}, {"full_name": repository, "fork": fork}
    return {"repository": here, "pull_request": {"base": base, "head": {"ref": "topic", "repo": {"full_name": head}}}}


GROUP = {"base_ref": "refs/heads/main", "head_ref": "refs/heads/queue", "base_sha": "0" * 40}
NEVER_RAN = f"{NAME}: build and cpu-test and gpu-test left no result in this run"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"pull_request": request(STRANGER)}, READ_IT),
        ({"pull_request": request(STRANGER, STRANGER, fork=True)}, FORKED),
        ({"merge_group": {"merge_group": GROUP, "repository": {"full_name": STRANGER, "fork": True}}}, FORKED),
        ({"pull_request": request(OWN)}, NEVER_RAN),
        ({"merge_group": {"merge_group": GROUP, "repository": {"full_name": OWN, "fork": False}}}, NEVER_RAN),
    ],
)
@pytest.mark.parametrize("chosen", [{"main": [NAME]}, {"main": []}, {}])
def test_the_verdict_on_what_no_machine_builds_is_green_only_where_nothing_is_to_be_built(
    event: dict[str, Any],
    said: str,
    chosen: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ((name, payload),) = event.items()
    (tmp_path / "event.json").write_text(json.dumps(payload), "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", name)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    words = ["summary", str(tmp_path), "--chosen", json.dumps(chosen), "--root", str(tmp_path)]
    wanted = bool(chosen.get("main"))
    assert run(COMPILE, words) == int(wanted)
    lines = capsys.readouterr().err
    assert (said in lines) is wanted
    assert ("[fork-not-built]" in lines) is (wanted and said is not NEVER_RAN)
    shown = (tmp_path / "summary.md").read_text("utf-8")
    assert (said in shown.replace("\\", "")) is (wanted and said is not NEVER_RAN)
    assert ("Nothing was to be built." in shown) is not wanted


@pytest.mark.parametrize(("declared", "builds"), [(STRANGER, True), (STRANGER.upper(), True), (OWN, False)])
def test_a_spec_that_names_its_repository_says_whose_requests_are_built(declared: str, builds: bool) -> None:
    """A repository that is itself a fork may be the one of the spec, and then it builds its own branches."""
    event = GitHubEvent("pull_request", request(STRANGER, STRANGER, fork=True))
    assert (unbuilt_request(spec_of(small(repository=declared)), event, 2) is None) is builds


# The results of stages, without suites.

GPU = [
    f"{package}-python313-cuda12_8-sm90-{isa}" for isa in ("avx2", "avx512") for package in ("pytorch", "torchvision")
]


@pytest.fixture(scope="module")
def usual() -> Plan:
    return plan(spec_of(small()))


def leave(results: Path, name: str, file: str, content: dict[str, Any]) -> None:
    (results / name).mkdir(parents=True, exist_ok=True)
    (results / name / file).write_text(json.dumps(content), "utf-8")


def test_the_table_shows_the_result_of_each_variant(usual: Plan, tmp_path: Path) -> None:
    leave(
        tmp_path,
        artifact_name("build", GPU[0], "main"),
        MANIFEST_FILE,
        {"seconds": 4321, "closure_size": 2_500_000_000},
    )
    for stage in (CPU_TEST, GPU_TEST):
        leave(tmp_path, artifact_name(stage, GPU[0], "main"), RESULT, {"passed": True})
    leave(tmp_path, f"publish-builder/{GPU[0]}", PUBLISHED, {"result": "published 2.8.0"})
    leave(tmp_path, artifact_name("build", GPU[2], "main"), MANIFEST_FILE, {"seconds": 61, "closure_size": 400_000})
    leave(tmp_path, artifact_name("cpu-test", GPU[2], "main"), RESULT, {"passed": False})
    run = SummarisedRun(event="push", ref="main", publish=True)
    lines = table(usual, run, "main", GPU, tmp_path).splitlines()
    assert lines[0] == "| variant | build | cpu-test | gpu-test | time | size | published |"
    assert lines[2] == f"| `{GPU[0]}` | passed | passed | passed | 1 h 12 min | 2.5 GB | published 2.8.0 |"
    assert lines[3] == f"| `{GPU[1]}` | **failed** | not reached | not reached | – | – | no: it failed before |"
    assert lines[4] == f"| `{GPU[2]}` | passed | **failed** | **failed** | 61 s | 400 kB | no: it failed before |"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (SummarisedRun(event="pull_request", ref="9/merge", publish=False), r"no: pull\_request publishes nothing"),
        (SummarisedRun(event="workflow_dispatch", ref="topic", publish=True), "no: the run is at topic, not at main"),
        (SummarisedRun(event="workflow_dispatch", ref="main", publish=False), "no: not asked for"),
    ],
)
def test_the_table_says_why_nothing_was_published(usual: Plan, tmp_path: Path, run: SummarisedRun, said: str) -> None:
    leave(tmp_path, artifact_name("build", GPU[0], "main"), MANIFEST_FILE, {"seconds": 1, "closure_size": 1})
    assert table(usual, run, "main", GPU[:1], tmp_path).splitlines()[2].endswith(f"| {said} |")


def test_the_table_shows_that_no_machine_tests_a_variant(tmp_path: Path) -> None:
    decided = plan(
        spec_of(small(matrix={"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm80": {}}}))
    )
    name = "pytorch-python313-cuda12_8-sm80-avx2"
    leave(tmp_path, artifact_name("build", name, "main"), MANIFEST_FILE, {"seconds": 1, "closure_size": 1})
    text = table(decided, SummarisedRun(event="push", ref="main", publish=True), "main", [name], tmp_path)
    assert "no: no pool for gpu-test on x86\\_64-linux has a GPU that runs sm80 beside a CPU that runs avx2" in text


def test_the_only_artifact_of_a_run_is_read_without_its_folder(usual: Plan, tmp_path: Path) -> None:
    manifest = {"name": GPU[0], "branch": "main", "seconds": 61, "closure_size": 400_000}
    (tmp_path / MANIFEST_FILE).write_text(json.dumps(manifest), "utf-8")
    run = SummarisedRun(event="push", ref="main", publish=True)
    rows = table(usual, run, "main", GPU[:2], tmp_path).splitlines()[2:]
    assert rows[0].startswith(f"| `{GPU[0]}` | passed | **failed** | **failed** | 61 s |")
    assert rows[1].startswith(f"| `{GPU[1]}` | **failed** | not reached |")


def test_nothing_to_build_is_a_sentence(usual: Plan, tmp_path: Path) -> None:
    assert (
        table(usual, SummarisedRun(event="push", ref="main", publish=True), "main", [], tmp_path)
        == "Nothing was to be built.\n"
    )
