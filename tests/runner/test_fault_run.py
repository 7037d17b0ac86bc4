"""The controller under faults, kills and stops, and the requests that it takes: simulated, with counted figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_compiler.runner.controller.removal import SPREAD
from tests.github.state import GitHub

from .fault_run import GRACE, Direct, FaultRun, controller_of
from .world import WORK, Script, World

BUDGET = 5000
"""The requests of a token per hour (GitHub Docs, "Rate limits for the REST API")."""

LONG: Script = [(10, "online"), (130, "busy"), (7200, "done")]
"""A build of two hours."""


@pytest.mark.parametrize("seed", [1, 2])
def test_no_job_is_lost_and_nothing_leaks_through_faults_kills_and_stops(seed: int) -> None:
    run = FaultRun(300, seed)
    run.run()
    assert run.world.cut_short == []
    assert run.leaked == []
    assert run.counts["kills"] >= 5
    assert run.counts["stops"] >= 1
    assert run.longest_stop < GRACE
    assert len(run.begun) >= 300
    assert run.world.most <= 4


def requests_per_hour(runners: int, script: Script, hours: int) -> tuple[float, float]:
    """The requests of `runners` machines per hour that count against the budget, and those that do not."""
    github = GitHub()
    worlds = []
    for number in range(runners):
        world = World(github=github, script=lambda _: list(script))
        world.clock.at += number * 7200 / runners  # the machines were not started at once
        direct = Direct(world)
        worlds.append(
            (world, direct, controller_of(world, replace(WORK, fleet=runners, host=f"m{number}-0123"), direct))
        )
    for _ in range(hours * 120):
        for world, _, controller in worlds:
            controller.step()
            world.clock.sleep(30.0)
    counted = sum(direct.counted for _, direct, _ in worlds)
    unchanged = sum(direct.unchanged for _, direct, _ in worlds)
    return counted / hours, unchanged / hours


@pytest.mark.parametrize("runners", [1, 50, 500])
def test_a_fleet_takes_less_than_a_quarter_of_the_hourly_requests(runners: int) -> None:
    counted, unchanged = requests_per_hour(runners, LONG, hours=4)
    pages = runners * -(-runners // 100)
    sweeps = pages / (SPREAD * runners / 2 / 3600)  # at worst: all machines were started at once, hours ago
    assert 0 < counted + sweeps < BUDGET / 4
    assert counted <= 2.5 * runners
    assert unchanged < 8 * runners


def test_idle_runners_take_almost_no_requests() -> None:
    counted, unchanged = requests_per_hour(10, [(10, "online")], hours=10)
    assert counted <= 1.0 * 10
    assert unchanged < 8 * 10
