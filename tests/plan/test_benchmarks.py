"""The stage that measures: off until the spec switches it on, then on the machines of the tests, beside a neighbour."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.benchmarks import (
    BenchmarkResult,
    Gain,
    in_words,
    kept,
    of_kept,
    over,
    read_benchmark,
)
from ci_compiler.plan.document import document as plan_document
from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.proof import is_imported_only
from ci_compiler.reports.forecast import forecast
from ci_compiler.reports.summary import SummarisedRun, table
from ci_compiler.stages import BENCHMARK, CPU_TEST, GPU_TEST, PUBLISH
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.artifacts import BENCHMARK as FILE
from ci_compiler.workflows.artifacts import MANIFEST_FILE, RESULT, artifact_name
from tests.specs import small, spec_of

ON = {"benchmark": "where-routed"}
NAME = "pytorch-python313-{}"


def measuring(**changes: Any) -> Plan:
    """The small spec with GPUs of one family, one of which the older one's code runs on, and the stage switched on."""
    gpus = {"cpu": {}, "sm80": {}, "sm86": {"isas": ["avx512"]}}
    isas = {"x86_64-linux": ["avx2", "avx512"]}
    runners = {
        "builder": {"runs-on": ["self-hosted", "linux", "x64", "nix-builder"], "cpu": ["avx512"], "count": 2},
        "a40": {"runs-on": ["self-hosted", "linux", "x64", "gpu-sm86"], "gpu": "sm86", "cpu": ["avx512"]},
    }
    own: dict[str, Any] = {"matrix": {"python": ["3.13"], "isas": isas, "gpus": gpus}, "runners": runners, "tests": ON}
    return plan(spec_of(small(**(own | changes))))


def beside(decided: Plan) -> dict[str, tuple[str, str]]:
    """The pool that measures each cell, and the cell of its neighbour ('' for none)."""
    return {
        cell.suffix: (route.pools[BENCHMARK].name, route.neighbours.get(BENCHMARK, ""))
        for cell, route in zip(decided.judged.cells, decided.routes, strict=True)
        if BENCHMARK in route.pools
    }


def test_the_neighbour_is_of_the_smaller_isa_else_of_the_older_gpu_on_the_pools_of_the_tests() -> None:
    of_gpu = "python313-cuda12_8-{}"
    assert beside(measuring()) == {
        "python313-cpu-avx2": ("builder", ""),
        "python313-cpu-avx512": ("builder", "python313-cpu-avx2"),
        of_gpu.format("sm80-avx2"): ("a40", ""),
        of_gpu.format("sm80-avx512"): ("a40", of_gpu.format("sm80-avx2")),
        of_gpu.format("sm86-avx512"): ("a40", of_gpu.format("sm80-avx512")),
    }


def test_it_is_off_until_a_spec_switches_it_on_and_then_nothing_else_changes() -> None:
    off, never = measuring(tests={}), measuring(tests={"benchmark": "never"})
    assert compile_files(off) == compile_files(never)
    said = json.dumps(plan_document(off)) + "".join(compile_files(off).values())
    assert "benchmark" not in said
    assert "benchmark" not in dict(explain(off, NAME.format("cpu-avx2")).built[0].stages())
    on = measuring()
    for before, after in zip(off.routes, on.routes, strict=True):
        own, others = ({stage: pool.name for stage, pool in route.pools.items()} for route in (after, before))
        assert own == others | {BENCHMARK: own[BENCHMARK]}
    assert [pool.stages for pool in off.spec.pools] == [
        tuple(stage for stage in pool.stages if stage is not BENCHMARK) for pool in on.spec.pools
    ]


def test_a_pool_that_lists_its_stages_measures_if_it_says_so() -> None:
    runners = small()["runners"]
    runners["h100"]["stages"] = ["gpu-test"]
    matrix = small()["matrix"]
    assert {pool for pool, _ in beside(measuring(runners=runners, matrix=matrix)).values()} == {"builder"}
    runners["h100"]["stages"] = ["gpu-test", "benchmark"]
    assert {pool for pool, _ in beside(measuring(runners=runners, matrix=matrix)).values()} == {"builder", "h100"}


def test_explain_says_where_and_beside_what_it_is_measured() -> None:
    stages = dict(explain(measuring(), NAME.format("cpu-avx512")).built[0].stages())
    pool = "builder (self-hosted, linux, x64, nix-builder)"
    assert stages["benchmark"] == f"{pool}, beside {NAME.format('cpu-avx2')}"


def test_it_proves_nothing_and_publishing_waits_for_its_job() -> None:
    decided = measuring(packages={"odd": {}}, branches=small()["branches"] | _odd())
    package = decided.spec.packages["odd"]
    assert is_imported_only(decided.spec, package, CPU_TEST)
    assert not is_imported_only(decided.spec, package, BENCHMARK)
    assert BENCHMARK not in decided.spec.publish.after
    jobs = jobs_of(decided.spec, decided.shards)
    first = next(job for job in jobs if job.stage is PUBLISH)
    assert BENCHMARK in {jobs[need].stage for need in first.needs}


def _odd() -> dict[str, Any]:
    return {"main": small()["branches"]["main"] | {"versions": {"odd": "1.0"}}}


def test_the_forecast_counts_it_for_a_full_build_and_not_for_a_pull_request() -> None:
    on, off = forecast(measuring()), forecast(measuring(tests={}))
    assert on.seconds - off.seconds == 15 * 60 * len([job for job in on.jobs if job.stage is BENCHMARK]) > 0
    assert on.pull_request == off.pull_request


@pytest.mark.parametrize(
    ("event", "cpu", "result", "said"),
    [
        ("push", True, {"passed": True}, "avx512 over avx2: +0.4 % ± 0.6"),
        ("push", True, {"passed": False}, "**failed**; avx512 over avx2: +0.4 % ± 0.6"),
        ("push", True, {"passed": True, "percent": 10**400}, "passed"),  # a number that no float holds
        ("push", True, {}, "**failed**; avx512 over avx2: +0.4 % ± 0.6"),
        ("push", False, {}, "not reached"),
        ("pull_request", True, {}, "no: pull requests do not run benchmark"),
        ("merge_group", True, {}, "no: pull requests do not run benchmark"),
    ],
)
def test_the_table_of_a_run_shows_what_it_found(
    tmp_path: Path, event: str, cpu: bool, result: dict[str, Any], said: str
) -> None:
    name = NAME.format("cpu-avx512")
    found = {"name": name, "branch": "main", "schema": 1, "beside": NAME.format("cpu-avx2"), "machine": {"cpu": "x"}}
    gains = {"overall": {"cpu": {"percent": result.pop("percent", 0.42), "error": 0.6}}}
    for stage, file, content in (
        ("build", MANIFEST_FILE, {"seconds": 60, "closure_size": 1}),
        (CPU_TEST, RESULT, {"passed": cpu}),
        (BENCHMARK, RESULT, result),
        (BENCHMARK, FILE, found | gains),
    ):
        folder = tmp_path / artifact_name(stage, name, "main")
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content), "utf-8")
    run = SummarisedRun(event=event, ref="main", publish=False)
    lines = table(measuring(), run, "main", [name], tmp_path).splitlines()
    head, row = ([cell.strip() for cell in lines[at].strip("|").split(" | ")] for at in (0, 2))
    assert head[:5] == ["variant", "build", "cpu-test", "gpu-test", "benchmark"]
    assert row[4] == said


def test_a_route_of_a_request_leaves_it_out_and_nothing_else() -> None:
    for route in measuring().routes:
        asked = route.of_request(())
        assert asked.pools == {stage: pool for stage, pool in route.pools.items() if stage is not BENCHMARK}
        assert not asked.neighbours
        assert asked.suites == route.suites
    route = measuring(tests={}).routes[0]
    assert route.of_request(()) is route
    assert GPU_TEST.in_requests


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        (NAME.format("cuda12_8-sm90-avx512"), NAME.format("cuda12_8-sm90-avx2"), "avx512 over avx2"),
        (NAME.format("cuda12_8-sm86-avx2"), NAME.format("cuda12_8-sm80-avx2"), "sm86 over sm80"),
        (NAME.format("cuda12_8-sm86-avx2"), NAME.format("cuda12_8-sm80-avx"), "sm86 avx2 over sm80 avx"),
        (NAME.format("cpu-avx2"), NAME.format("cpu-avx2"), "this build over the last publication"),
        ("a-wheel", "another", "a-wheel over another"),
    ],
)
def test_two_builds_in_words(name: str, other: str, said: str) -> None:
    assert over(name, other) == said


# What its file says.

AVX512, AVX2 = NAME.format("cpu-avx512"), NAME.format("cpu-avx2")
GAIN = {"percent": 1.25, "error": -0.5}
CONTENT = {
    "schema": 1,
    "name": AVX512,
    "branch": "main",
    "beside": AVX2,
    "machine": {"cpu": "EPYC", "gpu": "H100"},
    "overall": {"cpu": GAIN, "gpu": {"percent": -3, "error": 0}, "tpu": GAIN},
}
RESULT_OF_CONTENT = BenchmarkResult(
    name=AVX512, branch="main", beside=AVX2, machine="EPYC, H100", gains={"cpu": Gain(1.25, 0.5), "gpu": Gain(-3, 0)}
)


def test_the_file_of_a_benchmark_is_read() -> None:
    assert read_benchmark(CONTENT) == RESULT_OF_CONTENT
    assert str(RESULT_OF_CONTENT) == "avx512 over avx2: CPU +1.2 % ± 0.5, GPU -3.0 % ± 0.0"
    alone = read_benchmark(CONTENT | {"beside": None, "machine": {"cpu": "", "gpu": "H100"}})
    assert alone == BenchmarkResult(name=AVX512, branch="main", beside="", gains={}, machine="H100")
    assert (alone.over, str(alone)) == ("", "measured alone")
    least = read_benchmark({key: CONTENT[key] for key in ("schema", "name", "branch")} | {"machine": {}})
    assert least == BenchmarkResult(name=AVX512, branch="main", beside="", gains={}, machine="")


LONG = "x" * 200


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({"schema": 2}, False),
        ({"schema": "1"}, False),
        ({"name": "a/b"}, False),
        ({"name": ""}, False),
        ({"name": 7}, False),
        ({"name": LONG}, True),
        ({"name": f"{LONG}x"}, False),
        ({"beside": "a b"}, False),
        ({"beside": 7}, False),
        ({"branch": LONG}, True),
        ({"branch": f"{LONG}x"}, False),
        ({"branch": "a\nb"}, False),
        ({"branch": None}, False),
        ({"machine": {"cpu": LONG, "gpu": LONG}}, True),
        ({"machine": {"cpu": "\x1b[0m"}}, False),
        ({"machine": {"gpu": 7}}, False),
        ({"machine": "EPYC"}, False),
        ({"overall": None}, True),
        ({"overall": {"cpu": {"percent": 1_000_000, "error": -1_000_000.0}}}, True),
        ({"overall": {"cpu": {"percent": 1_000_001, "error": 0}}}, False),
        ({"overall": {"cpu": {"percent": 0, "error": -1_000_001}}}, False),
        ({"overall": {"cpu": {"percent": float("nan"), "error": 0}}}, False),
        ({"overall": {"cpu": {"percent": float("inf"), "error": 0}}}, False),
        ({"overall": {"cpu": {"percent": True, "error": 0}}}, False),
        ({"overall": {"cpu": {"percent": "1", "error": 0}}}, False),
        ({"overall": {"cpu": {"percent": 1}}}, False),
        ({"overall": {"cpu": [1, 2]}}, False),
        ({"overall": {"gpu": {}}}, True),
        ({"beside": "", "overall": {"cpu": {"percent": "1"}}}, True),
    ],
)
def test_nothing_of_another_form_is_believed(changes: dict[str, Any], *, accepted: bool) -> None:
    assert (read_benchmark(CONTENT | changes) is not None) is accepted


@pytest.mark.parametrize("content", [None, [], "x", 7, {}, {"schema": 1}, {**CONTENT, "machine": None}])
def test_what_is_no_file_of_a_benchmark_has_no_result(content: object) -> None:
    assert read_benchmark(content) is None


@pytest.mark.parametrize("key", ["name", "branch", "machine"])
def test_a_file_without_a_key_has_no_result(key: str) -> None:
    assert read_benchmark({name: value for name, value in CONTENT.items() if name != key}) is None


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({}, ""),
        ({"tpu": "x"}, ""),
        ({"gpu": "+1 %"}, "a over b: +1 %"),
        ({"gpu": "+1 %", "cpu": "-1 %"}, "a over b: CPU -1 %, GPU +1 %"),
    ],
)
def test_a_gain_in_words_names_the_device_where_there_are_two(gains: dict[str, object], said: str) -> None:
    assert in_words("a over b", gains) == said


@pytest.mark.parametrize(
    ("percent", "said"),
    [(0.04, "+0.0 % ± 0.1"), (-0.04, "+0.0 % ± 0.1"), (-1.26, "-1.3 % ± 0.1"), (12, "+12.0 % ± 0.1")],
)
def test_a_gain_has_a_sign_and_one_digit(percent: float, said: str) -> None:
    assert str(Gain(percent, 0.1)) == said


def test_the_history_keeps_hundredths_of_a_percent_and_gives_them_back() -> None:
    stored = kept(replace(RESULT_OF_CONTENT, gains={"cpu": Gain(1.254, 0.506)}))
    assert stored == {"over": AVX2, "machine": "EPYC, H100", "cpu": [1.25, 0.51]}
    again = of_kept(AVX512, "main", stored)
    assert again == replace(RESULT_OF_CONTENT, gains={"cpu": Gain(1.25, 0.51)})
    longest = stored | {"machine": f"{LONG}, {LONG}"}
    assert of_kept(AVX512, "main", longest).machine == longest["machine"]


@pytest.mark.parametrize(
    "changes",
    [
        {"over": "a/b"},
        {"over": "x" * 201},
        {"machine": "x" * 403},
        {"machine": None},
        {"cpu": [1]},
        {"cpu": [1, 2, 3]},
        {"gpu": ["1", 2]},
    ],
)
def test_what_a_history_has_of_another_form_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        of_kept(AVX512, "main", {**kept(RESULT_OF_CONTENT), **changes})
