"""Who takes the jobs of the compiled workflows: compares their label sets with declared pools and live runners.

GitHub cancels a job that waits for 24 hours because no runner has its labels. A runner takes a job if it has all of the
job's labels, in any case, and belongs to the job's group. GitHub's lists show no labels for the runners of a scale set,
which exist only while they work, so their absence proves nothing. They are recognised by their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from ci_compiler.github.inventory import Runner
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.suites import legs, suites_of
from ci_compiler.runner.scale_sets import scale_set_of
from ci_compiler.spec.model import RunsOn
from ci_compiler.stages import Stage


class CoverageVerdict(StrEnum):
    """Who serves a label set."""

    ONLINE = "online"
    BUSY = "busy"
    OFFLINE = "offline"
    FROM_ZERO = "scale-from-zero"
    DECLARED = "declared"
    HOSTED = "hosted by GitHub"
    NOBODY = "nobody"
    UNSEEN = "not seen"


UNSERVED = frozenset({CoverageVerdict.NOBODY, CoverageVerdict.OFFLINE})
"""The verdicts with which jobs wait until GitHub cancels them."""


PATIENCE = 60.0
"""Seconds to wait before a second look at GitHub: between two jobs, a just-in-time runner is not registered."""


class LabelSet(NamedTuple):
    """The `runs-on` of some jobs, with the pool that the spec declares for it and the pool's number of machines.

    `pool` is '' for a machine hosted by GitHub. `jobs` counts the jobs of a full build, by stage.
    """

    runs_on: RunsOn
    jobs: Mapping[Stage, int]
    pool: str = ""
    machines: int = 0

    def __str__(self) -> str:
        return str(self.runs_on)


class Served(NamedTuple):
    """The verdict on a label set, and the live runners that take its jobs.

    `scales`: a runner scale set serves it, which shows no runners while it is idle.
    """

    asked: LabelSet
    verdict: CoverageVerdict
    runners: tuple[Runner, ...] = ()
    scales: bool = False


def label_sets(plan: Plan) -> tuple[LabelSet, ...]:
    """Every label set of the compiled workflows, in the order of the spec's pools; the one for hosted machines last."""
    jobs: dict[str, Counter[Stage]] = {}
    for shard in plan.shards:
        for cell, route in shard.cells:
            for stage, pool in route.pools.items():
                jobs.setdefault(pool.name, Counter())[stage] += len(cell.variants)
            for bench, pool in route.suites.items():
                shards = sum(len(legs(suites_of(plan.spec, cell, variant), bench)) for variant in cell.variants)
                jobs.setdefault(pool.name, Counter())[bench.stage] += shards
    pools = (pool for pool in plan.spec.pools if pool.name in jobs)
    declared = (LabelSet(pool.runs_on, jobs[pool.name], pool.name, pool.count) for pool in pools)
    return (*declared, LabelSet(RunsOn(labels=(plan.spec.hosted,)), {}))


def cover(
    asked: Iterable[LabelSet], runners: Iterable[Runner] | None, *, scale_set_labels: bool = False
) -> tuple[Served, ...]:
    """The verdict on each label set. `runners` are the live runners; None: judge by the spec alone.

    `scale_set_labels`: pools with labels are runner scale sets too, as `ci-runner deploy arc` makes them.
    """
    live = None if runners is None else tuple(runners)
    return tuple(_cover(label_set, live, scale_set_labels=scale_set_labels) for label_set in asked)


def _cover(asked: LabelSet, runners: tuple[Runner, ...] | None, *, scale_set_labels: bool) -> Served:
    if not asked.pool:
        return Served(asked=asked, verdict=CoverageVerdict.HOSTED)
    scales = scale_set_labels or bool(asked.runs_on.scale_set)
    without = CoverageVerdict.FROM_ZERO if scales else CoverageVerdict.NOBODY
    if runners is None:
        return Served(asked=asked, verdict=without if scales else CoverageVerdict.DECLARED, scales=scales)
    name = asked.runs_on.scale_set or scale_set_of(asked.pool)
    taking = tuple(runner for runner in runners if takes(runner, asked.runs_on) or _is_of_set(runner, name))
    online = [runner for runner in taking if runner.online]
    if any(not runner.busy for runner in online):
        verdict = CoverageVerdict.ONLINE
    elif online:
        verdict = CoverageVerdict.BUSY
    else:
        verdict = CoverageVerdict.OFFLINE if taking and not scales else without
    return Served(asked=asked, verdict=verdict, runners=taking, scales=scales)


def takes(runner: Runner, job: RunsOn) -> bool:
    """Whether GitHub gives `runner` a job whose `runs-on` is `job`."""
    if job.scale_set:
        return _is_of_set(runner, job.scale_set)
    if job.group and job.group.lower() != runner.group.lower():
        return False
    labels = {label.lower() for label in runner.labels}
    return bool(labels) and all(label.lower() in labels for label in job.labels)


def _is_of_set(runner: Runner, name: str) -> bool:
    """Whether `runner` is of the scale set `name`; up to 0.14.2, the controller adds five characters to the name."""
    form = rf"{re.escape(name)}(-[a-z0-9]{{5}})?-runner-[a-z0-9]+"
    return not runner.labels and re.fullmatch(form, runner.name) is not None
