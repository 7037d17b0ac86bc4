"""A machine for the controller's tests: an engine whose containers follow a script, on a clock that jumps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ci_compiler.github.client import AT_ONCE
from ci_compiler.github.registration import Registrar
from ci_compiler.process import Ended
from ci_compiler.runner.controller.engine import EngineError, InstanceStatus, RunnerInstance, RunnerOrder, RunnerState
from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.slots import RunnerPlan
from ci_compiler.secret import Secret
from tests.github.state import REPOSITORY, GitHub, Json
from tests.github.talk import Jumping, talk

LABELS = ("self-hosted", "Linux", "X64", "nix-builder")
WORK = RunnerPlan(
    pool="builder",
    scope=REPOSITORY,
    labels=LABELS,
    group=1,
    image="ghcr.io/my-org/ci-builder:0.1.0",
    gpu="",
    gpus=0,
    builds=True,
    cores=32,
    memory=64 * 2**30,
    count=1,
    fleet=1,
    host="here-0123",
    room=20 * 10**9,
    longest=9 * 3600.0,
    spec='{"package-set": "small"}',
)

Script = list[tuple[float, str]]
"""The events of a container, in order: seconds after its start, and the event (`online`, `busy`, `exit 1`, …)."""

NOTICED = 700.0
"""Seconds within which GitHub notices that a busy runner is gone."""

JOB: Script = [(10, "online"), (40, "busy"), (600, "done")]

SHORT: Script = [(10, "online"), (40, "busy"), (60, "failed"), (61, "done")]
"""A job that fails at once."""

HEALTHY = json.dumps({"checks": [{"check": "clock", "verdict": "ok", "message": "it is right"}]})
"""The doctor's answer on a healthy machine."""


def sick(message: str, check: str = "gpu-health") -> str:
    """The doctor's answer on a machine that fails one check."""
    return json.dumps({"checks": [{"check": check, "verdict": "failed", "message": message}]})


@dataclass
class Container:
    """A container, its runner on GitHub, and the events to come."""

    machine: RunnerInstance
    born: float
    script: Script
    failed: bool | None = None


@dataclass
class World:
    """The engine, with containers by name, free bytes and faults by method, and a controller that uses it."""

    github: GitHub
    clock: Jumping = field(default_factory=Jumping)
    containers: dict[str, Container] = field(default_factory=dict)
    script: Callable[[RunnerOrder], Script] = lambda _: JOB
    free: int = 100 * 10**9
    garbage: int = 0
    faults: dict[str, list[str]] = field(default_factory=dict)
    chance: Callable[[str], str] = lambda _: ""
    orders: list[RunnerOrder] = field(default_factory=list)
    ordered: set[int] = field(default_factory=set)
    secrets: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)
    lost: dict[int, float] = field(default_factory=dict)
    most: int = 0
    doctor: Callable[[RunnerOrder], str] = lambda _: HEALTHY
    devices: list[Json] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    checked: list[tuple[RunnerOrder, tuple[str, ...], str]] = field(default_factory=list)
    stopped: Callable[[], bool] = lambda: False
    sizes: dict[str, int] = field(default_factory=dict)
    words: str = "said so"
    logs: bool = False
    """Whether the engine reads the output of runners, as that of containers does."""

    def __post_init__(self) -> None:
        self.clock.on_sleep = self.live

    def controller(self, work: RunnerPlan = WORK) -> Controller:
        """A controller of this machine, which talks to GitHub over HTTP."""
        registrar = Registrar(talk(self.github, patience=AT_ONCE).client)
        return Controller(work, self, registrar, self.clock, self.said.append)

    def run_until(self, controller: Controller, when: Callable[[], bool], *, most: int = 200_000) -> None:
        """Runs the controller until `when` is true."""
        for _ in range(most):
            if when():
                return
            controller.step()
            self.clock.sleep(5.0)
        message = "it never came: " + "; ".join(self.said[-5:])
        raise AssertionError(message)

    # Events.

    def live(self) -> None:
        """Processes every event that is due."""
        for container in list(self.containers.values()):
            while container.script and self.clock.passed() - container.born >= container.script[0][0]:
                _, what = container.script.pop(0)
                self._happens(container, what)
        self._forget()

    def _forget(self) -> None:
        """After a while, GitHub gives up the job of a runner that is gone or offline, and forgets the runner."""
        running = {one.machine.registration for one in self._running()}
        mine = self.ordered & self.github.runners.keys()
        for number in [number for number in mine if self.github.runners[number]["busy"]]:
            if number not in running or self.github.runners[number]["status"] == "offline":
                since = self.lost.setdefault(number, self.clock.passed())
                if self.clock.passed() - since > NOTICED:
                    del self.github.runners[number]

    def _happens(self, container: Container, what: str) -> None:
        runner: Json = self.github.runners.get(container.machine.registration, {})
        match what.split():
            case ["online"]:
                runner["status"] = "online"
            case ["busy"]:
                runner["busy"] = True
            case ["failed"]:
                container.failed = True
            case ["offline"]:
                runner["status"] = "offline"
            case ["done"]:
                container.failed = False if self.logs and container.failed is None else container.failed
                self.github.runners.pop(container.machine.registration, None)
                self._exits(container, 0)
            case ["forgotten"]:
                self.github.runners.pop(container.machine.registration, None)
                self._exits(container, 0)
            case ["exit", code]:
                self._exits(container, int(code))
            case ["gone"]:
                del self.containers[container.machine.name]

    def _exits(self, container: Container, code: int) -> None:
        container.machine = replace(container.machine, status=InstanceStatus.ENDED, exit_code=code)

    # The engine.

    def prepare(self, order: RunnerOrder) -> None:
        self._trouble("prepare")
        self.events.append(f"prepare {order.slot}")

    def room(self) -> int:
        self._trouble("room")
        return self.free

    def collect_garbage(self, order: RunnerOrder) -> None:
        assert not any(one.machine.slot == order.slot for one in self._running()), "garbage collected during a job"
        self._trouble("collect_garbage")
        self.events.append(f"collect {order.slot}")
        self.free, self.garbage = self.free + self.garbage, 0

    def toolkit(self, order: RunnerOrder, arguments: Sequence[str], stdin: str = "") -> Ended:
        self._trouble("toolkit")
        self.checked.append((order, tuple(arguments), stdin))
        if arguments[0] == "detect":
            return Ended(status=0, out=json.dumps({"gpus": self.devices, "problems": self.problems}))
        return Ended(status=0, out=self.doctor(order))

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        trouble = self._fault("start")
        if trouble == "before":
            raise EngineError("no such device")
        assert order.registration in self.github.runners
        assert order.name not in self.containers
        self.orders.append(order)
        self.ordered.add(order.registration)
        self.secrets.append(jit.reveal())
        machine = RunnerInstance(
            name=order.name,
            status=InstanceStatus.RUNNING,
            exit_code=0,
            registration=order.registration,
            scope=order.scope,
            pool=order.pool,
            slot=order.slot,
            gpus=order.gpus,
        )
        self.containers[order.name] = Container(
            machine=machine, born=self.clock.passed(), script=list(self.script(order))
        )
        running = [one.machine.slot for one in self._running()]
        assert len(running) == len(set(running)), "two runners in one slot"
        self.most = max(self.most, len(running))
        if trouble:
            raise EngineError("no answer in 120 s")

    def machines(self) -> tuple[RunnerInstance, ...]:
        self._trouble("machines")
        return tuple(one.machine for one in self.containers.values())

    def end(self, name: str) -> None:
        self._trouble("end")
        self.events.append(f"end {name}")
        container = self.containers[name]
        if not self.github.runners.get(container.machine.registration, {}).get("busy"):
            self._exits(container, 143)

    def remove(self, name: str) -> None:
        trouble = self._fault("remove")
        if trouble == "before":
            raise EngineError("device is busy")
        found = self.containers.pop(name, None)
        if found and found.machine.status is InstanceStatus.RUNNING:
            runner = self.github.runners.get(found.machine.registration)
            if runner and runner["busy"]:
                self.cut_short.append(name)
        if trouble:
            raise EngineError("no answer in 120 s")

    def keep_log(self, name: str) -> None:
        self._trouble("keep_log")
        self.events.append(f"keep {name}")

    def state(self, name: str) -> RunnerState | None:
        self._trouble("state")
        runner = self.github.runners.get(self.containers[name].machine.registration) if self.logs else None
        return RunnerState(online=runner["status"] == "online", busy=runner["busy"]) if runner else None

    def job_failed(self, name: str) -> bool | None:
        self._trouble("job_failed")
        return self.containers[name].failed

    def written(self, name: str) -> int:
        self._trouble("written")
        return self.sizes.get(name, 0)

    def last_words(self, name: str) -> str:
        self._trouble("last_words")
        heard = self.logs or self.containers[name].machine.exit_code
        return f"{name} {self.words}" if heard else ""

    def _running(self) -> list[Container]:
        return [one for one in self.containers.values() if one.machine.status is InstanceStatus.RUNNING]

    def _fault(self, method: str) -> str:
        waiting = self.faults.get(method)
        return waiting.pop(0) if waiting else self.chance(method)

    def _trouble(self, method: str) -> None:
        if self._fault(method):
            raise EngineError(f"{method} failed")
