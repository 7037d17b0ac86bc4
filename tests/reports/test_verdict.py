"""The verdict on a run with failures: green only if the spec expects each of them, in that very test, today."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.codes import Code
from ci_compiler.github.status import ReportedJob
from ci_compiler.plan.expected import dated_findings
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.sharding import Shard
from ci_compiler.reports.summary import SummarisedRun, table
from ci_compiler.reports.verdict import EndedRun, RunVerdict, judged_run
from ci_compiler.sync.compiled import compile_files
from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.loops import each
from tests.specs import small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx2"
OTHER = "torchvision-python313-cuda12_8-sm90-avx2"
CALLER = "3.13 avx2"
TEST = f"{CALLER} / pytorch / gpu-test"
ENTRY = {
    "variants": "pytorch-*-sm90-avx2",
    "stage": "gpu-test",
    "because": "cuDNN 9.11 has no kernels for it",
    "until": "2026-10-31",
    "issue": "https://github.com/my-org/stack/issues/7",
}
TODAY = "2026-10-01"


def spec(*entries: dict[str, Any]) -> dict[str, Any]:
    return small(**{"expected-failures": [ENTRY | entry for entry in entries]})


@pytest.fixture(scope="module")
def decided() -> Plan:
    return plan(spec_of(spec({})))


def job(name: str = TEST, conclusion: str = "failure", failed: Sequence[str] = ("Test",)) -> ReportedJob:
    return ReportedJob(name=name, status="completed", conclusion=conclusion, steps=dict.fromkeys(failed, "failure"))


def left(results: Path, at: Mapping[str, str] | None = None, **content: Any) -> None:
    """Writes the result of the test, or of the one `at`, as a test that failed does."""
    at = at or {}
    found = {"name": NAME, "branch": "main", "stage": "gpu-test", "passed": False}
    path = results / f"{at.get('stage', 'gpu-test')}-{at.get('name', NAME)}@main" / "result.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**found, **at, **content}), "utf-8")


@pytest.fixture
def failed(tmp_path: Path) -> EndedRun:
    """A run of a shard in which the expected failure occurred, and nothing else."""
    left(tmp_path)
    return EndedRun(
        chosen={"main": (NAME, OTHER)},
        by_branch=False,
        ended=("success", "failure", "skipped"),
        jobs=(job("Select", "success", ()), job(), ReportedJob(name="Verdict", status="in_progress", conclusion="")),
        results=tmp_path,
    )


def refused(verdict: RunVerdict) -> list[str]:
    return [f"{one.place.file}: {one.message} [{one.code}]" for one in verdict.findings]


def test_a_failure_that_the_spec_expects_is_accepted_with_its_reason(decided: Plan, failed: EndedRun) -> None:
    verdict = judged_run(decided, failed, TODAY)
    assert verdict.findings == ()
    issue = ENTRY["issue"]
    assert verdict.expected == (f"{TEST} failed as expected: {ENTRY['because']} (until 2026-10-31, {issue})",)


def test_the_last_day_counts_and_the_day_after_does_not(decided: Plan, failed: EndedRun) -> None:
    assert judged_run(decided, failed, "2026-10-31").findings == ()
    (finding,) = judged_run(decided, failed, "2026-11-01").findings
    assert (finding.code, finding.place.line) == (Code.EXPECTATION_EXPIRED, 1)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (job(conclusion="cancelled"), "ended as cancelled"),
        (job(conclusion="timed_out"), "ended as timed_out"),
        (ReportedJob(name=TEST, status="in_progress", conclusion=""), "ended as in_progress"),
        (job(failed=("Fetch the closure",)), "failed in Fetch the closure, and not in its test"),
        (job(failed=("Test", "Keep the report")), "failed in Test and Keep the report"),
        (job(failed=()), "failed in no step that GitHub lists"),
        (job(f"{CALLER} / pytorch / cpu-test"), "failed, and no failure of it is expected"),
        (job(f"{CALLER} / torchvision / gpu-test"), "failed, and no failure of it is expected"),
        (job("3.13 avx512 / pytorch / gpu-test"), "failed, and is not the test of a variant that was chosen"),
        (job(f"{CALLER} / pytorch / build", failed=("Build",)), "failed, and is not the test of a variant"),
        (job(f"{CALLER} / pytorch / gpu-test suites (ops, 1/1)"), "failed, and is not the test of a variant"),
        (job(f"main {CALLER} / pytorch / gpu-test"), "failed, and is not the test of a variant"),
        (job("Publish on builder"), "failed, and is not the test of a variant"),
    ],
)
def test_any_other_failure_is_refused(decided: Plan, failed: EndedRun, changed: ReportedJob, why: str) -> None:
    (said,) = refused(judged_run(decided, replace(failed, jobs=(changed,)), TODAY))
    assert said.startswith(f"{changed.name}: {why}")
    assert said.endswith("[job-failed]")
    beside = judged_run(decided, replace(failed, jobs=(*failed.jobs[:2], changed)), TODAY)
    assert len(beside.findings) == 1


@pytest.mark.parametrize(
    "content", [{"passed": True}, {"passed": None}, {"name": OTHER}, {"branch": "x"}, {"stage": "cpu-test"}]
)
def test_a_result_that_the_test_did_not_write_is_refused(decided: Plan, failed: EndedRun, content: Any) -> None:
    left(failed.results, **content)
    assert refused(judged_run(decided, failed, TODAY)) == [
        f"{TEST}: left no result of a failed test (result.json) [job-failed]"
    ]


def test_a_missing_result_is_refused(decided: Plan, failed: EndedRun, tmp_path: Path) -> None:
    (gone := tmp_path / "none").mkdir()
    assert len(judged_run(decided, replace(failed, results=gone), TODAY).findings) == 1


def test_a_failure_that_github_does_not_list_is_refused(decided: Plan, failed: EndedRun) -> None:
    for ended in (("failure", "failure"), ("failure", "cancelled"), ("failure", "action_required")):
        assert len(judged_run(decided, replace(failed, ended=ended), TODAY).findings) == 1
    nothing = replace(failed, jobs=(job("Select", "success", ()), job(CALLER, "skipped", ())))
    assert refused(judged_run(decided, nothing, TODAY)) == [
        "the run: has a failed job that GitHub does not list; run it again [job-failed]"
    ]


def test_a_chosen_cell_of_which_github_lists_no_job_is_refused(decided: Plan, failed: EndedRun) -> None:
    """In a pull request all cells are one matrix, whose failure the expected one of another cell would explain."""
    other = NAME.replace("sm90-avx2", "sm90-avx512")
    two = replace(failed, chosen={"main": (NAME, other)})
    assert refused(judged_run(decided, two, TODAY)) == [
        "3.13 avx512: was chosen, and GitHub lists no job of it; run it again [job-failed]"
    ]
    listed = job("3.13 avx512 / pytorch / build", "success", ())
    assert judged_run(decided, replace(two, jobs=(*two.jobs, listed)), TODAY).findings == ()


def filled(text: str, **values: str) -> str:
    """A name with the values of the `matrix` or of the `inputs` in the places of their expressions."""
    return re.sub(r"\$\{\{ \w+\.([\w-]+) \}\}", lambda found: values[found[1].replace("-", "_")], text)


def test_the_names_of_jobs_are_those_of_the_compiled_workflows(tmp_path: Path) -> None:
    """Every test job of every variant is recognized, in the run of its shard and in that of a pull request."""
    listed = {"variants": {"wheelhouse-linux": {"system": "x86_64-linux"}}}
    document = spec({"variants": "*", "stage": "cpu-test"})
    document["packages"]["wheelhouse"] = listed
    document["branches"]["main"]["versions"]["wheelhouse"] = "1.0"
    known = plan(spec_of(document))
    files = {
        Path(path).name: yaml.safe_load(text) for path, text in compile_files(known).items() if "/workflows/" in path
    }
    request, cell, variant = (files[name]["jobs"] for name in ("pull-request.yml", "cell.yml", "variant.yml"))
    for built in each(built_variants(known)):
        name, alone = built.variant.name, bool(built.cell.listed)
        test = (variant["cpu-test"] if alone else cell[f"{built.variant.package}_cpu-test"])["name"]
        left(tmp_path, {"stage": "cpu-test", "name": name})
        shard = files[f"{built.shard.name}.yml"]["jobs"][built.shard.job_id(built.cell)]
        for by_branch, call in ((False, shard), (True, request["listed" if alone else "cells"])):
            caller = filled(call["name"], branch="main", cell=built.cell.suffix, name=name)
            one = job(f"{caller} / {filled(test, cpu_test_name='cpu-test (imported only)')}")
            chosen = {"main": (name,)}
            ended = EndedRun(chosen=chosen, by_branch=by_branch, ended=("failure",), jobs=(one,), results=tmp_path)
            verdict = judged_run(known, ended, TODAY)
            assert (len(verdict.expected), verdict.findings) == (1, ()), one.name
            assert judged_run(known, replace(ended, by_branch=not by_branch), TODAY).findings


def test_a_run_that_chose_nothing_has_no_failure_that_is_expected(decided: Plan, failed: EndedRun) -> None:
    assert judged_run(decided, replace(failed, chosen={}), TODAY).findings


def test_of_several_entries_the_one_that_holds_for_longest_counts(failed: EndedRun) -> None:
    several = plan(spec_of(spec({"until": "2026-09-01"}, {"until": "2026-12-31", "branches": ["main"]}, {})))
    assert "until 2026-12-31" in judged_run(several, failed, TODAY).expected[0]


def test_entries_that_end_soon_or_have_ended_are_announced(decided: Plan) -> None:
    found = {day: [one.code for one in dated_findings(decided.spec, day)] for day in ("2026-10-17", "2026-10-18")}
    assert found == {"2026-10-17": [], "2026-10-18": [Code.EXPECTATION_ENDS]}
    (ends,) = dated_findings(decided.spec, "2026-10-30")
    assert "gpu-test in pytorch-*-sm90-avx2 ends in 1 day, after 2026-10-31" in ends.message
    (ended,) = dated_findings(decided.spec, "2026-11-01")
    assert ended.code is Code.EXPECTATION_EXPIRED


def test_the_table_of_the_run_shows_what_was_expected(decided: Plan, tmp_path: Path) -> None:
    build = tmp_path / f"build-{NAME}@main"
    build.mkdir()
    (build / "manifest.json").write_text(json.dumps({"name": NAME, "branch": "main"}), "utf-8")
    asked = SummarisedRun(event="push", ref="main", publish=True)
    left(tmp_path)
    row = table(decided, asked, "main", [NAME], tmp_path).splitlines()[-1]
    assert f"**failed**, expected: {ENTRY['because']} (until 2026-10-31" in row
    assert row.endswith("| no: it failed before |")
    left(tmp_path, passed=True)
    assert "passed; **passes again**: remove" in table(decided, asked, "main", [NAME], tmp_path)


# The command.


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as served:
        yield served


@pytest.fixture
def options(github: GitHub, failed: EndedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options for the run of the shard, in a repository whose commit has the spec."""
    document = spec({"until": "2999-12-31"})
    compiled = plan(spec_of(document))
    github.push(compile_files(compiled))
    shard = _shard(compiled)
    steps = [{"name": "Test", "status": "completed", "conclusion": "failure", "number": 4}]
    ended = {"status": "completed", "conclusion": "failure", "created_at": "2026-10-01T12:00:00Z"}
    github.record([{"workflow": shard.path, "jobs": [{"name": TEST, **ended, "steps": steps}]}])
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    root = tmp_path / "root"
    (root / ".github").mkdir(parents=True)
    (root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    number = github.runs[0]["id"]
    of_run = ["--ended", "success failure", "--run-id", str(number), "--root", str(root)]
    return ["verdict", str(failed.results), "--chosen", json.dumps([NAME]), "--branch", "main", *of_run]


def _shard(decided: Plan) -> Shard:
    return next(shard for shard in decided.shards if NAME in shard.variants)


def test_the_command_accepts_what_is_expected(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAM, options) == 0
    assert capsys.readouterr().out.startswith(f"{TEST} failed as expected: ")
    assert (tmp_path / "summary.md").read_text("utf-8").startswith(f"- {TEST} failed as expected: ")


def test_the_command_refuses_what_is_not_and_reads_the_spec_of_the_commit(
    options: list[str], github: GitHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An artifact that got into the checkout does not change what is expected."""
    github.jobs[github.runs[0]["id"]][0]["name"] = f"{CALLER} / pytorch / cpu-test"
    forged = json.dumps(spec({"until": "2999-12-31"}, {"until": "2999-12-31", "stage": "cpu-test"}))
    (tmp_path / "root/.github/ci-matrix.yaml").write_text(forged, "utf-8")
    assert run(PROGRAM, options) == 1
    said = f"{CALLER} / pytorch / cpu-test: failed, and no failure of it is expected [job-failed]"
    assert capsys.readouterr() == ("", f"error: {said}\n")
    assert "no failure of it is expected" in (tmp_path / "summary.md").read_text("utf-8")


def test_the_command_refuses_a_run_that_is_no_number(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options[options.index("--run-id") + 1] = "7/jobs"
    assert run(PROGRAM, options) == 2
    assert "'7/jobs' is not the id of a run" in capsys.readouterr().err
