"""Who takes the jobs of the compiled workflows: every label set they ask for, against declared pools and live runners.

GitHub lets a job whose label set nobody serves wait for 24 hours and then cancels it. A runner takes a job when it
bears all of its labels, in any case, and belongs to its group. The runners of a scale set show no labels and exist only
while they work, so that seeing none of them says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ci_compiler.github.inventory import Runner
from ci_compiler.plan.pipeline import Plan
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


UNSERVED = frozenset({CoverageVerdict.NOBODY, CoverageVerdict.OFFLINE})
"""The verdicts under which jobs wait until GitHub cancels them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSet:
    """What jobs ask for: where they run, the pool that the spec declares for it with its count of machines.

    `pool` is '' for a machine that GitHub hosts. `jobs` counts those of a build of everything, by stage.
    """

    runs_on: RunsOn
    pool: str = ""
    machines: int = 0
    jobs: Mapping[Stage, int]

    def __str__(self) -> str:
        return str(self.runs_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The verdict on a label set, and the live runners that take its jobs."""

    asked: LabelSet
    verdict: CoverageVerdict
    runners: tuple[Runner, ...] = ()


def label_sets(plan: Plan) -> tuple[LabelSet, ...]:
    """Every label set of the compiled workflows, in the order of the spec's pools; GitHub's own machines last."""
    jobs: dict[str, Counter[Stage]] = {}
    for shard in plan.shards:
        for cell, route in shard.cells:
            for stage, pool in route.pools.items():
                jobs.setdefault(pool.name, Counter())[stage] += len(cell.variants)
    found = [
        LabelSet(runs_on=pool.runs_on, pool=pool.name, machines=pool.count, jobs=jobs[pool.name])
        for pool in plan.spec.pools
        if pool.name in jobs
    ]
    return (*found, LabelSet(runs_on=RunsOn(labels=(plan.spec.hosted,)), jobs={}))


def cover(asked: Iterable[LabelSet], runners: Iterable[Runner] | None) -> tuple[Served, ...]:
    """A verdict on each label set, by the live `runners`; None: nobody asked for them, only the spec counts."""
    live = None if runners is None else tuple(runners)
    return tuple(_cover(one, live) for one in asked)


def _cover(asked: LabelSet, runners: tuple[Runner, ...] | None) -> Served:
    if not asked.pool:
        return Served(asked=asked, verdict=CoverageVerdict.HOSTED)
    without = CoverageVerdict.FROM_ZERO if asked.runs_on.scale_set else CoverageVerdict.NOBODY
    if runners is None:
        return Served(asked=asked, verdict=without if asked.runs_on.scale_set else CoverageVerdict.DECLARED)
    taking = tuple(runner for runner in runners if takes(runner, asked.runs_on))
    online = [runner for runner in taking if runner.online]
    if any(not runner.busy for runner in online):
        verdict = CoverageVerdict.ONLINE
    elif online:
        verdict = CoverageVerdict.BUSY
    else:
        verdict = CoverageVerdict.OFFLINE if taking and not asked.runs_on.scale_set else without
    return Served(asked=asked, verdict=verdict, runners=taking)


def takes(runner: Runner, job: RunsOn) -> bool:
    """Whether GitHub gives `runner` a job that asks for `job`."""
    if job.scale_set:
        return not runner.labels and runner.name.lower().startswith(f"{job.scale_set.lower()}-")
    if job.group and job.group.lower() != runner.group.lower():
        return False
    bears = {label.lower() for label in runner.labels}
    return bool(bears) and all(label.lower() in bears for label in job.labels)
