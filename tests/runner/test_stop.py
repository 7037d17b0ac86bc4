"""SIGTERM ends the controller in every state: expired token, failing GitHub, engine gone; no job is cut short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.slots import Phase
from tests.github.server import serving
from tests.github.state import REPOSITORY, Fault, GitHub

from .test_controller import until_finished
from .world import JOB, WORK, Script, World

STOP = 300.0
"""Seconds within which a controller without a job ends, whatever fails."""

IDLE: Script = [(10, "online")]
FAULTS = [
    Fault(401, message="Bad credentials"),
    Fault(403, message="Resource not accessible by integration"),
    Fault(404, message="Not Found"),
    Fault(500),
    Fault(0),
    Fault(429, headers={"Retry-After": "99999999999"}),
    Fault(200, body=b"<html>proxy</html>"),
    Fault(301, headers={"Location": f"/repos/{REPOSITORY}/actions/runners"}),
]


@pytest.fixture
def world() -> Iterator[World]:
    with serving(GitHub()) as served:
        yield World(github=served)


def stopped(world: World, controller: Controller) -> float:
    """Stops the controller; returns the seconds until its end."""
    since = world.clock.passed()
    controller.drain()
    world.run_until(controller, lambda: all(slot.phase is Phase.DONE for slot in controller.slots))
    return world.clock.passed() - since


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_an_idle_controller_ends_although_github_fails(world: World, fault: Fault) -> None:
    world.script = lambda _: IDLE
    controller = world.controller(replace(WORK, count=2))
    world.run_until(controller, lambda: len(world.orders) == 2)
    world.clock.sleep(20.0)
    world.github.chance = lambda *_: fault
    assert stopped(world, controller) <= STOP
    assert not [one for one in world.containers.values() if one.machine.status == "running"]
    assert not world.cut_short


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_job_finishes_before_the_end_although_github_fails(world: World, fault: Fault) -> None:
    controller = world.controller()
    world.run_until(controller, lambda: any(runner["busy"] for runner in world.github.of()))
    world.github.chance = lambda *_: fault
    assert stopped(world, controller) <= 600 + STOP
    assert not world.cut_short
    assert not world.github.of()


@pytest.mark.parametrize("script", [IDLE, [(10, "online"), (20, "busy")], [(4, "exit 1")]], ids=str)
def test_a_controller_ends_although_the_engine_is_gone(world: World, script: Script) -> None:
    """As at a restart of the machine. An idle runner loses its registration, so that it gets no job."""
    world.script = lambda _: script
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 1)
    world.clock.sleep(30.0)
    world.chance = lambda _: "before"
    assert stopped(world, controller) <= STOP
    assert any("may be left over: `ci-runner prune` removes it" in line for line in world.said)
    assert [runner["busy"] for runner in world.github.of()] == [True] * (script[-1][1] == "busy")


def test_a_controller_ends_although_the_engine_cannot_end_its_runner(world: World) -> None:
    """GitHub cannot be asked either, so nothing shows that the runner is idle."""
    world.script = lambda _: IDLE
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 1)
    world.github.chance = lambda *_: Fault(500)
    world.chance = lambda method: "before" if method == "end" else ""
    assert stopped(world, controller) <= STOP
    assert any("end failed; " in line and "may be left over" in line for line in world.said)


def test_a_stop_does_not_wait_for_a_pause_that_began_before_it(world: World) -> None:
    """GitHub asked for an hour when the runner of a lost container was to be removed."""
    world.script = lambda _: [(10, "online"), (30, "gone")]
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 1)
    world.github.chance = lambda *_: Fault(429, headers={"Retry-After": "3600"})
    world.run_until(controller, lambda: any("trying again in 1 h" in line for line in world.said))
    world.github.chance = lambda *_: None
    assert stopped(world, controller) <= 60
    assert not world.github.of()


def test_a_stop_gives_up_a_step_that_takes_long(world: World) -> None:
    controller = world.controller()
    assert not world.stopped()
    controller.drain()
    assert world.stopped()


def test_a_busy_runner_is_never_removed_before_github_was_asked(world: World) -> None:
    """The engine reports a failed start, but the container runs and already has a job."""
    world.faults["start"] = ["after"]
    world.script = lambda _: [(1, "online"), (2, "busy"), (600, "done")]
    controller = world.controller()
    until_finished(world, controller, 1)
    assert not world.cut_short
    assert any(line.endswith("GitHub counts it as busy, so it finishes its job") for line in world.said)


def test_a_job_that_takes_longer_than_any_may_is_ended(world: World) -> None:
    lives: Iterator[Script] = iter([[(10, "online"), (20, "busy")]])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller(replace(WORK, longest=3600.0))
    until_finished(world, controller, 1)
    assert world.cut_short == [world.orders[0].name]


def test_a_job_that_fills_the_disk_of_its_neighbours_is_ended(world: World) -> None:
    controller = world.controller(replace(WORK, count=2, disk=10**9))
    world.run_until(controller, lambda: sum(runner["busy"] for runner in world.github.of()) == 2)
    first, second = (order.name for order in world.orders)
    world.sizes |= {first: 10**9 + 1, second: 10**9}
    until_finished(world, controller, 1)
    assert world.cut_short == [first]
    assert any(f"{first}: its job has written 1 GB, and may write 1 GB" in line for line in world.said)


def test_what_a_job_writes_is_not_asked_for_without_a_bound(world: World) -> None:
    world.faults["written"] = ["before"]
    until_finished(world, world.controller(), 1)
    assert world.faults["written"]
