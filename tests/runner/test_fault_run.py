"""The controller under faults, kills and stops, and the requests that it takes: simulated, with counted figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.runner.controller.engine import RunnerState
from ci_compiler.runner.controller.removal import SWEEP
from ci_compiler.runner.controller.slots import SHARE
from tests.github.state import GitHub

from .fault_run import STOP, Direct, FaultRun, controller_of
from .world import WORK, Script, World

pytestmark = pytest.mark.slow

REST = 300
"""The requests per hour, beside one per registration, that a fleet of any size may take (`slots.SHARE`)."""

COURSES: dict[str, Script] = {
    "idle": [(10, "online")],
    "jobs of ten minutes": [(10, "online"), (20, "busy"), (600, "done")],
    "jobs of an hour": [(10, "online"), (130, "busy"), (3600, "done")],
}


@pytest.mark.parametrize("seed", [1, 2])
def test_no_job_is_lost_and_nothing_leaks_through_faults_kills_and_stops(seed: int) -> None:
    run = FaultRun(300, seed)
    run.run()
    assert run.world.cut_short == []
    assert run.leaked == []
    assert run.counts["kills"] >= 5
    assert run.counts["stops"] >= 1
    assert run.longest_stop < STOP
    assert {"clock set", "disk full", "token replaced"} <= run.counts.keys()
    assert len(run.begun) >= 300
    assert run.world.most <= 4


class Counting(Direct):
    """Counts registrations and pages of lists apart."""

    registrations = lists = 0

    def requestJsonAndCheck(self, verb: str, path: str, *words: Any, **more: Any) -> tuple[Mapping[str, str], Any]:  # noqa: N802
        self.registrations += verb == "POST"
        self.lists += path.partition("?")[0].endswith("/runners")
        return super().requestJsonAndCheck(verb, path, *words, **more)


def requests_per_hour(runners: int, script: Script) -> tuple[float, float]:
    """The registrations per hour of a fleet, and its other requests that count against the budget.

    One of its machines is simulated for a day, beside the registrations of the others, which behave alike. What the
    lists of all machines cost, of which each makes one in days, is added where none falls into that day.
    """
    github = GitHub()
    for number in range(runners - 1):
        github.add_runner(f"other-{number}", ("self-hosted",))
    world = World(github=github, script=lambda _: list(script), logs=True)
    direct = Counting(world)
    controller = controller_of(world, replace(WORK, fleet=runners), direct)
    for _ in range(24 * 120):
        controller.step()
        world.clock.sleep(30.0)
        del world.clock.slept[:]
    pages = -(-runners // 100)
    lists = 0 if direct.lists else pages * 86_400 / max(SWEEP, SHARE * runners * pages)
    rest = direct.counted - direct.registrations + lists
    return runners * direct.registrations / 24, runners * rest / 24


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("runners", [1, 50, 500, 2000])
def test_a_fleet_of_any_size_takes_one_request_per_job_and_few_others(runners: int, course: str) -> None:
    registrations, rest = requests_per_hour(runners, COURSES[course])
    jobs = {"idle": 0.05, "jobs of ten minutes": 6.0, "jobs of an hour": 1.0}[course]
    assert 0 < registrations <= jobs * runners
    assert rest <= REST


def test_the_lists_of_a_large_fleet_keep_to_their_share_for_months() -> None:
    github = GitHub()
    for number in range(999):
        github.add_runner(f"other-{number}", ("self-hosted",))
    world = World(github=github, script=lambda _: [(10, "online")], logs=True)
    direct = Counting(world)
    controller = controller_of(world, replace(WORK, fleet=1000), direct)
    for _ in range(60 * 24):
        controller.step()
        world.clock.sleep(3600.0)
    assert 0 < 1000 * direct.lists / (60 * 24) <= 110


def test_runners_whose_output_cannot_be_read_are_looked_at_on_github() -> None:
    world = World(github=GitHub(), script=lambda _: [(10, "online"), (20, "busy"), (900, "offline")])
    controller = controller_of(world, WORK, Direct(world))
    world.run_until(controller, lambda: any("lost its connection" in line for line in world.said))


def test_a_runner_that_says_it_is_well_is_looked_at_on_github_now_and_then() -> None:
    """Its output stands still, and GitHub has lost it."""
    world = World(github=GitHub(), script=lambda _: [(10, "online")])
    controller = controller_of(world, WORK, Direct(world))
    world.state = lambda _: RunnerState(online=True, busy=False)  # type: ignore[method-assign]
    world.run_until(controller, lambda: bool(world.orders))
    end = world.clock.passed() + 400
    world.run_until(controller, lambda: world.clock.passed() > end)
    world.github.runners[world.orders[0].registration]["status"] = "offline"
    world.run_until(controller, lambda: any("lost its connection" in line for line in world.said), most=1000)


def main() -> None:
    """Prints the requests per hour of fleets."""
    for runners in (1, 50, 500, 2000):
        for course, script in COURSES.items():
            print(
                f"{runners:,} | {course} |", " | ".join(f"{count:,.1f}" for count in requests_per_hour(runners, script))
            )


if __name__ == "__main__":
    main()
