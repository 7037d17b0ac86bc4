"""Sick machines: a slot proves its health before each registration, and takes no job while it is sick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from ci_compiler.runner.controller.engine import RunnerOrder
from tests.github.server import serving
from tests.github.state import Fault, GitHub

from .test_controller import drained, gpus_of, ours, shown_as_sick, until_finished
from .world import HEALTHY, JOB, SHORT, WORK, Script, World, sick

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


def test_slots_of_a_family_that_lists_no_gpus_have_those_of_the_machine(world: World) -> None:
    controller = world.controller(replace(WORK, gpu="gl", family="gl", gpus=1))
    until_finished(world, controller, 2)
    assert {order.gpus for order in world.orders} == {()}
    assert not [line for line in world.said if "are needed" in line]


def test_the_reason_that_the_image_read_is_the_one_that_is_said(world: World) -> None:
    world.problems = ["nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"]
    controller = world.controller(replace(WORK, gpu="sm90", gpus=1))
    world.run_until(controller, lambda: bool(shown_as_sick(world)))
    assert f"slot 1: in quarantine: {world.problems[0]}" in world.said
    gpus_of(world, "GPU-a")
    world.run_until(controller, lambda: bool(world.orders))
    short = world.controller(replace(WORK, gpu="sm90", gpus=2))
    world.run_until(short, lambda: any("are needed" in line for line in world.said))
    [line] = [line for line in world.said if "are needed" in line]
    assert line.endswith(f"2 GPUs of sm90 are needed: 1 found, 0 of them in use; {world.problems[0]}")


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


def test_a_slot_whose_gpu_is_sick_goes_on_with_a_spare_one(world: World) -> None:
    gpus_of(world, "GPU-a", "GPU-b")
    world.doctor = lambda order: sick(LOST) if order.gpus == ("GPU-a",) else HEALTHY
    controller = world.controller(replace(WORK, gpu="sm90", gpus=1))
    until_finished(world, controller, 2)
    assert {order.gpus for order in world.orders} == {("GPU-b",)}
    assert "slot 1: healthy again" in world.said


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


def proofs(world: World) -> list[bool]:
    """Whether each proof was the deeper one."""
    return ["--deep" in words for _, words, _ in world.checked if words[0] == "doctor"]


def test_a_failed_job_starts_a_deeper_proof_and_a_machine_that_passes_it_does_not_rest(world: World) -> None:
    lives = iter([SHORT, JOB, SHORT, SHORT])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller()
    until_finished(world, controller, 6)
    assert proofs(world)[:6] == [False, True, False, True, True, False]
    assert not any("quarantine" in line for line in world.said)
    begun = [order.name for order in world.orders]
    assert f"{begun[0]}: its job failed; examining the machine before the next one" in world.said
    assert not shown_as_sick(world)


def test_a_runner_that_failed_starts_a_deeper_proof_too(world: World) -> None:
    """A job that takes its runner with it, as one that needs too much memory does, has no result."""
    lives = iter([[(10.0, "online"), (20.0, "busy"), (60.0, "exit 137")]])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller()
    until_finished(world, controller, 1)
    assert proofs(world)[:2] == [False, True]


def test_a_slot_that_fails_the_deeper_proof_rests_until_it_passes_it(world: World) -> None:
    lives = iter([SHORT])
    state = {"sick": True}
    world.script = lambda _: next(lives, JOB)
    world.doctor = lambda _: sick(LOST) if state["sick"] and proofs(world)[-1] else HEALTHY
    controller = world.controller()
    world.run_until(controller, lambda: len(proofs(world)) == 5)
    assert proofs(world) == [False, True, True, True, True]
    assert len(world.orders) == 1
    assert f"slot 1: in quarantine: gpu-health: {LOST}" in world.said
    state["sick"] = False
    until_finished(world, controller, 2)
    assert "slot 1: healthy again" in world.said
    drained(world, controller)


def test_one_bad_commit_does_not_stop_a_healthy_fleet(world: World) -> None:
    """153 jobs fail at once on 10 slots. The next jobs start within minutes, though a proof takes time as well."""
    starts: list[float] = []

    def life(_: RunnerOrder) -> Script:
        starts.append(world.clock.passed())
        return SHORT if len(starts) <= 153 else JOB

    def proof(_: RunnerOrder) -> str:
        world.clock.at += 10.0
        return HEALTHY

    world.script, world.doctor = life, proof
    controller = world.controller(replace(WORK, count=10))
    world.run_until(controller, lambda: len(starts) >= 163)
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert max(waits) < 180, "the fleet is never silent for long"
    assert starts[152] - starts[0] < 3600, "the bad commit is over within the hour"
    assert starts[162] - starts[152] < 600, "all ten slots have a job again within minutes"
    drained(world, controller)


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
