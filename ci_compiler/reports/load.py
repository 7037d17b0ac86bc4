"""What a dispatch or a push starts: its jobs and hours, the jobs that GitHub would cancel, and waves without any."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ci_compiler.plan.job_graph import better_order, guessed_of, jobs_of
from ci_compiler.plan.limits import limit
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.simulation import simulate
from ci_compiler.reports.forecast import HOSTED_SECONDS, Wave, machine_counts, waves_of
from ci_compiler.units import counted, duration, guess, machine_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of some variants, started at once: jobs, their seconds, when the last ends, queued too long; waves.

    `guessed` are the packages whose minutes in these are a guess.
    """

    variants: int
    jobs: int
    seconds: int
    end: int
    overdue: int
    waves: tuple[Wave, ...]
    guessed: tuple[str, ...] = ()

    def __str__(self) -> str:
        work = f"{counted(self.jobs, 'job')}, {machine_hours(self.seconds)} machine-hours"
        end = f"done in {duration(self.end)} if nothing else runs{guess(self.guessed)}"
        return f"{counted(self.variants, 'variant')}: {work}, {end}"

    @property
    def refusal(self) -> str:
        """Why it must not be started at once; '' if it may be."""
        if not self.overdue:
            return ""
        hours = limit("queued-hours").limit
        return (
            f"{counted(self.overdue, 'job')} would wait for more than {hours} h, after which GitHub cancels them; "
            f"`--waves` starts the shards in {counted(len(self.waves), 'wave')}, one after the other"
        )


def load_of(plan: Plan, chosen: Collection[tuple[str, str]], *, publish: bool) -> Load:
    """The load of the variants `chosen`, by branch and name; `publish`: whether they are published."""
    spec, machines = plan.spec, machine_counts(plan.spec)
    own = [jobs_of(spec, [shard], chosen=chosen, publish=publish) for shard in better_order(spec, plan.shards)]
    jobs = jobs_of(spec, plan.shards, chosen=chosen, publish=publish)
    schedule = simulate(jobs, machines)
    longest = limit("queued-hours").limit * 3600
    return Load(
        variants=len(chosen),
        jobs=len(jobs),
        seconds=sum(job.seconds for job in jobs),
        end=HOSTED_SECONDS + schedule.end,
        overdue=sum(start - ready > longest for start, ready in zip(schedule.starts, schedule.ready, strict=True)),
        waves=tuple(waves_of(plan, filter(None, own))) if jobs else (),
        guessed=guessed_of(spec, jobs),
    )
