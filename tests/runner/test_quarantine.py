"""Sick machines: a slot proves its health before each registration, and takes no job while it is sick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ci_compiler.runner.controller.engine import RunnerOrder
from tests.github.server import serving
from tests.github.state import Fault, GitHub

from .test_controller import drained, gpus_of, ours, shown_as_sick, until_finished
from .world import HEALTHY, JOB, SHORT, WORK, World, sick

LOST = "GPU 0 (NVIDIA H200): Xid 79 since boot (it has fallen off the bus)"


@pytest.fixture
def world() -> Iterator[World]:
    with serving(GitHub()) as served:
        served.add_runner("theirs", ("self-hosted",), status="offline")
        yield World(github=served)


def test_each_registration_follows_a_proof_with_the_gpus_and_bounds_of_the_job(world: World) -> None:
    gpus_of(world, "GPU-a")
    controller = world.controller(replace(WORK, gpu="sm90", gpus=1))
    until_finished(world, controller, 3)
    proofs = [(order, words, spec) for order, words, spec in world.checked if words[0] == "doctor"]
    assert len(proofs) >= 3
    for order, words, spec in proofs:
        assert words == ("doctor", "--pool", "builder", "--spec", "-", "--json")
        assert (order.gpus, order.memory, order.registration) == (("GPU-a",), WORK.memory, 0)
        assert spec == WORK.spec


def test_a_sick_gpu_costs_one_job_and_comes_back_when_it_is_healthy(world: World) -> None:
    """The GPU fails during the first job; every job that it gets after that would fail."""
    state = {"sick": False}

    def life(_: RunnerOrder) -> list[tuple[float, str]]:
        state["sick"] = True
        return SHORT

    world.script = life
    world.doctor = lambda _: sick(LOST) if state["sick"] else HEALTHY
    controller = world.controller()
    world.run_until(controller, lambda: len(world.checked) > 12)
    assert len(world.orders) == 1
    assert [line for line in world.said if "quarantine" in line] == [f"slot 1: in quarantine: gpu-health: {LOST}"]
    assert len(shown_as_sick(world)) == 1
    state["sick"], world.script = False, lambda _: JOB
    world.run_until(controller, lambda: len(world.orders) == 2)
    assert "slot 1: healthy again" in world.said
    world.run_until(controller, lambda: not shown_as_sick(world))
    drained(world, controller)


def test_a_sick_slot_is_checked_again_after_growing_pauses(world: World) -> None:
    world.doctor = lambda _: sick(LOST)
    controller = world.controller()
    times = []
    for number in range(1, 8):
        world.run_until(controller, lambda number=number: len(world.checked) == number)  # type: ignore[misc]
        times.append(world.clock.passed())
    assert 30 <= times[1] - times[0] <= 65
    assert 450 <= times[-1] - times[-2] <= 905
    drained(world, controller)
    assert not ours(world)


def test_three_jobs_in_a_row_that_fail_at_once_quarantine_a_slot_for_a_while(world: World) -> None:
    """The doctor finds nothing, so the slot tries again after a rest, and longer after each further failure."""
    world.script = lambda _: SHORT
    controller = world.controller()
    world.run_until(controller, lambda: bool(shown_as_sick(world)))
    assert len(world.orders) == 3
    assert "slot 1: in quarantine: 3 jobs in a row failed within 60 s" in world.said
    since = world.clock.passed()
    world.run_until(controller, lambda: len(world.orders) == 4)
    assert 290 <= world.clock.passed() - since <= 610
    world.run_until(controller, lambda: len(world.orders) == 5)
    assert world.clock.passed() - since >= 900
    world.script = lambda _: JOB
    world.run_until(controller, lambda: "slot 1: healthy again" in world.said)
    drained(world, controller)


def test_jobs_that_fail_now_and_then_do_not_quarantine_a_slot(world: World) -> None:
    lives = iter([SHORT, SHORT, JOB, SHORT, SHORT, JOB])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller()
    until_finished(world, controller, 8)
    assert not any("quarantine" in line for line in world.said)


@pytest.mark.parametrize("answer", ["", "Traceback", "[]", '{"checks": [{}]}', json.dumps({"checks": 3})])
def test_an_image_whose_doctor_does_not_answer_takes_no_job(world: World, answer: str) -> None:
    world.doctor = lambda _: answer
    controller = world.controller()
    world.run_until(controller, lambda: bool(shown_as_sick(world)))
    assert not world.orders
    assert any("in quarantine: the doctor of the image fails" in line for line in world.said)


def test_a_quarantine_that_github_cannot_show_works_all_the_same(world: World) -> None:
    world.doctor = lambda _: sick(LOST)
    world.github.faults += [Fault(502, "POST", done=True)]
    controller = world.controller()
    world.run_until(controller, lambda: len(world.checked) > 3)
    assert not shown_as_sick(world), "the registration whose answer was lost is removed"
    world.doctor = lambda _: HEALTHY
    until_finished(world, controller, 1)
    drained(world, controller)


def test_a_sick_slot_does_not_hold_up_a_healthy_one(world: World) -> None:
    world.doctor = lambda order: sick(LOST) if order.slot == 1 else HEALTHY
    controller = world.controller(replace(WORK, count=2))
    until_finished(world, controller, 5)
    assert {order.slot for order in world.orders} == {2}
    drained(world, controller)
