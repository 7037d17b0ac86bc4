"""`history.json`: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ci_compiler.github.status import BuildOutcome
from ci_compiler.plan.benchmarks import Gain
from ci_compiler.plan.records import Record, Records, Run, Trace
from ci_compiler.reports.history_file import LARGEST, RESULTS, parsed, text_of
from tests.histories import compared

NAME = "pytorch-python313-cuda12_8-sm90-avx2"


def history() -> Records:
    run = Run(number=19_000_000_001, shard="build-main-sm90", started=1_790_000_000, attempt=2, seconds=9000)
    going = Run(number=19_000_000_002, shard="build-main-sm90", started=1_790_100_000, going=True)
    first = Record(
        run=run,
        result="failed",
        ends={"build": "success", "cpu-test": "timed_out", "suites": "failure"},
        seconds={"build": 7200, "cpu-test": 300},
        waited=40,
        benchmark=compared(NAME, NAME, gpu=Gain(-1.5, 0.25)),
        machines={"cpu-test": "linux, self-hosted"},
    )
    second = Record(run=going, result="running", ends={"build": "running"}, built=False)
    found = Record(run=run, result="passed", ends={"build": "success"}, seconds={"build": 20}, built=False)
    traces = {("main", NAME): Trace(records=(first,)), ("main", "a"): Trace(records=(found,), gone=1_790_000_000)}
    traces["cuda-13_0", "b"] = Trace(records=(second,))
    runs = {run.number: run, going.number: going}
    return Records(repository="my-org/stack", since=1_780_000_000, through=1_790_200_000, runs=runs, variants=traces)


def test_what_is_written_is_read_again() -> None:
    text = text_of(history())
    read = parsed(text.encode())
    second = read.variants["cuda-13_0", "b"].records[0]
    assert (second.ends, second.built) == ({"build": "running"}, True)  # it did not end, so nothing says otherwise
    assert text_of(read) == text
    for key in (("main", NAME), ("main", "a")):
        assert read.variants[key] == history().variants[key]
    assert (read.runs, read.since, read.through) == (history().runs, 1_780_000_000, 1_790_200_000)


def test_several_suites_are_one_column_that_fails_if_one_fails() -> None:
    run = history().runs[19_000_000_001]
    ends = {"build": "success", "gpu-test suites (ops, 1/2)": "success", "gpu-test suites (ops, 2/2)": "failure"}
    one = Record(run=run, result="failed", ends=ends)
    records = Records(runs={run.number: run}, variants={("main", "a"): Trace(records=(one,))})
    [read] = parsed(text_of(records).encode()).variants["main", "a"].records
    assert read.ends == {"build": "success", "suites": "failure"}


def test_the_machine_of_the_last_result_of_each_test_is_kept() -> None:
    runs = [Run(number=at, shard="build-main-sm90", started=at) for at in (3, 2, 1)]
    ends = [{"cpu-test": "cancelled"}, {"cpu-test": "success"}, {"cpu-test": "success"}]
    machines: list[dict[str, str]] = [{}, {"cpu-test": "b"}, {"cpu-test": "a"}]
    every = tuple(
        Record(run=run, result="passed", ends=end, machines=on)
        for run, end, on in zip(runs, ends, machines, strict=True)
    )
    records = Records(runs={run.number: run for run in runs}, variants={("main", "a"): Trace(records=every)})
    read = parsed(text_of(records).encode()).variants["main", "a"].records
    assert [dict(one.machines) for one in read] == [{}, {"cpu-test": "b"}, {}]


def test_the_results_are_those_of_status() -> None:
    assert set(RESULTS) == {one.value for one in BuildOutcome} - {"never"}
    assert len({one[0] for one in RESULTS}) == len(RESULTS)


def changed(change: Callable[[Any], object]) -> bytes:
    content = json.loads(text_of(history()))
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is nested deeper than 100 levels"),
        (b"<html>", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b'{"a": 1}', "is not a history"),
        (b"[]", "is not a history"),
        (b" " * (LARGEST + 1), "is larger than"),
        (changed(lambda one: one.update(schema=2)), "has schema 2, not 1"),
        (changed(lambda one: one.pop("runs")), "lacks"),
        (changed(lambda one: one.update(repository="https://evil.example")), "wrong repository"),
        (changed(lambda one: one["variants"][0].update(name="<img src=x onerror=alert(1)>")), "wrong name"),
        (changed(lambda one: one["variants"][0].update(result="pp")), "wrong columns"),
        (changed(lambda one: one["variants"][0].update(result="x")), "lacks"),
        (changed(lambda one: one["variants"][0].update(ends="s")), "wrong columns"),
        (changed(lambda one: one["variants"][0].update(run=[99])), "lacks"),
        (changed(lambda one: one["variants"][0].update(run=[-1])), "wrong number"),
        (changed(lambda one: one["variants"][0].update(run=[True])), "wrong number"),
        (changed(lambda one: one["variants"][0]["seconds"].update(build=[10**9])), "wrong duration"),
        (changed(lambda one: one["runs"].update(id=["1", "2"])), "wrong number"),
        (changed(lambda one: one["runs"].update(id=[1])), "wrong runs"),
        (changed(lambda one: one.update(variants=[7])), "lacks"),
        *(
            (changed(lambda one, value=value: one["variants"][0].update(machines={"cpu-test": value})), said)
            for value, said in (([1, "<b>"], "machine"), ([-1, "a"], "number"), ([1], "lacks"), (7, "lacks"))
        ),
        *(
            (
                changed(lambda one, value=value: one["variants"][0].update(benchmarks={"19000000001": value})),
                "benchmark",
            )
            for value in (
                {"over": "a", "machine": "", "cpu": ["<b>", 1]},
                {"over": "a", "machine": "", "cpu": [1e7, 1]},
                {"over": "a", "machine": "", "cpu": [1]},
                {"over": "<b>", "machine": "", "cpu": [1, 1]},
                {"over": "a", "machine": "x\n", "cpu": [1, 1]},
                {"over": "a"},
                [1],
                7,
            )
        ),
        (changed(lambda one: one["runs"].update(started=[10**12, 1])), "wrong time"),
        (changed(lambda one: one["runs"].update(started=[10**400, 1])), "has the number 1000"),
        (changed(lambda one: one["runs"].update(started=[float("nan"), 1])), "has the number NaN"),
        (changed(lambda one: one.update(through=10**12)), "wrong time"),
        (changed(lambda one: one["variants"][0].update(gone=10**12)), "wrong time"),
    ],
)
def test_nothing_else_is_read(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parsed(data)


def test_the_names_of_the_spec_are_names_of_the_file() -> None:
    """A history with another name could not be continued."""
    run = history().runs[19_000_000_001]
    for branch, name in (("release/13", "_internal-cpu"), ("v2_0+x", NAME)):
        one = Record(run=run, result="passed", ends={"build": "success"})
        records = Records(runs={run.number: run}, variants={(branch, name): Trace(records=(one,))})
        assert set(parsed(text_of(records).encode()).variants) == {(branch, name)}
