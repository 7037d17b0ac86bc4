"""The controller: one job per runner, and complete cleanup whatever fails and whenever it is stopped."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, cycle, pairwise

import pytest

from ci_compiler.errors import InputError
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.hardware import tables
from ci_compiler.hardware.machine import NOMINAL
from ci_compiler.plan.routing import labels_of
from ci_compiler.runner.controller.engine import RunnerOrder
from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.runner_names import RunnerName, host_tag, read_name
from ci_compiler.runner.controller.slots import Phase
from ci_compiler.units import GB
from tests.github.server import serving
from tests.github.state import Fault, GitHub
from tests.specs import small, spec_of

from .world import JOB, LABELS, WORK, Script, World


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub with a repository of a personal account, and a runner that the controller did not make."""
    with serving(GitHub()) as served:
        served.add_runner("theirs", LABELS, status="offline")
        yield served


@pytest.fixture
def world(github: GitHub) -> World:
    return World(github=github)


def ours(world: World) -> list[str]:
    return [runner["name"] for runner in world.github.of() if runner["name"] != "theirs"]


def shown_as_sick(world: World) -> list[str]:
    """The names of the registrations that show a quarantine."""
    return [one["name"] for one in world.github.of() if [label["name"] for label in one["labels"]] == ["quarantined"]]


def nothing_left(world: World) -> bool:
    return not ours(world) and not world.containers


def until_finished(world: World, controller: Controller, jobs: int) -> None:
    world.run_until(controller, lambda: controller.finished >= jobs)


def drained(world: World, controller: Controller) -> None:
    """Stops the controller and waits for its end."""
    controller.drain()
    world.run_until(controller, lambda: all(slot.phase is Phase.DONE for slot in controller.slots))
    assert nothing_left(world)


def test_every_job_gets_its_own_registration_and_container(world: World) -> None:
    controller = world.controller(replace(WORK, count=2))
    until_finished(world, controller, 10)
    drained(world, controller)
    names = [order.name for order in world.orders]
    assert len(set(names)) == len(names)
    assert world.secrets == world.github.secrets
    assert world.most == 2
    assert {name.slot for name in map(read_name, names) if name} == {1, 2}
    assert not world.cut_short


def test_a_runner_has_the_labels_of_the_pool_and_of_github(world: World) -> None:
    spec = spec_of(small())
    assert labels_of(tables(), spec.pools[0]) == ("self-hosted", "linux", "x64", "nix-builder")
    bare = replace(spec.pools[0], runs_on=replace(spec.pools[0].runs_on, labels=("nix-builder",)))
    assert labels_of(tables(), bare) == ("self-hosted", "Linux", "X64", "nix-builder")
    arm = replace(bare, system="aarch64-linux")
    assert labels_of(tables(), arm) == ("self-hosted", "Linux", "ARM64", "nix-builder")
    controller = world.controller()
    world.run_until(controller, lambda: bool(world.orders))
    [made] = [runner for runner in world.github.of() if runner["name"] == world.orders[0].name]
    assert [label["name"] for label in made["labels"]] == list(LABELS)


def test_a_name_is_read_back_from_githubs_list() -> None:
    name = RunnerName(host=host_tag("Build-Machine.example.org"), slot=12, made=1_790_856_000, pool="x86-builder")
    assert read_name(str(name)) == name
    long = replace(name, pool="a" * 45)
    assert len(str(long)) == 64
    assert read_name(str(long)) == replace(long, pool="a" * (64 - len(str(replace(name, pool=""))) - 1))
    assert read_name("theirs") is None
    assert host_tag("a") != host_tag("b")
    assert host_tag("localhost", "1") != host_tag("localhost", "2")


FAULTS = [
    Fault(500),
    Fault(502, done=True),
    Fault(0),
    Fault(0, done=True, cut=1),
    Fault(429, headers={"Retry-After": "90"}),
    Fault(403, message="API rate limit exceeded"),
    Fault(403, message="Resource not accessible by integration"),
    Fault(401, message="Bad credentials"),
    Fault(404, message="Not Found"),
    Fault(200, body=b"<html>proxy</html>"),
]

LIVES: list[Script] = [
    JOB,
    [(10, "online"), (3000, "busy"), (3010, "done")],
    [(4, "exit 1")],
    [(4, "exit 0")],
    [(4, "gone")],
    [],
    [(10, "online"), (20, "busy"), (60, "exit 137")],
    [(10, "online"), (20, "busy"), (200, "offline")],
    [(10, "online"), (200, "offline"), (400, "online"), (420, "busy"), (900, "done")],
    [(10, "online"), (20, "busy"), (60, "gone")],
    [(10, "online"), (20, "busy")],
]
"""Courses of a container: success, and crashes, hangs and disappearance before, during and after every step."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_left_over_after_200_jobs_with_faults_at_every_step(world: World, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (no secret, but the same in every run)
    met: set[str] = set()
    turns = {method: cycle(FAULTS) for method in ("GET", "POST", "DELETE")}

    def of_engine(method: str) -> str:
        if chance.random() > (0.3 if method == "collect_garbage" else 0.06):
            return ""
        met.add(method)
        return chance.choice(["before", "after"])

    def of_github(method: str, _: str) -> Fault | None:
        if chance.random() > 0.12:
            return None
        fault = next(turns[method])
        met.add(f"{method} {fault}")
        return fault

    def life(_: RunnerOrder) -> Script:
        return JOB if chance.random() < 0.7 else chance.choice(LIVES)

    controller = world.controller(replace(WORK, count=3, longest=7200.0))
    controller.adopt()
    until_finished(world, controller, 1)
    world.chance, world.github.chance, world.script = of_engine, of_github, life
    most = 0
    for jobs in range(2, 201):
        until_finished(world, controller, jobs)
        most = max(most, len(ours(world)) - len(shown_as_sick(world)))
        if jobs % 5 == 0:
            world.free, world.garbage = 10 * 10**9, 50 * 10**9
    assert most <= 3
    world.chance, world.github.chance = lambda _: "", lambda *_: None
    drained(world, controller)
    assert [runner["name"] for runner in world.github.of()] == ["theirs"]
    assert {"prepare", "room", "collect_garbage", "start", "machines", "remove"} <= met
    assert {f"{method} {fault}" for method in turns for fault in FAULTS} <= met
    shown = "\n".join(world.said)
    assert not any(secret in shown for secret in world.secrets)


@pytest.mark.parametrize("script", LIVES, ids=str)
def test_no_course_of_a_container_leaves_anything_behind(world: World, script: Script) -> None:
    """After one failure, the next job succeeds, and the failed registration and container are gone."""
    lives = iter([script])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller(replace(WORK, longest=3600.0))
    world.run_until(controller, lambda: controller.finished >= 1 and len(world.orders) >= 3)
    assert world.orders[0].name not in {*ours(world), *world.containers}
    drained(world, controller)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([(4, "exit 3")], "ended with exit code 3: {name} said so; the next one starts in"),
        ([(4, "exit 0")], "ended without a job"),
        ([], "did not connect to GitHub in 6 min; the next one starts in"),
        ([(10, "online"), (200, "offline")], "lost its connection to GitHub 16 min ago; the next"),
        (
            [(10, "online"), (20, "busy")],
            "has been working on one job for 9 h",
        ),
        ([(4, "gone")], "its container is gone; the next"),
    ],
)
def test_failures_are_reported(world: World, script: Script, says: str) -> None:
    lives = iter([script])
    world.script = lambda _: next(lives, JOB)
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 2)
    name = world.orders[0].name
    assert any(line.startswith(f"{name}: {says.format(name=name)}") for line in world.said), world.said


def test_a_log_that_cannot_be_kept_is_reported(world: World) -> None:
    lives: Iterator[Script] = iter([[(4, "exit 3")]])
    world.script = lambda _: next(lives, JOB)
    world.faults["keep_log"] = ["before"]
    until_finished(world, world.controller(), 1)
    assert f"{world.orders[0].name}: its log is not kept: keep_log failed" in world.said


def test_pauses_grow_with_consecutive_failures_until_a_job_succeeds(world: World) -> None:
    world.faults["prepare"] = ["pull failed"] * 12
    controller = world.controller()
    times: list[float] = []
    for _ in range(12):
        before = len(world.said)
        world.run_until(controller, lambda before=before: len(world.said) > before)  # type: ignore[misc]
        times.append(world.clock.passed())
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] <= 10
    assert 300 <= pauses[-1] <= 605
    assert sorted(pauses[:8]) == pauses[:8]
    until_finished(world, controller, 1)
    assert controller.slots[0].failures == 0


@pytest.mark.parametrize("life", [[(4, "exit 1")], [(4, "exit 0")], [(4, "gone")]])
def test_pauses_grow_when_runners_keep_failing(world: World, life: Script) -> None:
    world.script = lambda _: life
    controller = world.controller()
    times: list[float] = []
    while len(times) < 9:
        world.run_until(controller, lambda: len(world.orders) > len(times))
        times.append(world.clock.passed())
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] <= 25
    assert pauses[-1] >= 300
    assert len(shown_as_sick(world)) == 1
    assert len(ours(world)) <= 2
    assert sum("in quarantine: 3 runners failed in a row; the last:" in line for line in world.said) == 1


def test_a_removal_denied_by_not_found_does_not_count_as_done(world: World) -> None:
    """GitHub answers so to a token without the permission; the registration still exists."""
    world.script = lambda _: [(4, "exit 1")]
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 1)
    world.github.faults += [Fault(404, "DELETE", message="Not Found")] * 2
    world.run_until(controller, lambda: len(world.orders) == 2)
    assert world.orders[0].name not in ours(world)
    assert sum("GitHub lists it but does not find it; trying again in" in line for line in world.said) == 2


def test_nothing_is_registered_before_the_image_and_disk_space_are_ready(world: World) -> None:
    world.faults["prepare"] = ["no such image"]
    world.free = 0
    controller = world.controller()
    world.run_until(controller, lambda: sum("needed" in line for line in world.said) == 3)
    assert not world.github.secrets
    assert any("0 B free and 20 GB needed, with no more garbage" in line for line in world.said)


def test_garbage_is_collected_before_a_job_and_only_when_space_is_short(world: World) -> None:
    controller = world.controller()
    until_finished(world, controller, 2)
    assert not [event for event in world.events if event.startswith("collect")]
    world.free, world.garbage = 10 * 10**9, 40 * 10**9
    until_finished(world, controller, 5)
    assert [event for event in world.events if event.startswith("collect")] == ["collect 1"]
    assert any("slot 1: 10 GB free of 20 GB; collecting garbage" in line for line in world.said)
    drained(world, controller)


def test_a_rate_limit_is_waited_for_as_long_as_github_says(world: World) -> None:
    controller = world.controller()
    until_finished(world, controller, 1)
    world.github.faults.append(Fault(429, "POST", headers={"Retry-After": "1800"}))
    world.run_until(controller, lambda: any("trying again in 30 min" in line for line in world.said))
    before, orders = world.clock.passed(), len(world.orders)
    world.run_until(controller, lambda: len(world.orders) > orders)
    assert 1790 <= world.clock.passed() - before <= 1810


def test_on_stop_idle_runners_are_removed_and_jobs_finish(world: World) -> None:
    lives = iter([JOB, [(10, "online")]])
    world.script = lambda _: next(lives)
    controller = world.controller(replace(WORK, count=2))
    world.run_until(controller, lambda: any(runner["busy"] for runner in world.github.of()))
    busy, idle = (order.name for order in world.orders)
    drained(world, controller)
    assert world.events[-1] == f"end {idle}"
    assert f"{busy}: finishing its job" in world.said
    removals = [target for method, target, _ in world.github.asked if method == "DELETE"]
    assert len(removals) == 2 * len(world.orders)
    assert controller.finished == 1
    assert not world.cut_short
    assert len(world.orders) == 2


@pytest.mark.parametrize("step", ["prepare", "room", "start"])
def test_a_stop_at_any_step_leaves_nothing_behind(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM arrives while the engine is busy."""
    controller = world.controller()
    known = getattr(world, step)

    def told(*arguments: object) -> object:
        controller.drain()
        return known(*arguments)

    monkeypatch.setattr(world, step, told)
    world.script = lambda _: [(10, "online")]
    world.run_until(controller, lambda: all(slot.phase is Phase.DONE for slot in controller.slots))
    assert nothing_left(world)
    assert len(world.orders) == (step == "start")


def test_a_second_stop_takes_effect_at_once(world: World) -> None:
    world.script = lambda _: [(10, "online"), (20, "busy")]
    controller = world.controller()
    world.run_until(controller, lambda: any(runner["busy"] for runner in world.github.of()))
    controller.drain()
    controller.step()
    controller.drain()
    world.run_until(controller, lambda: all(slot.phase is Phase.DONE for slot in controller.slots), most=5)
    assert not world.containers
    assert "may be left over: `ci-runner prune` removes it" in world.said[-1]


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_refused_first_registration_ends_the_run(world: World, status: int) -> None:
    world.github.faults.append(Fault(status, "POST", message="no"))
    with pytest.raises(GitHubError) as raised:
        world.controller().run()
    assert raised.value.trouble in {Trouble.TOKEN, Trouble.FORBIDDEN, Trouble.MISSING, Trouble.REFUSED}
    assert nothing_left(world)
    assert not world.orders


def test_later_refusals_do_not_end_the_run(world: World) -> None:
    controller = world.controller()
    until_finished(world, controller, 1)
    world.github.faults += [Fault(401, "POST", message="Bad credentials")] * 3
    until_finished(world, controller, 3)
    drained(world, controller)


REFUSED = "An error occurred: Runner version v2.331.0 is deprecated and cannot receive messages."


@pytest.mark.parametrize(("end", "words"), [("exit 7", "said so"), ("exit 0", REFUSED)])
def test_a_version_that_github_serves_no_more_ends_the_run_after_hours(world: World, end: str, words: str) -> None:
    """Before 2.333.0, the code of a runner whose version is refused is 0."""
    world.script, world.words, world.logs = lambda _: [(30, end)], words, True
    begin = world.clock.passed()
    finding = world.controller(replace(WORK, count=2)).run()
    assert finding is not None
    assert str(finding).startswith(
        "ghcr.io/my-org/ci-builder:0.1.0: GitHub has served no runner of this version since 2"
    )
    assert f" {words} [runner-outdated]" in str(finding)
    assert nothing_left(world)
    assert 2 * 3600 < world.clock.passed() - begin < 4 * 3600
    assert len(world.orders) < 20, "it does not ask GitHub again and again"


@pytest.mark.parametrize("other", [JOB, [(10.0, "online")]], ids=["with jobs", "idle"])
@pytest.mark.parametrize("end", ["exit 7", "exit 0"])
def test_one_refused_runner_stops_none_that_github_serves(world: World, end: str, other: Script) -> None:
    """GitHub's 403 to one runner, for any reason, becomes that exit code."""
    world.script, world.words, world.logs = lambda one: [(30, end)] if one.slot == 1 else other, REFUSED, True
    controller = world.controller(replace(WORK, count=2))
    world.run_until(controller, lambda: world.clock.passed() > 6 * 3600)
    assert 4 <= sum(one.slot == 1 for one in world.orders) < 20
    assert any(one.phase is Phase.RUNNING for one in controller.slots)
    first = world.orders[0].name
    begin = f"{first}: GitHub refused it (exit code {end[-1]}): {first} {REFUSED}; the next one starts in"
    assert any(line.startswith(begin) for line in world.said)
    assert f"keep {first}" in world.events
    world.script = lambda _: JOB
    world.run_until(controller, lambda: {one.slot for one in world.orders[-2:]} == {1, 2} or controller.finished > 60)
    drained(world, controller)


@pytest.mark.parametrize("end", ["exit 0", "forgotten"])
def test_the_words_of_a_runner_that_ends_without_a_job_are_said_and_kept(world: World, end: str) -> None:
    """A wrong clock, or a registration that GitHub deleted: run.sh ends with 0."""
    lives = iter([[(4.0, end)]])
    world.script, world.words, world.logs = lambda _: next(lives, JOB), "Failed to create a session.", True
    controller = world.controller()
    until_finished(world, controller, 1)
    assert len(world.orders) >= 2, "what GitHub forgot was no job"
    name = world.orders[0].name
    assert f"{name}: ended without a job: {name} Failed to create a session." in world.said
    assert [event for event in world.events if event.startswith("keep")] == [f"keep {name}"]
    drained(world, controller)


def test_a_broken_engine_is_reported_at_once(world: World) -> None:
    world.faults["machines"] = ["cannot connect to the daemon"]
    with pytest.raises(InputError, match="builder: machines failed"):
        world.controller().run()


def test_a_restarted_controller_finds_its_jobs_again(world: World) -> None:
    killed = world.controller(replace(WORK, count=3))
    lives = iter([JOB, [(5, "exit 1")], [(10, "online"), (20, "busy")]])
    world.script = lambda _: next(lives, JOB)
    world.run_until(killed, lambda: len(world.orders) == 3)
    running, crashed, _ = (order.name for order in world.orders)
    world.clock.sleep(60.0)
    controller = world.controller()
    controller.adopt()
    assert f"{running}: taken over from an earlier controller" in world.said
    world.run_until(controller, lambda: crashed not in {*world.containers, *ours(world)})
    assert running in world.containers
    until_finished(world, controller, 2)
    assert world.orders[-1].slot == 1
    assert max(order.slot for order in world.orders[3:]) == 1
    world.github.runners[world.orders[2].registration]["busy"] = False
    drained(world, controller)


def test_a_runner_of_another_pool_is_left_alone(world: World) -> None:
    """Two pools on one machine have separate controllers."""
    world.script = lambda _: [(10, "online"), (40, "busy")]
    world.run_until(world.controller(), lambda: len(world.orders) == 1)
    [container] = world.containers.values()
    container.machine = replace(container.machine, pool="other", slot=9)
    theirs = container.machine.name
    world.script = lambda _: JOB
    mine = world.controller()
    mine.adopt()
    assert not any("taken over" in said for said in world.said)
    until_finished(world, mine, 1)
    mine.drain()
    world.run_until(mine, lambda: set(world.containers) == {theirs})


def test_a_runner_of_another_scope_is_not_taken_over(world: World) -> None:
    """Its registration is elsewhere, and its store is in use."""
    killed = world.controller()
    world.run_until(killed, lambda: len(world.orders) == 1)
    [container] = world.containers.values()
    container.machine = replace(container.machine, scope="my-org")
    with pytest.raises(InputError, match=r"builder: ci-runner-\S+ runs here for my-org; wait until it finishes"):
        world.controller().run()
    assert container.machine.name in world.containers


def test_a_stop_after_an_outdated_runner_lets_jobs_finish(world: World) -> None:
    lives = iter([[(60, "exit 7")], JOB])
    world.script = lambda _: next(lives)
    controller = world.controller(replace(WORK, count=2))
    world.run_until(controller, lambda: len(world.orders) == 2 and len(world.containers) == 1)
    drained(world, controller)
    assert not world.cut_short
    assert controller.finished == 1


def test_registrations_that_a_killed_controller_left_are_removed(world: World) -> None:
    """Only old, idle ones of this machine and pool: none of another machine or pool, and none that is starting."""
    made = count(int(world.clock.now()) - 5000)
    old = RunnerName(host=WORK.host, slot=4, made=next(made), pool=WORK.pool)
    kept = [
        replace(old, host="there-9876", made=next(made)),
        replace(old, pool="other", made=next(made)),
        replace(old, made=int(world.clock.now()) + 300),
    ]
    for name in (old, *kept):
        world.github.add_runner(str(name), LABELS, status="offline")
    busy = replace(old, made=next(made))
    world.github.add_runner(str(busy), LABELS, busy=True)
    controller = world.controller()
    world.run_until(controller, lambda: str(old) not in ours(world))
    assert {*map(str, kept), str(busy)} <= {*ours(world)}
    assert f"{old}: left over from an earlier controller" in world.said


@pytest.mark.parametrize("made", [1_790_856_000 + 10 * 365 * 24 * 3600, 86_400], ids=["ahead", "at 1970"])
def test_a_registration_that_a_wrong_clock_dated_is_removed(world: World, made: int) -> None:
    wrong = str(RunnerName(host=WORK.host, slot=4, made=made, pool=WORK.pool))
    world.github.add_runner(wrong, LABELS, status="offline")
    controller = world.controller()
    world.run_until(controller, lambda: wrong not in ours(world), most=1000)


def test_names_follow_a_clock_that_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `prune` would take the runners that start for leftovers of a clock that was ahead."""
    right = world.clock.now
    monkeypatch.setattr(world.clock, "now", lambda: right() + 10**7)
    controller = world.controller()
    until_finished(world, controller, 1)
    monkeypatch.setattr(world.clock, "now", right)
    seen = len(world.orders)
    world.run_until(controller, lambda: len(world.orders) == seen + 2)
    [*_, name] = map(read_name, (order.name for order in world.orders))
    assert name is not None
    assert abs(name.made - right()) < 600


def test_a_job_that_ends_with_its_machine_is_no_job_that_is_done(world: World) -> None:
    """After a power failure, the engine says that the container has ended, and that its exit code is 0."""
    scripts = iter([[(10.0, "online"), (40.0, "busy"), (100.0, "exit 0")]])
    world.logs, world.script = True, lambda _: next(scripts, JOB)
    controller = world.controller()
    world.run_until(controller, lambda: len(world.orders) == 2)
    lost = world.orders[0].name
    [said] = [line for line in world.said if line.startswith(f"{lost}: ended")]
    assert said.startswith(f"{lost}: ended during its job with exit code 0: {lost} said so; ")
    assert f"keep {lost}" in world.events
    assert controller.finished == 0
    assert lost not in {runner["name"] for runner in world.github.of()}
    until_finished(world, controller, 1)


GPU_POOL = replace(WORK, gpu="sm90", gpus=2, count=2)


def gpus_of(world: World, *uuids: str, sm: str = "sm90") -> None:
    world.devices = [{"uuid": uuid, "sm": sm, "sliced": False, "slices": []} for uuid in uuids]


@pytest.mark.parametrize(("memory", "slots"), [(1, 1), (48, 1), (64, 2), (96, 5)])
def test_the_doctor_accepts_the_share_of_a_slot_as_the_kernel_rounds_it(world: World, memory: int, slots: int) -> None:
    """A build may need all that its pool has. The kernel rounds a bound down to whole pages, of 4 or 64 KiB."""
    needed = memory * GB * NOMINAL
    world.run_until(world.controller(replace(WORK, memory=int(needed), count=slots)), lambda: bool(world.orders))
    for page in (2**12, 2**16):
        bound = world.orders[0].memory // page * page
        assert needed <= bound * slots < needed * 1.001


def test_each_slot_gets_the_gpus_that_its_pool_declares_by_identity(world: World) -> None:
    gpus_of(world, "GPU-a", "GPU-b", "GPU-c", "GPU-d")
    world.devices.insert(1, {"uuid": "GPU-x", "sm": "sm80", "sliced": False, "slices": []})
    controller = world.controller(GPU_POOL)
    world.run_until(controller, lambda: len(world.orders) == 2)
    assert [order.gpus for order in world.orders] == [("GPU-a", "GPU-b"), ("GPU-c", "GPU-d")]
    assert {(order.cores, order.memory) for order in world.orders} == {(16, 32 * 2**30)}
    until_finished(world, controller, 2)
    assert {(order.slot, order.gpus) for order in world.orders} == {(1, ("GPU-a", "GPU-b")), (2, ("GPU-c", "GPU-d"))}


def test_a_slice_of_a_gpu_counts_as_a_gpu(world: World) -> None:
    world.devices = [{"uuid": "GPU-a", "sm": "sm90", "sliced": True, "slices": ["MIG-1", "MIG-2"]}]
    controller = world.controller(replace(GPU_POOL, gpus=1))
    world.run_until(controller, lambda: len(world.orders) == 2)
    assert [order.gpus for order in world.orders] == [("MIG-1",), ("MIG-2",)]


def test_a_slot_without_enough_gpus_is_quarantined(world: World) -> None:
    gpus_of(world, "GPU-a", "GPU-b", "GPU-c")
    controller = world.controller(GPU_POOL)
    until_finished(world, controller, 2)
    assert {order.slot for order in world.orders} == {1}
    assert "slot 2: in quarantine: 2 GPUs of sm90 are needed: 3 found, 2 of them in use" in world.said
    gpus_of(world, "GPU-a", "GPU-b", "GPU-c", "GPU-d")
    world.run_until(controller, lambda: {order.slot for order in world.orders} == {1, 2})
    drained(world, controller)


def test_a_restarted_controller_gives_no_gpu_twice(world: World) -> None:
    gpus_of(world, "GPU-a", "GPU-b", "GPU-c", "GPU-d")
    world.script = lambda _: [(10, "online"), (20, "busy")]
    world.run_until(world.controller(GPU_POOL), lambda: len(world.orders) == 2)
    del world.containers[world.orders[0].name]
    del world.github.runners[world.orders[0].registration]
    world.devices.reverse()
    controller = world.controller(GPU_POOL)
    controller.adopt()
    world.run_until(controller, lambda: len(world.orders) == 3)
    assert set(world.orders[2].gpus) == {"GPU-a", "GPU-b"}
