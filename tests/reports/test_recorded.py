"""The forecast with `history.json`: medians and their spread, how far it was off, and what builds cost."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import Record, Records, Run, Trace
from ci_compiler.reports.accuracy import accuracy
from ci_compiler.reports.costs import HOSTED_JOBS, rounded
from ci_compiler.reports.diff import diff
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.reports.forecast import forecast
from ci_compiler.reports.history import History, history_of, read_history
from ci_compiler.reports.history_file import text_of
from ci_compiler.stages import BUILD, CPU_TEST
from ci_compiler.sync.compiled import compile_files
from tests.histories import NOW, history
from tests.loops import each
from tests.output import checked
from tests.specs import small, spec_of

KEY = ("main", "pytorch-python313-cpu-avx2")
PRICES = {"currency": "EUR", "machine-hour": {"builder": "2.40", "h100": "0.1"}, "hosted-minute": "0.008"}


@pytest.fixture(scope="module")
def decided() -> Plan:
    return plan(spec_of(small()))


def traced(*builds: tuple[int, bool], ends: str = "success") -> Records:
    """A history in which one variant took these seconds; the store had the others."""
    records = [
        Record(
            run=Run(number=at, shard="build-main-cpu", started=NOW - at),
            result="passed",
            ends={"build": ends, "cpu-test": "success"},
            seconds={"build": seconds, "cpu-test": 7 * at},
            built=built,
        )
        for at, (seconds, built) in enumerate(builds, 1)
    ]
    return Records(variants={KEY: Trace(records=tuple(records))})


def test_the_median_of_recorded_builds_and_tests_replaces_the_estimate(decided: Plan) -> None:
    known = history_of(traced((100, True), (300, True), (200, True), (1, False)))
    assert (known.seconds[*KEY, "build"], known.low[*KEY, "build"], known.high[*KEY, "build"]) == (200, 120, 280)
    assert known.seconds[*KEY, "cpu-test"] == 18  # the median of 7, 14, 21 and 28, rounded to the even number
    found = forecast(decided, history=known)
    taken = {job.stage: job.seconds for job in found.jobs if job.key == KEY}
    assert (taken[BUILD], taken[CPU_TEST], found.measured) == (200, 18, 1)


def test_failed_builds_and_those_that_the_store_had_say_nothing_of_the_duration() -> None:
    assert (*KEY, "build") not in history_of(traced((1, False), (2, False))).seconds
    assert (*KEY, "build") not in history_of(traced((900, True), ends="failure")).seconds


def test_the_spread_of_the_whole_is_that_of_every_recorded_job(decided: Plan) -> None:
    found = forecast(decided, history=history_of(history(decided, spread=0.2)))
    assert found.spread is not None
    assert found.spread.least < found.seconds < found.spread.most
    assert found.spread.first_end < found.end < found.spread.last_end
    assert 0.7 < found.spread.least / found.seconds < 0.95
    assert forecast(decided).spread is None
    exact = forecast(decided, history=history_of(history(decided)))
    assert exact.spread is not None
    assert exact.spread.least == exact.seconds == exact.spread.most


# How far it was off.


def test_a_forecast_that_is_always_right_is_off_by_nothing(decided: Plan) -> None:
    found = accuracy(decided, history(decided))
    assert found is not None
    assert found.runs == 5 * len(decided.shards)
    assert found.work == found.time == (0, 0, 0)


def test_the_forecast_of_a_run_knows_only_what_came_before_it(decided: Plan) -> None:
    """Each run takes twice as long as all runs before it, so that each forecast says half."""
    records = history(decided, days=1, every=1, took=lambda job, ago: job.seconds * (1 if ago else 2))
    found = accuracy(decided, records)
    assert found is not None
    assert found.runs == 2 * len(decided.shards)
    assert found.work.low == pytest.approx(-0.5)  # the second runs; the first ones are as the spec says
    assert found.work.high == pytest.approx(0)


def test_only_runs_of_whole_shards_are_compared(decided: Plan) -> None:
    assert accuracy(decided, history(decided, failures=1.0)) is None
    whole = history(decided, days=0)
    [first, *_] = whole.variants
    without = Records(variants={key: trace for key, trace in whole.variants.items() if key != first})
    compared = accuracy(decided, without)
    assert compared is not None
    assert compared.runs == len(decided.shards) - 1
    for change in ({"built": False}, {"run": replace(whole.variants[first].records[0].run, attempt=2)}):
        trace = Trace(records=(replace(whole.variants[first].records[0], **change),))
        compared = accuracy(decided, Records(variants={**whole.variants, first: trace}))
        assert compared is not None
        assert compared.runs == len(decided.shards) - 1


def test_the_command_says_it(tmp_path: Path, decided: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text(json.dumps(small(prices=PRICES)), "utf-8")
    records = history(decided, spread=0.1)
    (tmp_path / "history.json").write_text(text_of(records), "utf-8")
    argv = ["forecast", "--spec", str(tmp_path / "spec.yaml"), "--history", str(tmp_path / "history.json")]
    assert run(PROGRAM, argv) == 0
    out = capsys.readouterr().out
    results = sum(len(trace.records) for trace in records.variants.values())
    assert f"by {results:,} results for 8 variants, the spec's minutes for the others" in out
    assert "from the 10th to the 90th percentile of every recorded job" in out
    assert "in the machine-hours of 10 recorded runs of whole shards" in out
    assert run(PROGRAM, [*argv, "--json"]) == 0
    found = checked("ci-compile forecast", capsys.readouterr().out)
    assert found["off"]["runs"] == 10
    assert found["off"]["work"] == sorted(found["off"]["work"])
    assert found["spread"]["seconds"][0] < found["seconds"] < found["spread"]["seconds"][1]
    assert found["cost"]["currency"] == "EUR"


@pytest.mark.parametrize(("content", "said"), [("{}", "is not a history"), ("<", "is not JSON")])
def test_a_broken_file_is_an_error_with_its_place(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "history.json"
    path.write_text(content, "utf-8")
    with pytest.raises(InputError, match=f"history.json: {said}"):
        read_history(path)


def test_the_manifests_of_a_folder_have_a_spread_too(tmp_path: Path) -> None:
    for seconds in (100, 200, 300):
        (tmp_path / str(seconds)).mkdir()
        manifest = {"name": KEY[1], "branch": KEY[0], "seconds": seconds}
        (tmp_path / str(seconds) / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    found = read_history(tmp_path)
    assert (found.low[*KEY, "build"], found.high[*KEY, "build"], found.source) == (120, 280, "3 manifests")
    assert History().source == ""


# Costs.


def test_costs_are_the_hours_of_each_pool_and_the_minutes_of_hosted_jobs(decided: Plan) -> None:
    priced = plan(spec_of(small(prices=PRICES)))
    found = forecast(priced)
    assert found.bill is not None
    seconds = {one.pool.name: one.seconds for one in found.pools}
    assert found.bill.machines == {
        "builder": Decimal("2.40") * seconds["builder"] / 3600,
        "h100": Decimal("0.1") * seconds["h100"] / 3600,
    }
    assert (found.bill.hosted_minutes, found.bill.hosted) == (
        2 * len(priced.shards),
        Decimal("0.008") * 2 * len(priced.shards),
    )
    assert forecast(decided).bill is None


@pytest.mark.parametrize(
    ("amount", "shown"), [("1234.565", "1,234.57"), ("0.004", "0.00"), ("-0.004", "0.00"), ("-0.005", "-0.01")]
)
def test_an_amount_is_shown_to_the_hundredth(amount: str, shown: str) -> None:
    assert f"{rounded(Decimal(amount)):,}" == shown


def test_the_hosted_jobs_are_those_of_the_compiled_workflow(decided: Plan) -> None:
    files = compile_files(decided)
    for shard in each(decided.shards):
        jobs: dict[str, Any] = yaml.safe_load(files[shard.path])["jobs"]
        called = [yaml.safe_load(files[job["uses"].removeprefix("./")])["jobs"].values() for job in jobs.values()]
        assert sum(job.get("runs-on") == decided.spec.hosted for one in called for job in one) == HOSTED_JOBS


def test_prices_change_no_compiled_file(decided: Plan) -> None:
    assert compile_files(plan(spec_of(small(prices=PRICES)))) == compile_files(decided)


def test_a_difference_says_what_it_costs(decided: Plan) -> None:
    matrix = small()["matrix"] | {"isas": {"x86_64-linux": ["avx2", "avx512", "avx"]}}
    runners = small()["runners"]
    runners["builder"]["cpu"] = ["avx512", "avx"]
    priced = plan(spec_of(small(matrix=matrix, prices=PRICES)))
    text = markdown(diff(decided, priced))
    bill = diff(decided, priced).bill
    assert bill is not None
    assert f"machine-hours ({bill})" in text
    assert "| pool | jobs | machine-hours | cost |" in text
    assert f"{bill.shown(bill.machines['builder'])} |" in text
    assert "EUR" not in markdown(diff(decided, plan(spec_of(small(matrix=matrix)))))
