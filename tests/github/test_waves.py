"""Waves on GitHub: one after the other, resumed after an interruption, shown by `status`; and disabled workflows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.github.dispatch import ShardOrder, Terms, orders
from ci_compiler.github.waves import run_waves, waves_progress
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.load import load_of
from tests.specs import small, spec_of

from .state import REPOSITORY, Fault, GitHub
from .talk import Talk, talk

WAVES = ".github/workflows/waves.yml"
TERMS = Terms(request="77")


def waves_of_two(stack: Plan) -> list[list[ShardOrder]]:
    first, second, *_ = orders(stack)
    return [[first], [second]]


def ending(served: GitHub, talking: Talk) -> None:
    """Every open run ends when the clock sleeps."""

    def end() -> None:
        for one in served.runs:
            one.update(status="completed", conclusion="success")

    talking.clock.on_sleep = end


def through(served: GitHub, decided: Plan, terms: Terms = TERMS, *, runs: int = 9) -> bool:
    """Runs of waves.yml, one after the other, at most `runs`; returns whether every wave has ended."""
    for _ in range(runs):
        talking = talk(served)
        ending(served, talking)
        if run_waves(talking.client, decided, waves_of_two(decided), terms, until=1e9):
            return True
    return False


def test_a_wave_starts_when_the_runs_of_the_one_before_have_ended(served: GitHub, stack: Plan) -> None:
    states: list[list[str]] = []
    served.on_dispatch = lambda _: states.append([one["status"] for one in served.runs])
    assert through(served, stack)
    assert states == [["queued"], ["completed", "queued"]]
    assert [one["request"] for one in served.dispatched] == ["77", "77"]


def test_what_was_interrupted_goes_on_and_starts_no_shard_twice(served: GitHub, stack: Plan) -> None:
    talking = talk(served)
    assert not run_waves(talking.client, stack, waves_of_two(stack), TERMS, until=talking.clock.at + 1)
    assert len(served.dispatched) == 1
    assert all(pause >= 120.0 for pause in talking.clock.slept)
    assert through(served, stack)
    assert len({one["path"] for one in served.dispatched}) == len(served.dispatched) == 2
    assert through(served, stack, Terms(request="78"))
    assert len(served.dispatched) == 4


@pytest.mark.parametrize("known", [True, False])
def test_a_shard_is_found_after_any_number_of_other_dispatches(served: GitHub, stack: Plan, *, known: bool) -> None:
    """Back to when the request was made; if its first run was deleted, further."""
    if known:
        served.add_run(WAVES, [], id=77, event="workflow_dispatch", created_at="2026-09-28T12:00:00Z")
    assert through(served, stack)
    for order in orders(stack)[:2]:
        title = f"{order.shard.title} (a selection)"
        for _ in range(250):
            served.add_run(order.shard.path, [], event="workflow_dispatch", display_title=title)
    assert through(served, stack, runs=1)
    assert len(served.dispatched) == 2


def test_no_runs_from_before_the_request_are_read(served: GitHub, stack: Plan) -> None:
    served.add_run(WAVES, [], id=77, event="workflow_dispatch")
    for order in orders(stack)[:2]:
        for _ in range(250):
            served.add_run(order.shard.path, [], event="workflow_dispatch", created_at="2026-09-28T12:00:00Z")
    assert not through(served, stack, runs=1)
    listed = [target for _, target, _ in served.asked if "/workflows/" in target and "/runs?" in target]
    assert len(listed) == 2
    assert all("page=1&" in target for target in listed)


def test_a_wave_waits_for_the_runs_of_other_requests(served: GitHub, stack: Plan) -> None:
    """Also for those of a request that was cancelled; not for what somebody started without waves."""
    first, second, *_ = orders(stack)
    for status in ("requested", "pending", "queued", "in_progress", "waiting"):
        title = f"{second.shard.title} [76] (all)"
        other = served.add_run(second.shard.path, [], display_title=title, status=status, conclusion=None)
        talking = talk(served)
        assert not run_waves(talking.client, stack, [[first]], TERMS, until=talking.clock.at + 1000)
        assert served.dispatched == []
        assert other["html_url"] in talking.said[0]
        ending(served, talking)
        assert not run_waves(talking.client, stack, [[first]], TERMS, until=1e9)
        assert served.dispatched == []
    served.add_run(second.shard.path, [], display_title=f"{second.shard.title} (all)", status="queued", conclusion=None)
    served.add_run(WAVES, [], display_title="waves [78] another", status="queued", conclusion=None)
    assert not run_waves(talk(served).client, stack, [[first]], TERMS, until=0)
    assert [one["request"] for one in served.dispatched] == ["77"]


def test_the_command_hands_over_to_a_new_run_with_the_same_request(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "waves",
        "--request",
        "77",
        "--minutes",
        "0",
        "--patterns",
        "*-sm90-*",
        "--publish",
        "--about",
        "all of it",
    ]
    assert run(PROGRAM, [*words, *commands]) == 0
    handed = served.dispatched[-1]
    assert handed == {
        "path": WAVES,
        "ref": "main",
        "patterns": "*-sm90-*",
        "about": "all of it",
        "publish": "true",
        "request": "77",
    }
    assert capsys.readouterr().out == f"the next run goes on: {served.runs[-1]['html_url']}\n"


def test_a_dispatch_in_waves_starts_the_workflow_that_does_it(served: GitHub, commands: list[str]) -> None:
    assert run(PROGRAM, ["dispatch", "--all", "--waves", "--unpublished", *commands]) == 0
    (started,) = served.dispatched
    assert started == {"path": WAVES, "ref": "main", "unpublished": "true", "about": started["about"]}
    assert started["about"].endswith("shards in 1 wave")


def slow(**changes: Any) -> Plan:
    """A fleet whose one builder has work for days."""
    document = small(**changes)
    document["packages"]["pytorch"]["minutes"] = {"cpu": 1200, "gpu": 1200}
    document["runners"]["builder"] |= {"count": 1, "cores": 32}
    return plan(spec_of(document))


def test_what_github_would_cancel_is_refused_without_waves() -> None:
    decided = slow()
    chosen = {(shard.branch, name) for shard in decided.shards for name in shard.variants}
    load = load_of(decided, chosen, publish=False)
    assert load.overdue > 0
    assert load.refusal.startswith(f"{load.overdue} job")
    assert "after which GitHub cancels them; `--waves` starts the shards in 2 waves" in load.refusal
    assert {name for wave in load.waves for name in wave.shards} == {shard.name for shard in decided.shards}
    alone = load_of(decided, {min(chosen)}, publish=False)
    assert (alone.refusal, alone.variants) == ("", 1)


def test_status_shows_how_far_waves_have_come(served: GitHub, stack: Plan) -> None:
    assert list(waves_progress(talk(served).client, stack)) == []
    title = "waves [77] 2 shards in 2 waves"
    served.add_run(WAVES, [], event="workflow_dispatch", display_title=title, status="in_progress", conclusion=None)
    for order, end in zip((one for wave in waves_of_two(stack) for one in wave), ("failure", None), strict=True):
        served.add_run(
            order.shard.path,
            [],
            event="workflow_dispatch",
            display_title=f"{order.shard.title} [77] (all)",
            status="completed" if end else "queued",
            conclusion=end,
        )
    (one,) = waves_progress(talk(served).client, stack)
    assert str(one).startswith(
        "waves [77] 2 shards in 2 waves: in progress; 2 shards started, 1 ended, 1 of them without success; https://"
    )


@pytest.mark.parametrize("state", ["disabled_inactivity", "disabled_manually"])
@pytest.mark.parametrize("name", ["build-main-sm90", "fleet-watch", "waves"])
def test_a_disabled_workflow_is_shown(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str], name: str, state: str
) -> None:
    served.workflows[f".github/workflows/{name}.yml"]["state"] = state
    assert run(PROGRAM, ["status", *commands]) == 0
    assert f"{name}.yml is disabled: " in capsys.readouterr().err
    served.add_runner("builder-1", ["self-hosted", "linux", "x64", "nix-builder"])
    served.add_runner("h100-1", ["self-hosted", "linux", "x64", "gpu-sm90"])
    assert run(RUNNER, ["coverage", "--live", *commands]) == 1
    assert f"`gh workflow enable {name}.yml` enables it" in capsys.readouterr().err


@pytest.mark.parametrize("on", [True, False])
def test_pages_are_published_where_they_are_on(
    served: GitHub,
    commands: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    on: bool,
) -> None:
    served.pages = on
    folder = Path(commands[1])
    monkeypatch.setenv("GITHUB_OUTPUT", str(folder / "output"))
    assert run(PROGRAM, ["site", str(folder / "page"), "--repository", REPOSITORY, "--pages", *commands]) == 0
    assert (folder / "output").read_text("utf-8") == f"pages={'on' if on else 'off'}\n"
    assert ("::notice::GitHub Pages is off" in capsys.readouterr().out) is not on


def test_the_page_shows_the_last_runs_or_does_without(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shard = ".github/workflows/build-main-sm90.yml"
    served.add_run(shard, [("3.13 avx2 / pytorch / build", "completed", "failure")])
    words = ["site", commands[1], "--repository", REPOSITORY, "--status", *commands]
    assert run(PROGRAM, words) == 0
    page = (Path(commands[1]) / "index.html").read_text("utf-8")
    assert '"lasts":[{"result":"failed","stages":{"build":"failure"}' in page
    served.faults.append(Fault(status=403))
    assert run(PROGRAM, words) == 0
    assert '"lasts":[]' in (Path(commands[1]) / "index.html").read_text("utf-8")
    assert "the page does not show the last runs" in capsys.readouterr().err
