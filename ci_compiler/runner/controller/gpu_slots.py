"""Which GPUs each slot gets: by UUID, so that a lost GPU does not shift those of the other slots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ci_compiler.process import Ended
from ci_compiler.runner.controller.engine import EngineError, RunnerEngine, RunnerOrder
from ci_compiler.runner.controller.slots import RunnerPlan, Slot

ALL = ("all",)
"""Every GPU of the machine, for `RunnerOrder.gpus`."""


def gpus_for(slot: Slot, slots: Iterable[Slot], order: RunnerOrder, work: RunnerPlan, engine: RunnerEngine) -> str:
    """Gives `slot` the GPUs that its pool declares; returns why it cannot, or ''. Raises EngineError."""
    if not work.gpus or len(slot.gpus) == work.gpus:
        return ""
    taken = {gpu for other in slots if other is not slot for gpu in other.gpus}
    found = list(_units(engine.toolkit(replace(order, gpus=ALL), ("detect", "--json")), work.gpu))
    free = [gpu for gpu in found if gpu not in taken]
    if len(free) < work.gpus:
        here = f"{len(found)} found, {len(found) - len(free)} of them in use"
        return f"{work.gpus} GPUs of {work.gpu} are needed: {here}"
    slot.gpus = tuple(free[: work.gpus])
    return ""


def _units(answer: Ended, gpu: str) -> Iterator[str]:
    """The UUIDs of the GPUs (or MIG slices) of the architecture `gpu` in the output of `ci-runner detect --json`."""
    try:
        devices: list[Mapping[str, Any]] = json.loads(answer.out)["gpus"]
        for device in devices:
            if device["sm"] == gpu:
                yield from filter(None, device["slices"] if device["mig"] else [device["uuid"]])
    except (ValueError, KeyError, TypeError):
        raise EngineError(f"the image cannot list the GPUs: {answer.said or f'exit code {answer.status}'}") from None
