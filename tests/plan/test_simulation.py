"""The simulator against known optima, its own bounds, and the constraints of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ci_compiler.plan.simulation import QueueOrder, TimedJob, Timeline, critical_path, lower_bound, simulate
from tests.loops import each

POOLS = ("a", "b", "c")
patient = settings(deadline=None)


def row(*seconds: int, pool: str = "a") -> list[TimedJob]:
    return [TimedJob(pool=pool, seconds=one) for one in seconds]


def chain(*jobs: tuple[str, int]) -> list[TimedJob]:
    return [
        TimedJob(pool=pool, seconds=one, needs=(index - 1,) if index else ()) for index, (pool, one) in enumerate(jobs)
    ]


@pytest.mark.parametrize(
    ("jobs", "machines", "optimum"),
    [
        ([], {"a": 1}, 0),
        (row(5), {"a": 9}, 5),
        (row(5, 6, 7), {"a": 1}, 18),
        (row(*[7] * 10), {"a": 3}, 28),
        (row(4, 4, 2, 2, 2), {"a": 2}, 8),
        (chain(("a", 3), ("b", 4), ("a", 5)), {"a": 1, "b": 1}, 12),
        (row(9) + row(4, 4, pool="b"), {"a": 1, "b": 2}, 9),
        # Two pools in sequence: the second starts as early as it can and never waits again.
        ([j for i in range(5) for j in (TimedJob(pool="a", seconds=2), TimedJob(pool="b", seconds=3, needs=(2 * i,)))],
         {"a": 1, "b": 1}, 17),
    ],
)  # fmt: skip
def test_a_case_with_a_known_optimum_reaches_it(jobs: list[TimedJob], machines: dict[str, int], optimum: int) -> None:
    assert simulate(jobs, machines).end == optimum
    assert simulate(jobs, machines, QueueOrder.LONGEST).end == optimum
    assert lower_bound(jobs, machines).seconds <= optimum


def test_a_long_job_listed_last_ends_late_unless_longest_jobs_go_first() -> None:
    jobs = row(1, 1, 1, 1, 4)
    assert simulate(jobs, {"a": 2}).end == 6
    assert simulate(jobs, {"a": 2}, QueueOrder.LONGEST).end == 4 == lower_bound(jobs, {"a": 2}).seconds


def test_the_job_that_is_ready_first_runs_first_wherever_it_is_listed() -> None:
    # Job 1 is listed before 2 and 3 but is ready only at second 5, so it runs after them.
    jobs = [*chain(("a", 5), ("a", 1)), *row(3, 3)]
    found = simulate(jobs, {"a": 1})
    assert found.starts == (0, 11, 5, 8)
    assert found.ready == (0, 5, 0, 0)
    assert found.longest_wait == 8


def test_the_orders_have_the_names_that_documents_use() -> None:
    assert list(QueueOrder) == ["ready", "longest"]


def test_jobs_take_the_free_machine_with_the_lowest_number() -> None:
    assert simulate(row(3, 1, 1), {"a": 3}).machines == (0, 1, 2)
    assert simulate(row(3, 1, 1, 1), {"a": 2}).machines == (0, 1, 1, 1)
    assert simulate([], {"a": 1}).longest_wait == 0


def test_a_job_is_ready_after_the_last_of_those_that_it_needs() -> None:
    jobs = [*row(1, 5), TimedJob(pool="a", seconds=2, needs=(0, 1)), TimedJob(pool="a", seconds=1, needs=(0,))]
    found = simulate(jobs, {"a": 3})
    assert (found.ready, found.starts, found.end) == ((0, 0, 5, 1), (0, 0, 5, 1), 7)
    assert critical_path(jobs) == (1, 2)
    assert lower_bound(jobs, {"a": 3}).seconds == 7


def test_the_bound_of_a_pool_includes_the_work_before_and_after_it() -> None:
    jobs = [
        job for i in range(4) for job in (TimedJob(pool="b", seconds=10), TimedJob(pool="a", seconds=6, needs=(2 * i,)))
    ]
    bound = lower_bound(jobs, {"a": 1, "b": 4})
    assert (bound.pools, bound.chain, bound.seconds, bound.pool) == ({"a": 34, "b": 16}, 16, 34, "a")
    assert lower_bound(jobs, {"a": 4, "b": 4}).pool == ""


def test_the_critical_path_is_the_longest_chain() -> None:
    jobs = [
        *chain(("a", 5), ("b", 1)),
        TimedJob(pool="a", seconds=2, needs=(0,)),
        TimedJob(pool="b", seconds=9, needs=(1, 2)),
    ]
    assert critical_path(jobs) == (0, 2, 3)
    assert critical_path([]) == ()


@pytest.mark.parametrize(
    ("jobs", "machines"),
    [
        (row(1), {}),
        (row(1), {"a": 0}),
        ([TimedJob(pool="a", seconds=-1)], {"a": 1}),
        ([TimedJob(pool="a", seconds=1, needs=(0,))], {"a": 1}),
        ([TimedJob(pool="a", seconds=1, needs=(1,)), TimedJob(pool="a", seconds=1)], {"a": 1}),
        ([TimedJob(pool="a", seconds=1, needs=(-1,))], {"a": 1}),
    ],
)
def test_jobs_that_can_never_run_are_refused(jobs: list[TimedJob], machines: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="can never run"):
        simulate(jobs, machines)
    with pytest.raises(ValueError, match="can never run"):
        lower_bound(jobs, machines)


@st.composite
def yards(draw: st.DrawFn, *, most: int = 40, shortest: int = 0) -> tuple[list[TimedJob], dict[str, int]]:
    """Jobs that need earlier ones, and machines for them."""
    jobs = [
        TimedJob(
            pool=draw(st.sampled_from(POOLS)),
            seconds=draw(st.integers(shortest, 30)),
            needs=tuple(draw(st.lists(st.integers(0, index - 1), unique=True, max_size=3))) if index else (),
        )
        for index in range(draw(st.integers(0, most)))
    ]
    return jobs, {pool: draw(st.integers(1, 4)) for pool in POOLS}


def ends(jobs: Sequence[TimedJob], found: Timeline) -> list[int]:
    return [start + job.seconds for start, job in zip(found.starts, jobs, strict=True)]


def check(jobs: Sequence[TimedJob], machines: Mapping[str, int], found: Timeline) -> None:
    over = ends(jobs, found)
    assert found.end == max(over, default=0)
    assert found.end >= lower_bound(jobs, machines).seconds
    by_machine: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for index, job in enumerate(jobs):
        assert found.ready[index] == max((over[need] for need in job.needs), default=0)
        assert found.starts[index] >= found.ready[index]
        assert 0 <= found.machines[index] < machines[job.pool]
        by_machine.setdefault((job.pool, found.machines[index]), []).append((found.starts[index], over[index]))
    for times in by_machine.values():
        times.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(times))
    assert sum(end - start for times in by_machine.values() for start, end in times) == sum(j.seconds for j in jobs)


@patient
@given(yards(), st.sampled_from(QueueOrder))
def test_every_schedule_keeps_the_constraints(yard: tuple[list[TimedJob], dict[str, int]], order: QueueOrder) -> None:
    """It is never below the bound, runs all jobs, no two at once on a machine, and none before its needs."""
    check(*yard, simulate(*yard, order))


@patient
@given(yards())
def test_while_a_job_waits_every_machine_of_its_pool_is_busy(yard: tuple[list[TimedJob], dict[str, int]]) -> None:
    jobs, machines = yard
    assume(jobs)
    found = simulate(jobs, machines)
    over = ends(jobs, found)
    for index, job in each(enumerate(jobs)):
        ready, start = found.ready[index], found.starts[index]
        busy = sum(
            max(0, min(over[other], start) - max(found.starts[other], ready))
            for other in range(len(jobs))
            if jobs[other].pool == job.pool
        )
        assert busy == machines[job.pool] * (start - ready)


@patient
@given(yards(shortest=1))
def test_a_pool_runs_jobs_in_the_order_in_which_they_become_ready(
    yard: tuple[list[TimedJob], dict[str, int]],
) -> None:
    jobs, machines = yard
    found = simulate(jobs, machines)
    for pool in each(POOLS):
        own = [index for index, job in enumerate(jobs) if job.pool == pool]
        queued = sorted(own, key=lambda index: (found.ready[index], index))
        starts = [found.starts[index] for index in queued]
        assert starts == sorted(starts)


@patient
@given(yards())
def test_the_same_jobs_give_the_same_schedule(yard: tuple[list[TimedJob], dict[str, int]]) -> None:
    jobs, machines = yard
    backwards = dict(reversed(machines.items()))
    assert simulate(jobs, machines) == simulate(list(jobs), backwards)


def by_priority(jobs: Sequence[TimedJob], machines: Mapping[str, int], priority: Sequence[int]) -> int:
    """The end of a schedule in which each job starts as early as possible, and ties go by `priority`."""
    free = {pool: [0] * count for pool, count in machines.items()}
    over: dict[int, int] = {}
    left = list(priority)
    while left:
        able = {
            index: max([free[jobs[index].pool][0], *(over[need] for need in jobs[index].needs)])
            for index in left
            if all(need in over for need in jobs[index].needs)
        }
        index = min(able, key=lambda index: (able[index], left.index(index)))
        left.remove(index)
        over[index] = able[index] + jobs[index].seconds
        free[jobs[index].pool] = sorted([*free[jobs[index].pool][1:], over[index]])
    return max(over.values(), default=0)


@settings(max_examples=60, deadline=None)
@given(yards(most=5))
def test_no_priority_order_beats_the_bound_and_the_best_is_no_worse_than_the_simulated_one(
    yard: tuple[list[TimedJob], dict[str, int]],
) -> None:
    jobs, machines = yard
    best = min(by_priority(jobs, machines, priority) for priority in permutations(range(len(jobs))))
    assert lower_bound(jobs, machines).seconds <= best
    assert best <= min(simulate(jobs, machines, order).end for order in QueueOrder)
