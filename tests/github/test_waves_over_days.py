"""Waves over days: a GitHub whose machines work through the jobs of the runs, and what each run of waves.yml does."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.clock import Clock
from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.limits import limit
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.simulation import TimedJob, Timeline, simulate
from ci_compiler.reports.forecast import machine_counts
from ci_compiler.reports.load import load_of
from tests.specs import UNKNOWN_PIN, small, spec_of

from .state import NOW, GitHub, Json

HOUR = 3600
WAVES = ".github/workflows/waves.yml"
GATE = "the moment of a dispatch"
BRANCHES = {"main": ("12.8", "2.8.0"), "second": ("12.9", "2.9.1"), "third": ("13.0", "2.10.0")}


@pytest.fixture(scope="module")
def stack() -> Plan:
    """Three branches; one builder has work for most of a day for each shard of them."""
    document = small()
    document["branches"] = {
        name: {"cuda": cuda, "nixpkgs": UNKNOWN_PIN, "versions": {"pytorch": version}}
        for name, (cuda, version) in BRANCHES.items()
    }
    document["packages"] = {"pytorch": {"attribute": "torch", "minutes": {"cpu": 270, "gpu": 270}}}
    document["runners"]["builder"] |= {"count": 1, "cores": 32}
    return plan(spec_of(document))


@dataclass
class Days:
    """A GitHub on which time passes: jobs wait for the machines of the spec, and runs end when their jobs have ended.

    While something is paused, the jobs of a new run are skipped: it ends a minute later.
    """

    github: GitHub
    plan: Plan
    paused: str = ""
    pauses_at: float = 1e9
    now: float = 0.0
    jobs: list[TimedJob] = field(default_factory=list)
    own: dict[int, range] = field(default_factory=dict)
    skipped: dict[int, float] = field(default_factory=dict)
    done: int = 0

    def dispatched(self, one: Json) -> None:
        """Adds the jobs of a run, which are ready from now on."""
        one["created_at"] = f"{datetime.fromtimestamp(NOW + self.now, UTC):%Y-%m-%dT%H:%M:%SZ}"
        shards = [shard for shard in self.plan.shards if one["path"].startswith(f"{shard.path}@")]
        if shards and self.paused:
            self.skipped[one["id"]] = self.now + 60
        elif shards:
            gate = len(self.jobs)
            self.jobs.append(TimedJob(pool=GATE, seconds=int(self.now)))
            for job in jobs_of(self.plan.spec, shards):
                needs = tuple(need + gate + 1 for need in job.needs) or (gate,)
                self.jobs.append(TimedJob(pool=job.pool, seconds=job.seconds, needs=needs))
            self.own[one["id"]] = range(gate + 1, len(self.jobs))

    def timeline(self) -> Timeline:
        return simulate(self.jobs, {**machine_counts(self.plan.spec), GATE: len(self.jobs) or 1})

    def pass_by(self, seconds: float) -> None:
        """Half an hour at least passes, so that a test makes few requests; runs whose jobs are done end."""
        self.now += max(seconds, HOUR / 2)
        if self.now >= self.pauses_at:
            self.paused, self.pauses_at = "all", 1e9
        starts = self.timeline().starts
        for one in self.github.runs:
            jobs = self.own.get(one["id"], range(0))
            ends = [starts[job] + self.jobs[job].seconds for job in jobs] or [self.skipped.get(one["id"], 1e9)]
            if max(ends) <= self.now:
                one.update(status="completed", conclusion="failure" if one["id"] in self.skipped else "success")

    def next_run(self, monkeypatch: pytest.MonkeyPatch, commands: list[str]) -> bool:
        """The oldest run of waves.yml that waits in its group runs to its end; False if none waits."""
        waiting = [one for one in self.github.runs if one["path"].startswith(WAVES) and one["status"] == "queued"]
        if not waiting:
            return False
        inputs = [one for one in self.github.dispatched if one["path"] == WAVES][self.done]
        self.done += 1
        waiting[0]["status"] = "in_progress"
        given = [f"--{key}={inputs.get(key, '')}" for key in ("patterns", "branch", "about")]
        request = inputs.get("request", str(waiting[0]["id"]))
        waiting[0]["display_title"] = f"waves [{request}] {inputs.get('about', '')}"
        monkeypatch.setenv(PAUSE_VARIABLE, self.paused)
        assert run(PROGRAM, ["waves", *given, "--request", request, "--minutes", "330", *commands]) == 0
        waiting[0].update(status="completed", conclusion="success")
        return True

    def waits(self) -> list[float]:
        """How long each job waited for a machine."""
        found = self.timeline()
        waits = zip(found.starts, found.ready, self.jobs, strict=True)
        return [start - ready for start, ready, job in waits if job.pool != GATE]

    def started(self) -> list[str]:
        """The shard and the request of each run of a shard."""
        shards = [one for one in self.github.dispatched if one["path"] != WAVES]
        return sorted(f"{one['path']} {one['request']}" for one in shards)


@pytest.fixture
def days(served: GitHub, stack: Plan, monkeypatch: pytest.MonkeyPatch) -> Days:
    served.branches = set(BRANCHES)
    found = Days(github=served, plan=stack)
    served.on_dispatch = found.dispatched
    monkeypatch.setattr(Clock, "now", lambda _: NOW + found.now)
    monkeypatch.setattr(Clock, "passed", lambda _: found.now)
    monkeypatch.setattr(Clock, "sleep", lambda _, seconds: found.pass_by(seconds) if seconds > 2 else None)
    return found


def test_no_job_of_several_branches_in_waves_waits_for_more_than_a_day(
    days: Days, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `sync --push --waves` asks for it: one request per branch, all at the same time."""
    every = {(shard.branch, name) for shard in days.plan.shards for name in shard.variants}
    assert load_of(days.plan, every, publish=True).overdue
    for branch in BRANCHES:
        assert run(PROGRAM, ["dispatch", "--branch", branch, "--waves", *commands]) == 0
    requests = [one["id"] for one in days.github.runs]
    while days.next_run(monkeypatch, commands):
        assert days.done < 100
    numbers = dict(zip(BRANCHES, requests, strict=True))
    assert days.started() == sorted(f"{shard.path} {numbers[shard.branch]}" for shard in days.plan.shards)
    assert all(one["status"] == "completed" for one in days.github.runs)
    assert len(days.waits()) == load_of(days.plan, every, publish=True).jobs
    assert max(days.waits()) <= limit("queued-hours").limit * HOUR


@pytest.mark.parametrize("word", ["all", "BRANCH:second", "pool:builder", "pool:h100@second"])
def test_waves_wait_while_paused(
    days: Days, commands: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    """A pause that begins before the request, and one that begins while its first wave runs."""
    assert run(PROGRAM, ["dispatch", "--branch", "second", "--waves", *commands]) == 0
    days.paused = word
    for _ in range(5):
        assert days.next_run(monkeypatch, commands)
    assert days.started() == []
    assert days.now >= 2 * HOUR
    assert f"the wave waits while {word} is paused (`ci-compile resume`)" in capsys.readouterr().err
    days.paused = ""
    while days.next_run(monkeypatch, commands):
        assert days.done < 100
    assert len(days.started()) == sum(shard.branch == "second" for shard in days.plan.shards)
    assert {one["conclusion"] for one in days.github.runs} == {"success"}


def test_a_pause_that_begins_during_a_wave_stops_the_next_one(
    days: Days, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of waves.yml sees the variable as it was when it began, so that each wave has a run of its own."""
    assert run(PROGRAM, ["dispatch", "--all", "--waves", *commands]) == 0
    days.pauses_at = 18 * HOUR  # in the last of the runs that follow the first wave
    while days.now < 30 * HOUR:
        assert days.next_run(monkeypatch, commands)
    first = days.started()
    assert len(first) == 2
    assert not days.skipped
    days.paused = "branch:unknown"
    while days.next_run(monkeypatch, commands):
        assert days.done < 200
    assert len(set(days.started())) == len(days.started()) == len(days.plan.shards)


def test_a_pause_elsewhere_holds_up_nothing(days: Days, commands: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(PROGRAM, ["dispatch", "--branch", "third", "--waves", *commands]) == 0
    days.paused = "branch:second pool:builder@main"
    assert days.next_run(monkeypatch, commands)
    assert days.started()
