"""Which GPUs each slot gets: by UUID, so that a lost GPU does not shift those of the other slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ci_compiler.runner.controller.answers import NAME, from_toolkit, matched
from ci_compiler.runner.controller.engine import RunnerEngine, RunnerOrder
from ci_compiler.runner.controller.slots import RunnerPlan, Slot

ALL = ("all",)
"""Every GPU of the machine, for `RunnerOrder.gpus`."""


def gpus_for(slot: Slot, slots: Iterable[Slot], order: RunnerOrder, work: RunnerPlan, engine: RunnerEngine) -> str:
    """Gives `slot` the GPUs that its pool declares; returns why it cannot, or ''. Raises EngineError."""
    if not work.gpus or len(slot.gpus) == work.gpus:
        return ""
    taken = {gpu for other in slots if other is not slot for gpu in other.gpus}
    answer = engine.toolkit(replace(order, gpus=ALL), ("detect", "--json"))
    found = from_toolkit(answer, lambda machine: _units(machine, work.gpu), "the image cannot list the GPUs")
    free = [gpu for gpu in found if gpu not in taken]
    if len(free) < work.gpus:
        here = f"{len(found)} found, {len(found) - len(free)} of them in use"
        return f"{work.gpus} GPUs of {work.gpu} are needed: {here}"
    slot.gpus = tuple(free[: work.gpus])
    return ""


def _units(machine: Any, gpu: str) -> list[str]:
    """The UUIDs of the GPUs (or MIG slices) of the architecture `gpu` in what `ci-runner detect --json` prints."""
    own = [device for device in machine["gpus"] if device["sm"] == gpu]
    units = [unit for one in own for unit in (one["slices"] if one["mig"] else [one["uuid"]])]
    return [matched(NAME, unit) for unit in units if unit != ""]
