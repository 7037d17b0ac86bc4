"""Quarantine: a slot proves that it is healthy before each registration, and takes no job while it is not.

The proof is the verdict of the host's health service, where there is one (`runner.host_health`), and `ci-runner doctor`
in the image, with the GPUs, bounds and store of a job. After a job or a runner that
failed, it is the deeper one (`--deep`). A failed job alone keeps no slot from its next job: most fail for their commit.
A slot in quarantine shows as an offline runner with the label `quarantined`, which no job asks for. `list`,
`coverage --live` and `fleet-watch` see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ci_compiler.clock import back_off
from ci_compiler.github.errors import GitHubError
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.judgement import CheckVerdict
from ci_compiler.process import Ended
from ci_compiler.runner import host_health
from ci_compiler.runner.controller.answers import NAME, from_toolkit, last_line, matched
from ci_compiler.runner.controller.engine import EngineError, RunnerEngine, RunnerOrder
from ci_compiler.runner.controller.runner_names import QUARANTINED
from ci_compiler.runner.controller.slots import ControllerPart, Phase, RunnerPlan, Slot

FAILURES = 3
"""Runners that fail in a row until their slot shows as quarantined, though it keeps trying."""

FIRST_CHECK, LONGEST_CHECK = 60.0, 900.0
"""Seconds until a slot that failed its proof is checked again: at first, and at most."""


ALL = ("all",)
"""Every GPU of the machine, for `RunnerOrder.gpus`."""


@dataclass(slots=True)
class Quarantine(ControllerPart):
    """The quarantine of a pool's slots. `_further` makes a slot that is only cleaned up."""

    _further: Callable[[], Slot]

    def problem(self, order: RunnerOrder, *, deep: bool) -> str:
        """Why the slot of `order` is not healthy; '' if it is. Raises EngineError."""
        work = self._work
        family = work.family if work.gpu else ""
        if work.health and (
            why := host_health.problem(work.health, family=family, gpus=order.gpus, now=self._clock.now())
        ):
            return why
        arguments = ("doctor", "--pool", self._work.pool, "--spec", "-", "--json", *(("--deep",) if deep else ()))
        return problem_in(self._engine.toolkit(order, arguments, self._work.spec))

    def failed_proof(self, slot: Slot, why: str) -> None:
        """`slot` is not healthy. A fault may concern its GPUs, so it gives them back."""
        pause = back_off(slot.checks, first=FIRST_CHECK, most=LONGEST_CHECK, seed=self._work.host)
        slot.checks += 1
        slot.refused, slot.gpus = slot.refused.union(slot.gpus), ()
        self._enter(slot, why, pause)

    def passed_proof(self, slot: Slot) -> None:
        """`slot` is healthy, as far as a proof can tell."""
        slot.checks, slot.suspect = 0, False
        if slot.strikes < FAILURES:
            self.leave(slot)

    def failed_runner(self, slot: Slot, why: str) -> None:
        """The machine failed the runner of `slot`, which waits before the next one."""
        slot.strikes, slot.suspect = slot.strikes + 1, True
        if slot.strikes >= FAILURES:
            self._enter(slot, f"{slot.strikes} runners failed in a row; the last: {why}", 0.0)

    def ended_job(self, slot: Slot, *, failed: bool) -> None:
        """A job of `slot` ended, so its runner worked."""
        slot.failures = slot.strikes = 0
        slot.suspect = failed
        if failed:
            self._say(f"{slot.name}: its job failed; examining the machine before the next one")
        else:
            self.leave(slot)

    def leave(self, slot: Slot) -> None:
        """Ends the quarantine of `slot`, if it is in one."""
        if slot.sick:
            self._say(f"slot {slot.number}: healthy again")
        slot.sick = ""
        self.unmark(slot)

    def unmark(self, slot: Slot) -> None:
        """Has the registration removed that shows the quarantine."""
        if slot.mark and slot.mark.phase is Phase.SHOWN:
            slot.mark.enter(Phase.CLEANING)
        slot.mark = None

    def show(self, slot: Slot, name: str) -> None:
        """Registers the runner `name`, which is never started, to show that `slot` is in quarantine."""
        if not slot.sick or slot.mark:
            return
        slot.mark = mark = self._further()
        mark.name = name
        try:
            mark.registration = self._github.register(name, (QUARANTINED,), self._work.group).id
            mark.enter(Phase.SHOWN)
        except GitHubError as error:
            mark.may_be_registered = error.uncertain
            mark.enter(Phase.CLEANING if error.uncertain else Phase.DONE)

    def _enter(self, slot: Slot, why: str, pause: float) -> None:
        """Quarantines `slot`, and reports it once."""
        slot.next_round = max(slot.next_round, self._clock.passed() + pause)
        if not slot.sick:
            self._say(f"slot {slot.number}: in quarantine: {why}")
        slot.sick = why


def problem_in(answer: Ended) -> str:
    """What failed in the answer of `ci-runner doctor --json`, on one line; '' if nothing did."""
    try:
        return from_toolkit(answer, _failed_checks, "the doctor of the image fails")
    except EngineError as error:
        return str(error)


def _failed_checks(answer: Any) -> str:
    checks = [(CheckVerdict(one["verdict"]), one["check"] + ": " + one["message"]) for one in answer["checks"]]
    if not checks:
        raise ValueError(answer)
    return "; ".join(last_line(said) for verdict, said in checks if verdict is CheckVerdict.FAILED)


def gpus_for(slot: Slot, slots: Iterable[Slot], order: RunnerOrder, work: RunnerPlan, engine: RunnerEngine) -> str:
    """Gives `slot` the GPUs that its pool declares; returns why it cannot, or ''. Raises EngineError.

    They are given by UUID, so that a lost GPU does not shift those of the other slots, and those with which the slot
    failed a proof come last. A slot of a family that lists none has those of the machine.
    """
    if not work.gpus or not machines_of(work.family).lists or len(slot.gpus) == work.gpus:
        return ""
    taken = {gpu for other in slots if other is not slot for gpu in other.gpus}
    answer = engine.toolkit(replace(order, gpus=ALL), ("detect", "--json"))
    found, problems = from_toolkit(answer, lambda machine: _units(machine, work.gpu), "the image cannot list the GPUs")
    free = [gpu for gpu in found if gpu not in taken]
    if len(free) < work.gpus:
        here = f"{len(found)} found, {len(found) - len(free)} of them in use"
        counted = [] if problems and not found else [f"{work.gpus} GPUs of {work.gpu} are needed: {here}"]
        return last_line("; ".join([*counted, *problems]))
    slot.gpus = tuple(sorted(free, key=slot.refused.__contains__)[: work.gpus])
    return ""


def _units(machine: Any, gpu: str) -> tuple[list[str], list[str]]:
    """What `ci-runner detect --json` prints: the UUIDs of GPUs of `gpu`, or of their slices, and what is wrong."""
    own = [device for device in machine["gpus"] if device["sm"] == gpu]
    units = [unit for one in own for unit in (one["slices"] if one["sliced"] else [one["uuid"]])]
    return [matched(NAME, unit) for unit in units if unit != ""], [last_line(one) for one in machine["problems"]]
