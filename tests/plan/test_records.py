"""The history of variants: which results are kept, whatever the order in which runs are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from ci_compiler.plan.records import (
    AGAIN,
    DAY,
    ENDED,
    GONE,
    LONGEST,
    MONTHS,
    NEWEST,
    PASSED,
    SUITES,
    Record,
    Records,
    Run,
    Trace,
    kept_of,
    machine_of,
    merged,
    month_of,
)
from tests.histories import compared

NOW = int(datetime(2026, 10, 15, tzinfo=UTC).timestamp())
KEY = ("main", "pytorch-python313-cpu-avx2")


def record(number: int, days_ago: float, result: str = "passed", **more: object) -> Record:
    run = Run(number=number, shard="build-main-cpu", started=NOW - int(days_ago * DAY), seconds=60)
    return Record(run=run, result=result, ends={"build": "success"}, seconds={"build": 60}, **more)  # type: ignore[arg-type]


def of(*records: Record, old: Records | None = None, **more: object) -> Records:
    known = {"variants": {KEY}, "known": (NOW - DAY, NOW)} | more
    return merged(
        old or Records(),
        [{KEY: one} for one in records],
        runs=[one.run for one in records],
        **known,  # type: ignore[arg-type]
    )


RECORDS = st.lists(
    st.tuples(st.integers(1, 500), st.integers(0, 800), st.sampled_from(["passed", "failed"])),
    max_size=80,
    unique_by=lambda one: one[0],
).map(lambda rows: [record(*row) for row in rows])


@given(RECORDS, RECORDS)
@settings(max_examples=60, deadline=None)
def test_what_is_kept_does_not_depend_on_the_order_of_reading(first: list[Record], second: list[Record]) -> None:
    numbers = {one.run.number for one in first}
    second = [one for one in second if one.run.number not in numbers]
    whole = kept_of([*first, *second], NOW)
    assert kept_of([*kept_of(first, NOW), *second], NOW) == whole
    assert kept_of([*second, *kept_of(first, NOW)], NOW) == whole
    assert len(whole) <= NEWEST + MONTHS + 1


def test_the_newest_results_are_kept_and_one_of_each_month_before() -> None:
    daily = [record(number, number) for number in range(500)]
    kept = kept_of(daily, NOW)
    assert [one.run.number for one in kept[:NEWEST]] == list(range(NEWEST))
    older = [datetime.fromtimestamp(one.run.started, tz=UTC) for one in kept[NEWEST:]]
    assert [(one.year, one.month) for one in older] == [
        (2026, 9), (2026, 8), (2026, 7), (2026, 6), (2026, 5), (2026, 4), (2026, 3), (2026, 2), (2026, 1),
        (2025, 12), (2025, 11), (2025, 10),
    ]  # fmt: skip
    assert older[0].day == 21  # the newest that is not among the newest results


def test_a_result_that_passed_stands_for_a_month() -> None:
    months = [record(number, 100 + number, "passed" if number == 3 else "failed") for number in range(6)]
    kept = kept_of([*(record(1000 + number, 1) for number in range(NEWEST)), *months], NOW)
    assert [(one.run.number, one.result) for one in kept[NEWEST:]] == [(3, "passed")]


def test_a_later_attempt_replaces_the_result_of_its_run_and_keeps_its_benchmark() -> None:
    found = compared(KEY[1], "x")
    first = of(record(7, 1, "failed", benchmark=found))
    again = of(record(7, 1, "passed"), old=first)
    assert [(one.result, one.benchmark) for one in again.variants[KEY].records] == [("passed", found)]


def test_variants_that_left_the_spec_are_dropped_after_a_time() -> None:
    there = of(record(7, 1))
    gone = of(old=there, variants=set(), known=(NOW - DAY, NOW + DAY))
    assert gone.variants[KEY].gone == NOW + DAY
    assert of(old=gone, variants={KEY}).variants[KEY].gone == 0
    later = of(old=gone, variants=set(), known=(NOW - DAY, NOW + DAY + GONE - 1))
    assert (later.variants[KEY].gone, len(later.variants)) == (NOW + DAY, 1)
    assert of(old=later, variants=set(), known=(NOW - DAY, NOW + DAY + GONE)).variants == {}


def test_runs_without_a_record_are_kept_while_they_may_be_listed_again() -> None:
    fresh, old = (
        Run(number=number, shard="build-main-cpu", started=NOW - days * DAY) for number, days in ((1, 3), (2, 9))
    )
    known = {"variants": {KEY}, "known": (NOW - DAY, NOW)}
    assert set(merged(Records(), [], runs=[fresh, old], **known).runs) == {1}  # type: ignore[arg-type]
    going = Run(number=3, shard="build-main-cpu", started=NOW - 20 * DAY, going=True)
    found = merged(Records(), [], runs=[old, going], **known)  # type: ignore[arg-type]
    assert (set(found.runs), found.listed_from) == ({2, 3}, going.started)
    lost = Run(number=4, shard="build-main-cpu", started=NOW - 90 * DAY, going=True)
    assert merged(Records(), [], runs=[lost], **known).runs == {}  # type: ignore[arg-type]
    held = Records(through=NOW, runs={4: lost})
    assert held.listed_from == NOW - AGAIN  # it was deleted, or it ended long ago
    assert replace(held, runs={4: replace(lost, started=NOW - LONGEST)}).listed_from == NOW - LONGEST


def at(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())


def test_what_the_files_of_a_history_and_github_say_is_what_the_names_here_stand_for() -> None:
    assert ("passed", "suites", {"success", "failure", "timed_out"}) == (PASSED, SUITES, ENDED)
    assert (NEWEST, MONTHS, DAY) == (24, 12, 24 * 60 * 60)
    assert (AGAIN, LONGEST, GONE) == (7 * DAY, 36 * DAY, 90 * DAY)
    assert machine_of(["x64", "linux", "gpu"]) == "gpu, linux, x64"
    assert machine_of([]) == ""


def test_a_record_has_the_seconds_of_its_stages_together_and_what_is_not_known_is_nothing() -> None:
    one = record(7, 1)
    assert one.total == 60
    assert replace(one, seconds={"build": 60, "cpu-test": 5}).total == 65
    assert replace(one, seconds={}).total == 0
    assert (one.waited, one.built, one.benchmark, one.machines) == (0, True, None, {})
    run = Run(number=7, shard="x", started=0)
    assert (run.attempt, run.going, run.seconds, run.commit) == (1, False, 0, "")
    records = Records(repository="o/r")
    assert (records.since, records.through, records.runs, records.variants) == (0, 0, {}, {})
    assert records.address("github.com", run) == "https://github.com/o/r/actions/runs/7"
    assert Trace(records=()).gone == 0


def test_months_are_counted_from_the_year_0() -> None:
    assert month_of(at(2026, 1, 1)) == 2026 * 12
    assert month_of(at(2026, 1, 1) - 1) == 2025 * 12 + 11
    assert month_of(at(2026, 12, 31)) - month_of(at(2025, 12, 1)) == 12


def test_of_the_months_before_the_newest_results_a_year_is_kept() -> None:
    newest = [record(1000 + number, 0) for number in range(NEWEST)]
    days = {1: at(2025, 10, 1), 2: at(2025, 9, 30), 3: at(2025, 10, 2), 4: at(2024, 10, 5), 5: at(2025, 11, 5)}
    older = [record(number, (NOW - start) / DAY) for number, start in days.items()]
    kept = kept_of([*older, *newest], NOW)
    assert [one.run.number for one in kept[:NEWEST]] == [*range(1000 + NEWEST - 1, 999, -1)]
    assert [one.run.number for one in kept[NEWEST:]] == [5, 3]


def test_the_newest_that_passed_stands_for_a_month_and_else_the_newest() -> None:
    newest = [record(1000 + number, 0) for number in range(NEWEST)]
    rows = [(1, "failed"), (2, "passed"), (3, "passed"), (4, "failed")]
    kept = kept_of([*newest, *(record(number, 50 + number / 10, result) for number, result in rows)], NOW)
    assert [one.run.number for one in kept[NEWEST:]] == [2]
    kept = kept_of([*newest, *(record(number, 50 + number / 10, "failed") for number, _ in rows)], NOW)
    assert [one.run.number for one in kept[NEWEST:]] == [1]


def test_what_is_merged_has_the_time_that_was_read_and_the_runs_of_all_that_is_kept() -> None:
    old = replace(of(record(7, 400), record(8, 300)), repository="o/r")
    found = of(record(9, 1), old=old, variants={KEY, ("main", "other")}, known=(NOW - 5, NOW + 5))
    assert (found.repository, found.since, found.through) == ("o/r", NOW - 5, NOW + 5)
    assert [one.run.number for one in found.variants[KEY].records] == [9, 8, 7]
    assert list(found.runs) == [7, 8, 9]
    assert found.variants.keys() == {KEY}
    again = of(record(7, 400, "failed"), old=found)
    assert [one.result for one in again.variants[KEY].records] == ["passed", "passed", "failed"]


def test_a_run_that_was_read_again_takes_the_place_of_its_first_reading() -> None:
    first = of(record(7, 1))
    run = replace(first.runs[7], attempt=2, going=True)
    assert merged(first, [], runs=[run], variants={KEY}, known=(NOW - DAY, NOW)).runs == {7: run}
