"""What is known about the tests of a variant: which stage tests it on which machines, and which one never does."""

from __future__ import annotations

from ci_compiler.hardware import CPU
from ci_compiler.plan.routing import Route
from ci_compiler.record import record
from ci_compiler.reports.reasons import fill, say
from ci_compiler.spec.model import Spec
from ci_compiler.stages import stages_that_test


@record
class Evidence:
    """Sentences on the test stages of a variant: those that a pool runs, and those that none does."""

    tested: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()


def evidence(spec: Spec, target: str, route: Route) -> Evidence:
    """What the plan says about the tests of variants for the GPU `target` (`cpu`: none) that take `route`.

    A stage that only measures is no test. Nothing is said here of results: those are in the history and on the page.
    """
    tested, untested = [], []
    for stage in (one for one in spec.stages if one in stages_that_test() and one.proves):
        if pool := route.pools.get(stage):
            on_gpu = target != CPU and (stage.needs_gpu or stage.takes_gpu) and pool.gpu
            words = {"stage": stage.name, "pool": pool.name, "gpu": pool.gpu, "labels": pool.runs_on, "built": target}
            kind = ("tested-gpu" if pool.gpu == target else "tested-other-gpu") if on_gpu else "tested"
            tested.append(fill(say(kind), words))
        elif (because := route.skipped.get(stage)) and (target != CPU or not stage.needs_gpu):
            untested.append(fill(say("untested"), {"stage": stage.name, "because": because}))
    return Evidence(tested=tuple(tested), untested=tuple(untested))
