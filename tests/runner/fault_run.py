"""A controller through thousands of jobs with faults at every step, kills and stops, on a simulated clock.

`python -m tests.runner.fault_run JOBS [SEED]` prints the figures; 10,000 jobs take some minutes. Requests go straight
to the GitHub for tests, without HTTP; `test_controller.py` has the same faults over HTTP.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import requests
from github import GithubException

from ci_compiler.errors import InputError
from ci_compiler.github.access import Access
from ci_compiler.github.client import AT_ONCE, Client
from ci_compiler.github.registration import Registrar
from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.slots import YOUNG, Phase, RunnerPlan
from ci_compiler.secret import Secret
from ci_compiler.units import duration
from tests.github.state import REPOSITORY, TOKEN, Answer, Fault, GitHub, Request, refusal

from .world import HEALTHY, NOTICED, WORK, Script, World, sick

HALF_CLOSED, NO_DESCRIPTORS = -1, -2
"""Stand in for the status of faults without one: the answer never comes, no thread or socket can be made."""

FAULTS = [
    Fault(500),
    Fault(502, done=True),
    Fault(0),
    Fault(0, done=True),
    Fault(429, headers={"retry-after": "90"}),
    Fault(429, headers={"retry-after": "3600"}),
    Fault(301, message="a loop of redirects"),
    Fault(HALF_CLOSED),
    Fault(HALF_CLOSED, done=True),
    Fault(NO_DESCRIPTORS),
    Fault(403, message="API rate limit exceeded"),
    Fault(401, message="Bad credentials"),
    Fault(200, body=b"<html>proxy</html>"),
]

QUICK: Script = [(5, "online"), (10, "busy"), (130, "done")]
CRASHES: list[Script] = [
    [(4, "exit 1")],
    [(4, "exit 0")],
    [(4, "gone")],
    [],
    [(5, "online"), (10, "busy"), (60, "exit 137")],
    [(5, "online"), (10, "busy"), (60, "gone")],
    [(5, "online"), (200, "offline"), (400, "online"), (420, "busy"), (900, "done")],
]
"""Courses in which the machine itself fails: what happens to their jobs is no fault of the controller."""

YEAR = 400 * 86_400.0
"""Seconds by which the wall clock jumps, in both directions."""

FREE = 100 * 10**9
"""Bytes on the disk when it is not full."""

STOP = 1800.0
"""Seconds within which a controller stops whose jobs take 15 minutes at most: far within the grace of its unit."""


class Killed(BaseException):
    """The controller is killed at this very point."""


class Direct:
    """PyGithub's requester without HTTP; `strike` may raise at any request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counted = 0
        self.unchanged = 0
        self.token = world.github.token

    def requestJsonAndCheck(  # noqa: N802 - PyGithub's name
        self,
        verb: str,
        path: str,
        input: Any = None,  # noqa: A002
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Mapping[str, str], Any]:
        github = self.world.github
        fault = github.chance(verb, path)
        if self.token != github.token and fault is None:
            fault = Fault(401, message="Bad credentials")
        if fault is not None and not fault.done:
            self.counted += 1
            self._fail(fault)
        answer = _answer(github, verb, path, input)
        tag = json.dumps(answer.body, sort_keys=True) if verb == "GET" and answer.status == 200 else ""
        if tag and (headers or {}).get("If-None-Match") == tag:
            self.unchanged += 1
            return {"etag": tag}, None
        self.counted += 1
        if fault is not None:
            self._fail(fault)
        if answer.status >= 400:
            raise GithubException(answer.status, answer.body, {})
        return {"etag": tag}, json.loads(json.dumps(answer.body)) if answer.body is not None else None

    def _fail(self, fault: Fault) -> None:
        if not fault.status:
            raise requests.ConnectionError("cut")
        if fault.status == HALF_CLOSED:
            self.world.clock.sleep(AT_ONCE.limit)
            raise requests.Timeout
        if fault.status == NO_DESCRIPTORS:
            raise RuntimeError("can't start new thread")
        if fault.status == 301:
            raise RecursionError("maximum recursion depth exceeded")
        if fault.status == 200:
            raise ValueError("not JSON")
        raise GithubException(fault.status, {"message": fault.message}, dict(fault.headers))


def _answer(github: GitHub, verb: str, path: str, body: Any) -> Answer:
    """The answer to one of the controller's requests."""
    target, _, query = path.removeprefix(f"/repos/{REPOSITORY}/actions/runners").partition("?")
    known = {"runner_id": target.strip("/")}
    pairs = {key: [value] for key, _, value in (one.partition("=") for one in query.split("&")) if key}
    request = Request(path=path, owner=REPOSITORY, known=known, query=pairs, body=body)
    if verb == "POST":
        return github.register(request)
    if not target:
        return github.list_runners(request)
    if not target.strip("/").isdecimal():
        return refusal(404, "Not Found")
    return github.read_runner(request) if verb == "GET" else github.remove(request)


class DirectClient(Client):
    """A client without PyGithub."""

    @property
    def github(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(requester=self.__dict__["requester"])


def controller_of(world: World, work: RunnerPlan, direct: Direct) -> Controller:
    """A controller whose requests go straight to the GitHub of `world`."""
    access = Access(api="https://api.github.com", repository=REPOSITORY, credential=Secret(TOKEN))
    direct.token = world.github.token

    def renewed() -> Access:
        direct.token = world.github.token
        return replace(access, credential=Secret(direct.token))

    client = DirectClient(access, say=world.said.append, clock=world.clock, patience=AT_ONCE, renewed=renewed)
    client.__dict__["requester"] = direct
    client.__dict__["_in_time"] = lambda ask: ask()  # no threads, so that a kill comes from the very call
    return Controller(work, world, Registrar(client), world.clock, world.said.append)


class FaultRun:
    """A run of `jobs` jobs; `faults` is the share of calls that fail."""

    def __init__(self, jobs: int, seed: int, *, slots: int = 4, faults: float = 0.2) -> None:
        self.jobs, self.seed, self.faults = jobs, seed, faults
        self.chance = random.Random(seed)  # noqa: S311 - no secret, but the same in every run
        self.world = World(github=GitHub(), logs=seed % 2 == 0)
        self.direct = Direct(self.world)
        self.work = replace(WORK, count=slots, longest=3600.0)
        self.turns = cycle(FAULTS)
        self.counts: Counter[str] = Counter()
        self.longest_stop = 0.0
        self.world.script = lambda _: self._life()
        self.world.doctor = lambda _: sick("it is lost") if self.chance.random() < 0.02 else HEALTHY
        self.world.chance = self._engine
        self.world.github.chance = self._github
        self.begun: set[int] = set()

    def run(self) -> None:
        """Runs until `jobs` jobs ended well, then stops without faults."""
        done = 0
        while done < self.jobs:
            controller = self._controller()
            done += self._while_up(controller, self.jobs - done)
        self.faults, self.work = 0.0, replace(self.work, count=1)
        self.world.free = FREE
        controller, end = self._controller(), self.world.clock.passed() + 4 * YOUNG
        while self.world.clock.passed() < end:
            self._step(controller)
        self._stopped(controller)
        self.world.clock.sleep(2 * NOTICED)

    @property
    def leaked(self) -> list[str]:
        """What is left at the end."""
        return [*self.world.containers, *(runner["name"] for runner in self.world.github.of())]

    def _controller(self) -> Controller:
        while True:
            controller = controller_of(self.world, self.work, self.direct)
            try:
                controller.adopt()
            except (InputError, Killed):  # the unit starts the controller again
                self.world.clock.sleep(30.0)
                continue
            return controller

    def _while_up(self, controller: Controller, jobs: int) -> int:
        """Runs until `jobs` jobs are done, or the controller is killed or stopped; returns the jobs done."""
        try:
            while controller.finished < jobs:
                self._step(controller)
                if self.faults and self.chance.random() < 0.0005:
                    self._stopped(controller)
                    break
                if all(slot.phase is Phase.DONE for slot in controller.slots):
                    self.counts["ended by a refused registration"] += 1
                    break
        except Killed:
            self.counts["kills"] += 1
        return controller.finished

    def _step(self, controller: Controller) -> None:
        if self.faults:
            self._disturb()
        controller.step()
        self.world.clock.sleep(5.0)
        self.begun |= {number for number, runner in self.world.github.runners.items() if runner["busy"]}
        del self.world.said[:-50]
        del self.world.clock.slept[:]

    def _disturb(self) -> None:
        """Now and then sets the wall clock wrong, fills the disk for a while, and replaces the token."""
        world, chance = self.world, self.chance.random()
        if chance < 0.0005:
            world.clock.off = self.chance.choice([-YEAR, 0.0, YEAR])
            self.counts["clock set"] += 1
        elif chance < 0.001:
            world.free = 0 if world.free else FREE
            self.counts["disk full"] += not world.free
        elif chance < 0.0015:
            self.counts["token replaced"] += 1
            world.github.token = f"{TOKEN}{self.counts['token replaced']}"

    def _stopped(self, controller: Controller) -> None:
        """SIGTERM: the controller ends within its grace, or the test fails."""
        self.counts["stops"] += 1
        since = self.world.clock.passed()
        controller.drain()
        while any(slot.phase is not Phase.DONE for slot in controller.slots):
            self._step(controller)
            self.longest_stop = max(self.longest_stop, self.world.clock.passed() - since)
            assert self.longest_stop < STOP, (self.seed, self.world.said)

    def _life(self) -> Script:
        return list(QUICK) if self.chance.random() >= self.faults else list(self.chance.choice(CRASHES))

    def _strike(self) -> None:
        if self.chance.random() < 0.001:
            raise Killed

    def _engine(self, _: str) -> str:
        if not self.faults:
            return ""
        self._strike()
        return self.chance.choice(["before", "after"]) if self.chance.random() < self.faults else ""

    def _github(self, *_: str) -> Fault | None:
        if not self.faults:
            return None
        self._strike()
        return next(self.turns) if self.chance.random() < self.faults else None


def main() -> None:
    """Prints the figures of a run."""
    jobs, seed = (int(word) for word in [*sys.argv[1:], "1"][:2])
    run = FaultRun(jobs, seed)
    run.run()
    print(f"seed {seed}; jobs given: {len(run.begun)}; orders: {len(run.world.orders)}; simulated: "
          f"{duration(run.world.clock.passed())}; {dict(run.counts)}")  # fmt: skip
    print(f"jobs that the controller cut short: {len(run.world.cut_short)}; left over: {run.leaked}")
    print(f"longest stop: {duration(run.longest_stop)}; most runners at a time: {run.world.most}")


if __name__ == "__main__":
    main()
