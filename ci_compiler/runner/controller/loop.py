"""The controller of a machine's runners: one registration and one fresh container per job, both removed afterwards.

Each slot repeats the same cycle: image -> GPUs -> disk space -> proof of health -> registration -> container -> one job
-> removal of both. A slot that fails at any step first removes whatever that step may have left, however often that
takes, and only then tries again, after a longer pause each time. The state of a job is in the labels of its container,
so a controller that restarts after being killed finds its jobs again.

On SIGTERM, idle runners are removed and running jobs finish. GitHub decides which is which: it refuses to remove the
registration of a busy runner, so no job can start in between. If GitHub does not answer, the runner itself decides; if
the engine does not answer either, the controller ends without them after `PATIENCE` seconds.

Neither is asked more often than it can take: the engine after a pause that doubles with every failure, GitHub once per
registration, and otherwise where the output of a runner does not answer the question (`runner_logs`): by conditional
requests, every few minutes (`slots.CHECK` and `slots.STEADY`), and as rarely as the fleet is large (`slots.SHARE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace

from ci_compiler.clock import Clock, back_off, minute_of
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, Finding, Place, wrong
from ci_compiler.github.errors import PASSING, GitHubError, Trouble
from ci_compiler.github.registration import Registrar, Registration, Removal
from ci_compiler.runner.controller import runner_logs
from ci_compiler.runner.controller.engine import (
    EngineError,
    InstanceStatus,
    JobNeeds,
    RunnerEngine,
    RunnerInstance,
    RunnerOrder,
    RunnerState,
)
from ci_compiler.runner.controller.quarantine import Quarantine, gpus_for
from ci_compiler.runner.controller.removal import GRACE, Remover, StillBusyError
from ci_compiler.runner.controller.runner_names import RunnerName
from ci_compiler.runner.controller.slots import (
    CHECK,
    FIRST_REFUSAL,
    LONGEST_REFUSAL,
    MEASURE,
    SHARE,
    STEADY,
    YOUNG,
    ControllerPart,
    Phase,
    RunnerPlan,
    Slot,
    pause_after,
)
from ci_compiler.units import duration, size

POLL = 5.0
"""Seconds between two listings of the containers."""

PATIENCE = 120.0
"""Seconds for which a step may keep failing while the controller stops."""

OUTDATED = 2 * LONGEST_REFUSAL
"""Seconds within which GitHub must serve some runner again after it has refused one, or the controller stops."""

FORGETTING = 1200.0
"""Seconds within which GitHub forgets a job whose runner is gone."""

PAGE = 2**16
"""The kernel rounds a bound for memory down to whole pages, the largest of which have so many bytes (aarch64)."""

STOP_PAUSE = 15.0
"""The most seconds between two attempts while the controller stops."""


class Controller(ControllerPart):
    """Keeps as many runners as its plan counts running until it is asked to stop."""

    def __init__(
        self, work: RunnerPlan, engine: RunnerEngine, github: Registrar, clock: Clock, say: Callable[[str], None]
    ) -> None:
        super().__init__(work, engine, github, clock, say)
        self.slots = [Slot(number=number) for number in range(1, work.count + 1)]
        self.finished = 0
        self._signalled = self._draining = self._aborting = self._registered = False
        self._refused_since: float | None = None
        self._outdated = ""
        self._stopping_since = self._listing_due = self._looks_due = 0.0
        self._silent_since: float | None = None
        self._silences = self._last_made = 0
        self._refused: GitHubError | None = None
        self._quarantine = Quarantine(work, engine, github, clock, say, self._further_slot)
        self._remover = Remover(work, engine, github, clock, say)
        engine.stopped = lambda: self._draining

    def drain(self) -> None:
        """Stops taking jobs and lets running jobs finish; a second call aborts them. Safe in a signal handler."""
        self._aborting = self._signalled
        self._signalled = self._draining = True
        self._stopping_since = self._stopping_since or self._clock.passed()

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
            place = Place(file=self._work.image or self._work.pool)
            return Finding(place=place, code=Code.RUNNER_OUTDATED, message=self._outdated)
        return None

    def adopt(self) -> None:
        """Takes over what an earlier controller of this pool left: running jobs continue, the rest is cleaned up."""
        try:
            instances = [runner for runner in self._engine.machines() if runner.pool == self._work.pool]
        except EngineError as error:
            raise wrong(self._work.pool, Code.ENGINE_FAILS, str(error)) from None
        free = {slot.number: slot for slot in self.slots}
        for instance in instances:
            if instance.scope in {"", self._work.scope}:
                slot = free.pop(instance.slot, None) or self._further_slot()
                slot.name, slot.registration, slot.gpus = instance.name, instance.registration, instance.gpus
                slot.enter(Phase.RUNNING if instance.registration else Phase.CLEANING)
                slot.since = self._clock.passed()
                self._say(f"{instance.name}: taken over from an earlier controller")
            elif instance.status is InstanceStatus.RUNNING:
                message = f"{instance.name} runs here for {instance.scope}; wait until it finishes"
                raise wrong(self._work.pool, Code.RUNS_ALREADY, message)

    def step(self) -> None:
        """Looks at everything once, and takes the next step of each slot."""
        if self._draining:
            self._hurry()
        else:
            self._sweep()
        instances = self._instances()
        for slot in list(self.slots):
            try:
                match slot.phase:
                    case Phase.FREE:
                        self._begin(slot)
                    case Phase.RUNNING:
                        self._watch(slot, instances)
                    case Phase.CLEANING:
                        self._clean(slot, instances)
                    case Phase.SHOWN if self._draining:
                        slot.enter(Phase.CLEANING)
            except (EngineError, GitHubError) as error:
                self._failed(slot, error)

    def _hurry(self) -> None:
        """Shortens the pauses that began before the stop; a rate limit alone can ask for an hour."""
        soon = self._clock.passed() + GRACE  # as long as a second look for a lost registration needs
        self._listing_due = min(self._listing_due, soon)
        for slot in self.slots:
            slot.next_cleanup = min(slot.next_cleanup, soon)

    def _sweep(self) -> None:
        """Queues the registrations that no slot knows for removal: an earlier controller left them, or a failure."""
        for runner in self._remover.leftovers(self.slots):
            slot = self._further_slot()
            slot.name, slot.registration = runner.name, runner.id
            slot.enter(Phase.CLEANING)
            self._say(f"{runner.name}: left over from an earlier controller")

    def _further_slot(self) -> Slot:
        slot = Slot(number=max(slot.number for slot in self.slots) + 1)
        self.slots = [one for one in self.slots if one.number <= self._work.count or one.phase is not Phase.DONE]
        self.slots.append(slot)
        return slot

    def _instances(self) -> Mapping[str, RunnerInstance] | None:
        """The containers by name; None if the engine fails, or is not due after a failure."""
        now = self._clock.passed()
        if now < self._listing_due:
            return None
        try:
            instances = {instance.name: instance for instance in self._engine.machines()}
        except EngineError as error:
            pause = pause_after(self._silences, self._work.host)
            self._silences += 1
            self._listing_due = now + pause
            self._silent_since = now if self._silent_since is None else self._silent_since
            self._say(f"{error}; asking again in {duration(pause)}")
            return None
        self._silences, self._silent_since = 0, None
        return instances

    # The cycle of a slot.

    def _begin(self, slot: Slot) -> None:
        if self._draining or slot.number > self._work.count:
            self._quarantine.unmark(slot)
            slot.enter(Phase.DONE)
            return
        order = self._order(slot)
        if self._clock.passed() < slot.next_round:
            self._quarantine.show(slot, order.name)
            return
        self._engine.prepare(order)
        why = gpus_for(slot, self.slots, order, self._work, self._engine)
        if not why:
            self._make_room(order)
            why = self._quarantine.problem(replace(order, gpus=slot.gpus), deep=slot.suspect)
        if why:
            if not self._draining:
                self._quarantine.failed_proof(slot, why)
            return
        self._quarantine.passed_proof(slot)
        if self._draining:
            return
        slot.name = order.name
        registration = self._register(slot)
        slot.registration, slot.may_be_registered = registration.id, False
        self._engine.start(replace(order, registration=registration.id, gpus=slot.gpus), registration.jit)
        slot.enter(Phase.RUNNING)
        slot.since = self._clock.passed()
        slot.next_look = slot.since + CHECK
        self._say(f"{slot.name}: waiting for a job")

    def _order(self, slot: Slot) -> RunnerOrder:
        work = self._work
        now = int(self._clock.now())
        self._last_made = now if self._last_made > now + YOUNG else max(now, self._last_made + 1)  # a clock set back
        name = RunnerName(host=work.host, slot=slot.number, made=self._last_made, pool=work.pool)
        needs = {field.name: getattr(work, field.name) for field in fields(JobNeeds)}
        needs["cores"] = max(1, work.cores // work.count) if work.count > 1 else 0
        needs["memory"] = -(-work.memory // (work.count * PAGE)) * PAGE
        return RunnerOrder(**needs, name=str(name), registration=0, slot=slot.number, gpus=())

    def _make_room(self, order: RunnerOrder) -> None:
        """Collects garbage in the slot's store if disk space is short. Raises EngineError if it stays short."""
        if (free := self._engine.room()) >= self._work.room:
            return
        self._say(f"slot {order.slot}: {size(free)} free of {size(self._work.room)}; collecting garbage")
        self._engine.collect_garbage(order)
        if (free := self._engine.room()) < self._work.room:
            raise EngineError(f"{size(free)} free and {size(self._work.room)} needed, with no more garbage to collect")

    def _register(self, slot: Slot) -> Registration:
        """Registers a runner. A refusal leaves nothing to clean up; a lasting one at the very first ends the run."""
        try:
            registration = self._github.register(slot.name, self._work.labels, self._work.group)
        except GitHubError as error:
            slot.may_be_registered = error.uncertain
            if not error.uncertain:
                slot.name = ""
            if not self._registered and error.trouble not in {*PASSING, Trouble.CONFLICT}:
                self._refused, self._draining = error, True
            raise
        self._registered = True
        return registration

    def _watch(self, slot: Slot, instances: Mapping[str, RunnerInstance] | None) -> None:
        now = self._clock.passed()
        if self._aborting:
            slot.enter(Phase.CLEANING)
        elif instances is None:
            self._unwatched(slot)
        elif (instance := instances.get(slot.name)) is None:
            self._give_up(slot, "its container is gone")
        elif instance.status is InstanceStatus.ENDED:
            self._ended(slot, instance.exit_code)
        elif slot.ending_since is not None:
            slot.overdue = now - slot.ending_since > (self._work.longest if slot.asked_to_end else GRACE)
            if slot.overdue:
                slot.enter(Phase.CLEANING)
        else:
            self._look(slot)
            self._measure(slot)
            if self._draining and slot.phase is Phase.RUNNING and not slot.kept and now >= slot.next_cleanup:
                self._remover.take_back(slot, unreachable=self._hopeless(slot))

    def _look(self, slot: Slot) -> None:
        """Looks at the runner if that is due, and gives up one that will not end by itself.

        Its own output is believed while it says that it is well, but for a look on GitHub now and then.
        """
        now, state = self._clock.passed(), None
        if now < slot.next_look:
            return
        if slot.away_since is None and now < max(slot.since, slot.asked) + max(STEADY, SHARE * self._work.fleet):
            state = self._output(slot)
        if state and state.online:
            slot.look(state, now)
        elif now < self._looks_due:
            return
        else:
            try:
                slot.look(self._github.runner(slot.registration), now)
                slot.asked = now
            except GitHubError as error:
                self._looks_due = now + max(CHECK, error.wait)
                self._say(f"{error.line}; asking again in {duration(self._looks_due - now)}")
                return
        if why := slot.stuck(self._clock.passed(), self._work.longest):
            slot.overdue = slot.busy_since is not None and slot.away_since is None
            self._give_up(slot, why)

    def _measure(self, slot: Slot) -> None:
        """Gives up a job that has written more than its share of the disk, which its neighbours need too."""
        now, most, written = self._clock.passed(), self._work.disk, 0
        if not most or now < slot.next_measure or slot.phase is not Phase.RUNNING:
            return
        slot.next_measure = now + MEASURE
        with suppress(EngineError):
            written = self._engine.written(slot.name)
        if written > most:
            slot.overdue = True
            self._give_up(slot, f"its job has written {size(written)}, and may write {size(most)}")

    def _unwatched(self, slot: Slot) -> None:
        """The engine does not answer. On stop, the controller ends without it after a while."""
        silent = self._silent_since
        if self._draining and silent and self._clock.passed() - max(silent, self._stopping_since) > PATIENCE:
            self._leave(slot, "the engine does not answer")

    def _ended(self, slot: Slot, code: int) -> None:
        slot.enter(Phase.CLEANING)
        words = ""
        with suppress(EngineError):
            slot.result, words = self._engine.job_failed(slot.name), self._engine.last_words(slot.name)
        if slot.ending_since is not None:
            slot.ended_well = slot.asked_to_end and not code
            return
        state = self._output(slot)
        said = f": {words}" if words else ""
        if slot.result is None and (code == ExitCode.RUNNER_DEPRECATED or runner_logs.refused(words)):
            self._refuse(slot, f"GitHub refused it (exit code {code}){said}")
        elif code or (state and state.busy):  # a power failure: the engine gives the code as 0
            self._give_up(slot, f"ended{'' if code else ' during its job'} with exit code {code}{said}")
        else:
            slot.ended_well = True
            if slot.result is None and words:
                slot.words = said
                self._keep_log(slot)

    def _refuse(self, slot: Slot, why: str) -> None:
        """GitHub refused the runner of `slot`: its version, or anything else. Others of the image may go on."""
        now = self._clock.passed()
        served = slot.connected or any(one.connected and one.phase is Phase.RUNNING for one in self.slots)
        if served or self._refused_since is None:
            self._refused_since = now
        pause = back_off(slot.strikes, first=FIRST_REFUSAL, most=LONGEST_REFUSAL, seed=self._work.host)
        self._give_up(slot, why, pause)
        if now - self._refused_since > OUTDATED and not self._draining:
            since = minute_of(self._clock.now() - (now - self._refused_since))
            self._outdated = (
                f"GitHub has served no runner of this version since {since}; use a newer image or archive; {why}"
            )
            self._draining = True

    def _output(self, slot: Slot) -> RunnerState | None:
        """What the output of the runner of `slot` says of it; None if nothing, or if it cannot be read."""
        with suppress(EngineError):
            return self._engine.state(slot.name)
        return None

    def _clean(self, slot: Slot, instances: Mapping[str, RunnerInstance] | None) -> None:
        """Removes the container and the registration; frees the slot once both are gone."""
        if self._clock.passed() < slot.next_cleanup:
            return
        if instances is None and not self._aborting:
            raise EngineError(f"{slot.name} cannot be removed, since the engine does not answer")
        instance = (instances or {}).get(slot.name)
        had_job = slot.ended_well and slot.result is not None
        removal = self._remover.clean(slot, instance, aborting=self._aborting, had_job=had_job)
        if removal is None:
            return
        if had_job or (slot.ended_well and removal is Removal.ABSENT and not slot.words):
            self.finished, self._refused_since = self.finished + 1, None
            self._say(f"{slot.name}: job done after {duration(self._clock.passed() - slot.since)}")
            self._quarantine.ended_job(slot, failed=bool(slot.result))
        elif slot.ended_well:
            # run.sh exits with 0 for most of its failures, and GitHub forgets a runner for other reasons than its job.
            slot.next_round = self._clock.passed() + slot.failed(self._work.host)
            self._say(f"{slot.name}: ended without a job{slot.words}")
            self._quarantine.failed_runner(slot, f"it ended without a job{slot.words}")
        slot.forget()

    # Failures.

    def _keep_log(self, slot: Slot) -> None:
        try:
            self._engine.keep_log(slot.name)
        except EngineError as error:
            self._say(f"{slot.name}: its log is not kept: {error}")

    def _give_up(self, slot: Slot, why: str, least: float = 0.0) -> None:
        """Cleans up a runner that is of no more use; the next one starts after a pause."""
        pause = slot.failed(self._work.host, least)
        slot.next_round = self._clock.passed() + pause
        slot.enter(Phase.CLEANING)
        self._keep_log(slot)
        self._say(f"{slot.name}: {why}; the next one starts in {duration(pause)}")
        self._quarantine.failed_runner(slot, why)

    def _failed(self, slot: Slot, error: EngineError | GitHubError) -> None:
        """Handles a failed step of `slot`: cleans up at once what it may have left, tries again after a pause."""
        line, wait = (error.line, error.wait) if isinstance(error, GitHubError) else (str(error), 0.0)
        now = self._clock.passed()
        pause = slot.failed(self._work.host, wait)
        if self._draining:
            pause = min(pause, STOP_PAUSE)
        if slot.trouble_since is None:
            slot.trouble_since = now
        if slot.phase is Phase.FREE:
            slot.next_round = now + pause
            if slot.name:
                slot.enter(Phase.CLEANING)
            if isinstance(error, EngineError):
                self._quarantine.failed_runner(slot, line)
        else:
            slot.next_cleanup = now + pause
        stays = slot.phase is Phase.CLEANING or (slot.phase is Phase.RUNNING and isinstance(error, EngineError))
        if self._draining and stays and self._hopeless(slot, error):
            self._leave(slot, line)
        elif not self._refused:
            self._say(f"{line}; trying again in {duration(pause)}")

    def _hopeless(self, slot: Slot, error: EngineError | GitHubError | None = None) -> bool:
        """Whether a step that fails while the controller stops is not to be tried again."""
        lasting = isinstance(error, GitHubError) and error.trouble not in PASSING
        since = slot.trouble_since
        patience = FORGETTING if isinstance(error, StillBusyError) else PATIENCE
        return self._aborting or lasting or (since is not None and self._clock.passed() - since > patience)

    def _leave(self, slot: Slot, why: str) -> None:
        """Ends a slot that cannot be cleaned up. Without a registration, at least, its runner gets no job."""
        with suppress(GitHubError):
            if slot.registration:
                self._github.remove(slot.registration)
        self._say(f"{why}; {slot.name} may be left over: `ci-runner prune` removes it")
        slot.enter(Phase.DONE)
