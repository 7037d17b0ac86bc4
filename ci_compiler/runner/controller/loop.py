"""The controller of a machine's runners: a registration and a fresh container for every job, and neither left over.

Each slot goes round: room -> image -> registration -> container -> one job -> both removed. Nothing is forgotten before
it is gone: a slot that failed at any step first removes what that step may have left, however long GitHub or the engine
takes to let it, and only then tries again, later each time. The state of a job is in the labels of its container, so
that a controller that was killed finds its jobs again.

On SIGTERM idle runners are taken back and running jobs finish. GitHub itself tells which is which: it refuses to remove
the registration of a runner that is at work, so that no job can slip in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Never, Protocol

from ci_compiler.clock import Clock, back_off, span
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, Finding, Place, wrong
from ci_compiler.github.errors import PASSING, GitHubError, Trouble
from ci_compiler.github.inventory import Runner
from ci_compiler.github.registration import Registration, Removal
from ci_compiler.runner.controller.containers import (
    EngineError,
    InstanceStatus,
    RunnerEngine,
    RunnerInstance,
    RunnerOrder,
)
from ci_compiler.runner.controller.runner_names import RunnerName, read_name
from ci_compiler.runner.controller.slots import READY, Phase, RunnerPlan, Slot

POLL = 5.0
"""Seconds between two looks at the containers."""

CHECK = 120.0
"""Seconds between two looks at the registrations: one request each, of the 5,000 an hour that a token has."""

GRACE = 30.0
"""Seconds that an idle runner gets to end by itself."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds to wait behind a slot's first failure, and at the most."""

MOST_FAILURES = 12
"""Failures of one slot's cleaning after which a controller that was told to stop leaves it to `ci-runner prune`."""


class Registrations(Protocol):
    """What the controller asks of GitHub (`ci_compiler.github.registration.Registrar`). Each raises GitHubError."""

    def register(self, name: str, labels: tuple[str, ...], group: int) -> Registration:
        """A new registration."""

    def named(self, name: str) -> Runner | None:
        """The registration called `name`."""

    def runners(self) -> Iterable[Runner]:
        """All of them."""

    def remove(self, runner: int) -> Removal:
        """Removes one that is not at work."""


class Controller:
    """Keeps `work.count` runners going until it is told to stop. `say` gets lines for people."""

    def __init__(
        self, work: RunnerPlan, engine: RunnerEngine, github: Registrations, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self.work = work
        self.slots = [Slot(number=number) for number in range(1, work.count + 1)]
        self.finished = 0
        self._told = False
        self._draining = False
        self._aborting = False
        self._outdated = False
        self._refused: GitHubError | None = None
        self._engine = engine
        self._github = github
        self._clock = clock
        self._say = say
        self._began = clock.now()
        self._last_made = 0
        self._registered = False
        self._swept = False
        self._check_due = 0.0
        self._look_due = 0.0
        self._look_failures = 0

    def drain(self) -> None:
        """No new jobs; the running ones finish. A second time: nothing finishes. For a signal's handler."""
        self._aborting = self._told
        self._told = self._draining = True

    def run(self) -> Finding | None:
        """Works until it is drained; what stopped it otherwise, if something did.

        Raises GitHubError where GitHub refuses the first registration for a reason that does not pass by itself, and
        InputError where the engine does not work at all.
        """
        self.adopt()
        self.step()
        while any(slot.phase is not Phase.DONE for slot in self.slots):
            self._clock.sleep(POLL)
            self.step()
        if self._refused:
            raise self._refused
        if self._outdated:
            message = "GitHub no longer serves this version of the runner; take a newer image (or archive)"
            return Finding(
                place=Place(file=self.work.image or self.work.pool), code=Code.RUNNER_OUTDATED, message=message
            )
        return None

    def adopt(self) -> None:
        """Takes over what an earlier controller of this pool left here: its jobs go on, or are cleaned up after."""
        try:
            machines = [machine for machine in self._engine.machines() if machine.pool == self.work.pool]
        except EngineError as error:
            self._cannot(Code.ENGINE_FAILS, str(error))
        free = {slot.number: slot for slot in self.slots}
        for machine in machines:
            if machine.scope in {"", self.work.scope}:
                slot = free.pop(machine.slot, None) or self._further_slot()
                slot.name, slot.registration = machine.name, machine.registration
                slot.phase = Phase.RUNNING if machine.registration else Phase.CLEANING
                slot.since = self._clock.passed()
                self._say(f"{machine.name}: taken over from an earlier controller")
            elif machine.status is InstanceStatus.RUNNING:
                self._cannot(Code.RUNS_ALREADY, f"{machine.name} runs here for {machine.scope}; let it finish first")

    def _cannot(self, code: Code, message: str) -> Never:
        raise wrong(self.work.pool, code, message)

    def step(self) -> None:
        """One look at everything, and for each slot what is next."""
        machines, runners = self._machines(), self._runners()
        for slot in list(self.slots):
            try:
                match slot.phase:
                    case Phase.FREE:
                        self._begin(slot)
                    case Phase.RUNNING:
                        self._watch(slot, machines, runners)
                    case Phase.CLEANING:
                        self._clean(slot)
            except (EngineError, GitHubError) as error:
                self._failed(slot, error)

    # Looking.

    def _machines(self) -> Mapping[str, RunnerInstance] | None:
        """The containers by name; None where the engine does not say, or shall not be asked again yet."""
        now = self._clock.passed()
        if now < self._look_due:
            return None
        try:
            found = {machine.name: machine for machine in self._engine.machines()}
        except EngineError as error:
            pause = self._pause(self._look_failures)
            self._look_failures += 1
            self._look_due = now + pause
            self._say(f"{error}; asking again in {span(pause)}")
            return None
        self._look_failures = 0
        return found

    def _runners(self) -> Mapping[int, Runner] | None:
        """The registrations by id, now and then; None where they were not asked for."""
        now = self._clock.passed()
        watched = any(slot.phase is Phase.RUNNING for slot in self.slots)
        if now < self._check_due or (self._swept and not watched):
            return None
        self._check_due = now + CHECK
        try:
            found = {runner.id: runner for runner in self._github.runners()}
        except GitHubError as error:
            self._check_due = now + max(CHECK, error.wait)
            self._say(f"{error.line}; asking again in {span(self._check_due - now)}")
            return None
        if not self._swept:
            self._sweep(found.values())
        return found

    def _sweep(self, runners: Iterable[Runner]) -> None:
        """Registrations that a controller of this machine and pool left behind are removed like a slot's own."""
        self._swept = True
        taken = {slot.registration for slot in self.slots}
        for runner in runners:
            name = read_name(runner.name)
            if name is None or runner.online or runner.busy or runner.id in taken:
                continue
            mine = runner.name == str(replace(name, host=self.work.host, pool=self.work.pool))
            if mine and name.made < self._began - READY:
                slot = self._further_slot()
                slot.phase, slot.name, slot.registration = Phase.CLEANING, runner.name, runner.id
                self._say(f"{runner.name}: left over from an earlier controller")

    def _further_slot(self) -> Slot:
        slot = Slot(number=max(slot.number for slot in self.slots) + 1)
        self.slots.append(slot)
        return slot

    # A slot's round.

    def _begin(self, slot: Slot) -> None:
        if self._draining or slot.number > self.work.count:
            slot.phase = Phase.DONE
            return
        if self._clock.passed() < slot.rest:
            return
        order = self._order(slot)
        self._engine.prepare(order)
        self._make_room(order)
        if self._draining:
            return
        slot.name = order.name
        registration = self._register(slot)
        slot.registration, slot.doubt = registration.id, False
        self._engine.start(replace(order, registration=registration.id), registration.jit)
        slot.phase, slot.since = Phase.RUNNING, self._clock.passed()
        self._say(f"{slot.name}: waiting for a job")

    def _order(self, slot: Slot) -> RunnerOrder:
        self._last_made = max(int(self._clock.now()), self._last_made + 1)
        name = RunnerName(host=self.work.host, slot=slot.number, made=self._last_made, pool=self.work.pool)
        shared = str(slot.number - 1) if self.work.count > 1 else "all"
        return RunnerOrder(
            name=str(name),
            registration=0,
            scope=self.work.scope,
            pool=self.work.pool,
            slot=slot.number,
            image=self.work.image,
            gpus=shared if self.work.gpus else "",
            builds=self.work.builds,
            room=self.work.room,
            cores=max(1, self.work.cores // self.work.count) if self.work.count > 1 else 0,
        )

    def _make_room(self, order: RunnerOrder) -> None:
        """Garbage is collected before a job, in the slot's own store, when space is short. Raises EngineError."""
        if (free := self._engine.room()) >= self.work.room:
            return
        self._say(f"slot {order.slot}: {_gigabytes(free)} free of {_gigabytes(self.work.room)}; collecting garbage")
        self._engine.collect_garbage(order)
        if (free := self._engine.room()) < self.work.room:
            message = (
                f"{_gigabytes(free)} free and {_gigabytes(self.work.room)} needed, with no more garbage to collect"
            )
            raise EngineError(message)

    def _register(self, slot: Slot) -> Registration:
        """Registers. A refusal leaves nothing to clean up; the first one of all that does not pass ends the work."""
        try:
            made = self._github.register(slot.name, self.work.labels, self.work.group)
        except GitHubError as error:
            slot.doubt = error.uncertain
            if not error.uncertain:
                slot.name = ""
            if not self._registered and error.trouble not in {*PASSING, Trouble.CONFLICT}:
                self._refused, self._draining = error, True
            raise
        self._registered = True
        return made

    def _watch(
        self, slot: Slot, machines: Mapping[str, RunnerInstance] | None, runners: Mapping[int, Runner] | None
    ) -> None:
        if self._aborting:
            slot.phase = Phase.CLEANING
            return
        if machines is None:
            return
        machine = machines.get(slot.name)
        if machine is None:
            self._give_up(slot, "its container is gone")
        elif machine.status is InstanceStatus.ENDED:
            self._ended(slot, machine.exit_code)
        elif slot.ending_since is not None:
            if self._clock.passed() - slot.ending_since > GRACE:
                slot.phase = Phase.CLEANING
        else:
            if runners is not None:
                self._check(slot, runners.get(slot.registration))
            if self._draining and slot.phase is Phase.RUNNING and not slot.kept:
                self._take_back(slot)

    def _ended(self, slot: Slot, code: int) -> None:
        slot.phase = Phase.CLEANING
        if slot.ending_since is not None:
            return
        if code == ExitCode.RUNNER_DEPRECATED:
            self._outdated = self._draining = True
        elif code:
            words = self._engine.last_words(slot.name)
            self._give_up(slot, f"ended with exit code {code}" + (f": {words}" if words else ""))
        else:
            slot.ended_well = True

    def _check(self, slot: Slot, runner: Runner | None) -> None:
        slot.look(runner, self._clock.passed())
        if why := slot.stuck(self._clock.passed(), self.work.longest):
            self._give_up(slot, why)

    def _take_back(self, slot: Slot) -> None:
        """Ends an idle runner; GitHub refuses to let go of one that is at work."""
        if self._clock.passed() < slot.due:
            return
        removal = self._github.remove(slot.registration)
        if removal is Removal.REMOVED:
            slot.ending_since = self._clock.passed()
            self._engine.end(slot.name)
        else:
            slot.kept = True
            self._say(f"{slot.name}: finishing its job")

    def _clean(self, slot: Slot) -> None:
        """Removes the container and the registration; the slot is free only when both are gone."""
        now = self._clock.passed()
        if now < slot.due:
            return
        self._engine.remove(slot.name)
        if not slot.registration and slot.doubt:
            found = self._github.named(slot.name)
            if found is None:
                # GitHub may still be at it: it counts as absent when it is so for the second time.
                slot.doubt, slot.due = False, now + GRACE
                return
            slot.registration = found.id
        removal = self._github.remove(slot.registration) if slot.registration else Removal.ABSENT
        if removal is Removal.BUSY:
            message = f"{slot.name}: gone from here, and GitHub still counts it as at work"
            raise EngineError(message)
        # GitHub says "not found" to a token that may not remove, too; then it refuses the list as well.
        if removal is Removal.ABSENT and slot.registration and self._github.named(slot.name):
            message = f"{slot.name}: GitHub did not find what it lists"
            raise EngineError(message)
        self._free(slot, removal)

    def _free(self, slot: Slot, removal: Removal) -> None:
        if slot.ended_well and removal is Removal.ABSENT:
            self.finished += 1
            slot.failures = 0
            self._say(f"{slot.name}: job done after {span(self._clock.passed() - slot.since)}")
        elif slot.ended_well:
            # run.sh ends with 0 for most of its failures; GitHub forgets only the runner that had its job.
            slot.rest = self._clock.passed() + self._pause(slot.failures)
            slot.failures += 1
            self._say(f"{slot.name}: ended without a job")
        slot.forget()

    # Trouble.

    def _give_up(self, slot: Slot, why: str) -> None:
        """The runner of `slot` is no more of use: it is cleaned away, and the next one waits."""
        pause = self._pause(slot.failures)
        slot.failures += 1
        slot.rest = self._clock.passed() + pause
        slot.phase = Phase.CLEANING
        self._say(f"{slot.name}: {why}; the next one comes in {span(pause)}")

    def _failed(self, slot: Slot, error: EngineError | GitHubError) -> None:
        """A step of `slot` failed: what it may have left is cleaned up at once, the next attempt waits."""
        line, wait = (error.line, error.wait) if isinstance(error, GitHubError) else (str(error), 0.0)
        pause = max(self._pause(slot.failures), wait)
        slot.failures += 1
        now = self._clock.passed()
        if slot.phase is Phase.FREE:
            slot.rest = now + pause
            if slot.name:
                slot.phase = Phase.CLEANING
        else:
            slot.due = now + pause
        if self._draining and slot.phase is Phase.CLEANING and self._hopeless(slot, error):
            self._say(f"{line}; {slot.name} may be left over: `ci-runner prune` removes it")
            slot.phase = Phase.DONE
        elif not self._refused:
            self._say(f"{line}; going on in {span(pause)}")

    def _hopeless(self, slot: Slot, error: EngineError | GitHubError) -> bool:
        lasting = isinstance(error, GitHubError) and error.trouble not in PASSING
        return self._aborting or lasting or slot.failures >= MOST_FAILURES

    def _pause(self, failures: int) -> float:
        return back_off(failures, first=FIRST_PAUSE, most=LONGEST_PAUSE, seed=self.work.host)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.0f} GB"
