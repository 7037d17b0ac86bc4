"""The controller of a machine's runners: one registration and one fresh container per job, both removed afterwards.

Each slot repeats the same cycle: disk space -> image -> registration -> container -> one job -> removal of both. A slot
that fails at any step first removes whatever that step may have left, however often that takes, and only then tries
again, after a longer pause each time. The state of a job is in the labels of its container, so a controller that
restarts after being killed finds its jobs again.

On SIGTERM, idle runners are removed and running jobs finish. GitHub decides which is which: it refuses to remove the
registration of a busy runner, so no job can start in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from ci_compiler.clock import Clock
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, Finding, Place, wrong
from ci_compiler.github.errors import PASSING, GitHubError, Trouble
from ci_compiler.github.inventory import Runner
from ci_compiler.github.registration import Registrar, Registration, Removal
from ci_compiler.runner.controller.containers import (
    EngineError,
    InstanceStatus,
    RunnerInstance,
    RunnerOrder,
)
from ci_compiler.runner.controller.observer import Observer
from ci_compiler.runner.controller.runner_engine import RunnerEngine
from ci_compiler.runner.controller.runner_names import RunnerName, read_name
from ci_compiler.runner.controller.slots import READY, Phase, RunnerPlan, Slot
from ci_compiler.units import duration, size

POLL = 5.0
"""Seconds between two listings of the containers."""

GRACE = 30.0
"""Seconds that an idle runner gets to exit by itself."""

MOST_FAILURES = 12
"""Failed cleanups of a slot after which a controller that is shutting down leaves the rest to `ci-runner prune`."""


class Controller:
    """Keeps `work.count` runners running until it is asked to stop. `say` receives its messages."""

    def __init__(
        self, work: RunnerPlan, engine: RunnerEngine, github: Registrar, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self.work = work
        self.slots = [Slot(number=number) for number in range(1, work.count + 1)]
        self.finished = 0
        self._signalled = False
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
        self._observer = Observer(engine.machines, github.runners, clock, say, work.host)

    def drain(self) -> None:
        """Stops taking jobs and lets running jobs finish; a second call aborts them. Safe in a signal handler."""
        self._aborting = self._signalled
        self._signalled = self._draining = True

    def run(self) -> Finding | None:
        """Runs until it is drained; returns a finding if something else stopped it.

        Raises GitHubError if GitHub refuses the first registration for a lasting reason, and InputError if the engine
        does not work.
        """
        self.adopt()
        self.step()
        while any(slot.phase is not Phase.DONE for slot in self.slots):
            self._clock.sleep(POLL)
            self.step()
        if self._refused:
            raise self._refused
        if self._outdated:
            message = "GitHub no longer serves this version of the runner; use a newer image or archive"
            return Finding(
                place=Place(file=self.work.image or self.work.pool), code=Code.RUNNER_OUTDATED, message=message
            )
        return None

    def adopt(self) -> None:
        """Takes over what an earlier controller of this pool left: running jobs continue, the rest is cleaned up."""
        try:
            instances = [one for one in self._engine.machines() if one.pool == self.work.pool]
        except EngineError as error:
            raise wrong(self.work.pool, Code.ENGINE_FAILS, str(error)) from None
        free = {slot.number: slot for slot in self.slots}
        for instance in instances:
            if instance.scope in {"", self.work.scope}:
                slot = free.pop(instance.slot, None) or self._further_slot()
                slot.name, slot.registration = instance.name, instance.registration
                slot.phase = Phase.RUNNING if instance.registration else Phase.CLEANING
                slot.since = self._clock.passed()
                self._say(f"{instance.name}: taken over from an earlier controller")
            elif instance.status is InstanceStatus.RUNNING:
                message = f"{instance.name} runs here for {instance.scope}; wait until it finishes"
                raise wrong(self.work.pool, Code.RUNS_ALREADY, message)

    def step(self) -> None:
        """Looks at everything once, and takes the next step of each slot."""
        instances, runners = self._observer.instances(), self._runners()
        for slot in list(self.slots):
            try:
                match slot.phase:
                    case Phase.FREE:
                        self._begin(slot)
                    case Phase.RUNNING:
                        self._watch(slot, instances, runners)
                    case Phase.CLEANING:
                        self._clean(slot)
            except (EngineError, GitHubError) as error:
                self._failed(slot, error)

    def _runners(self) -> Mapping[int, Runner] | None:
        """The registrations by id, if they are due and anything depends on them."""
        if self._swept and not any(slot.phase is Phase.RUNNING for slot in self.slots):
            return None
        found = self._observer.registrations()
        if found is not None and not self._swept:
            self._sweep(found.values())
        return found

    def _sweep(self, runners: Iterable[Runner]) -> None:
        """Queues the registrations that an earlier controller of this machine and pool left, for removal."""
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

    # The cycle of a slot.

    def _begin(self, slot: Slot) -> None:
        if self._draining or slot.number > self.work.count:
            slot.phase = Phase.DONE
            return
        if self._clock.passed() < slot.next_round:
            return
        order = self._order(slot)
        self._engine.prepare(order)
        self._make_room(order)
        if self._draining:
            return
        slot.name = order.name
        registration = self._register(slot)
        slot.registration, slot.may_be_registered = registration.id, False
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
            store=self.work.store,
            fresh_store=self.work.fresh_store,
            trusted_keys=self.work.trusted_keys,
        )

    def _make_room(self, order: RunnerOrder) -> None:
        """Collects garbage in the slot's store if disk space is short. Raises EngineError if it stays short."""
        if (free := self._engine.room()) >= self.work.room:
            return
        self._say(f"slot {order.slot}: {size(free)} free of {size(self.work.room)}; collecting garbage")
        self._engine.collect_garbage(order)
        if (free := self._engine.room()) < self.work.room:
            raise EngineError(f"{size(free)} free and {size(self.work.room)} needed, with no more garbage to collect")

    def _register(self, slot: Slot) -> Registration:
        """Registers a runner. A refusal leaves nothing to clean up; a lasting one at the very first ends the run."""
        try:
            made = self._github.register(slot.name, self.work.labels, self.work.group)
        except GitHubError as error:
            slot.may_be_registered = error.uncertain
            if not error.uncertain:
                slot.name = ""
            if not self._registered and error.trouble not in {*PASSING, Trouble.CONFLICT}:
                self._refused, self._draining = error, True
            raise
        self._registered = True
        return made

    def _watch(
        self, slot: Slot, instances: Mapping[str, RunnerInstance] | None, runners: Mapping[int, Runner] | None
    ) -> None:
        if self._aborting:
            slot.phase = Phase.CLEANING
            return
        if instances is None:
            return
        instance = instances.get(slot.name)
        if instance is None:
            self._give_up(slot, "its container is gone")
        elif instance.status is InstanceStatus.ENDED:
            self._ended(slot, instance.exit_code)
        elif slot.ending_since is not None:
            if self._clock.passed() - slot.ending_since > GRACE:
                slot.phase = Phase.CLEANING
        else:
            if runners is not None:
                slot.look(runners.get(slot.registration), self._clock.passed())
                if why := slot.stuck(self._clock.passed(), self.work.longest):
                    self._give_up(slot, why)
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

    def _take_back(self, slot: Slot) -> None:
        """Ends an idle runner; GitHub refuses to remove the registration of a busy one."""
        if self._clock.passed() < slot.next_cleanup:
            return
        removal = self._github.remove(slot.registration)
        if removal is Removal.REMOVED:
            slot.ending_since = self._clock.passed()
            self._engine.end(slot.name)
        else:
            slot.kept = True
            self._say(f"{slot.name}: finishing its job")

    def _clean(self, slot: Slot) -> None:
        """Removes the container and the registration; frees the slot once both are gone."""
        now = self._clock.passed()
        if now < slot.next_cleanup:
            return
        self._engine.remove(slot.name)
        if not slot.registration and slot.may_be_registered:
            found = self._github.named(slot.name)
            if found is None:
                # GitHub may still be creating it: only a second look proves that it is absent.
                slot.may_be_registered, slot.next_cleanup = False, now + GRACE
                return
            slot.registration = found.id
        removal = self._github.remove(slot.registration) if slot.registration else Removal.ABSENT
        if removal is Removal.BUSY:
            raise EngineError(f"{slot.name}: its container is gone, but GitHub still counts it as busy")
        # "Not found" also answers a token that may not remove runners; such a token cannot list them either.
        if removal is Removal.ABSENT and slot.registration and self._github.named(slot.name):
            raise EngineError(f"{slot.name}: GitHub lists it but does not find it")
        self._free(slot, removal)

    def _free(self, slot: Slot, removal: Removal) -> None:
        if slot.ended_well and removal is Removal.ABSENT:
            self.finished += 1
            slot.failures = 0
            self._say(f"{slot.name}: job done after {duration(self._clock.passed() - slot.since)}")
        elif slot.ended_well:
            # run.sh exits with 0 for most of its failures; GitHub forgets only a runner that had its job.
            slot.next_round = self._clock.passed() + slot.failed(self.work.host)
            self._say(f"{slot.name}: ended without a job")
        slot.forget()

    # Failures.

    def _give_up(self, slot: Slot, why: str) -> None:
        """Cleans up a runner that is of no more use; the next one starts after a pause."""
        pause = slot.failed(self.work.host)
        slot.next_round = self._clock.passed() + pause
        slot.phase = Phase.CLEANING
        with suppress(EngineError):
            self._engine.keep_log(slot.name)
        self._say(f"{slot.name}: {why}; the next one starts in {duration(pause)}")

    def _failed(self, slot: Slot, error: EngineError | GitHubError) -> None:
        """Handles a failed step of `slot`: cleans up at once what it may have left, tries again after a pause."""
        line, wait = (error.line, error.wait) if isinstance(error, GitHubError) else (str(error), 0.0)
        pause = slot.failed(self.work.host, wait)
        now = self._clock.passed()
        if slot.phase is Phase.FREE:
            slot.next_round = now + pause
            if slot.name:
                slot.phase = Phase.CLEANING
        else:
            slot.next_cleanup = now + pause
        if self._draining and slot.phase is Phase.CLEANING and self._hopeless(slot, error):
            self._say(f"{line}; {slot.name} may be left over: `ci-runner prune` removes it")
            slot.phase = Phase.DONE
        elif not self._refused:
            self._say(f"{line}; trying again in {duration(pause)}")

    def _hopeless(self, slot: Slot, error: EngineError | GitHubError) -> bool:
        lasting = isinstance(error, GitHubError) and error.trouble not in PASSING
        return self._aborting or lasting or slot.failures >= MOST_FAILURES
