"""Starting builds on GitHub: the workflow of a variant, a single start, following it to the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.github.dispatch import Terms, follow, orders, start
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.plan.pipeline import Plan
from tests.output import checked

from .state import Fault, GitHub
from .talk import Talk, talk

GPU = "pytorch-python313-cuda12_8-sm90-avx2"
CPU = "pytorch-python313-cpu-avx2"


def started(talking: Talk, stack: Plan, *names: str, branch: str | None = None, publish: bool = False) -> list[str]:
    return [one.url for one in start(talking.client, orders(stack, names, branch=branch), Terms(publish=publish))]


def test_each_variant_starts_its_own_shard_on_its_branch(served: GitHub, stack: Plan) -> None:
    urls = started(talk(served), stack, GPU, publish=True)
    urls += started(talk(served), stack, CPU, branch="cuda-13_0")
    assert urls == [run["html_url"] for run in served.runs]
    assert served.dispatched == [
        {"path": ".github/workflows/build-main-sm90.yml", "ref": "main", "variant": GPU, "publish": "true"},
        {
            "path": ".github/workflows/build-cuda-13_0-cpu.yml",
            "ref": "cuda-13_0",
            "variant": CPU,
        },
    ]


def test_published_variants_are_published_again_on_request(served: GitHub, stack: Plan) -> None:
    list(start(talk(served).client, orders(stack, [GPU]), Terms(publish=True, again=True)))
    assert [(one["publish"], one["again"]) for one in served.dispatched] == [("true", "true")]


def test_a_name_on_several_branches_starts_on_all_of_them(served: GitHub, stack: Plan) -> None:
    assert len(started(talk(served), stack, CPU, CPU)) == 2
    assert [one["ref"] for one in served.dispatched] == ["main", "cuda-13_0"]


@pytest.mark.parametrize(
    ("name", "branch", "says"),
    [
        ("pytorch-python313-cuda12_8-sm90-avx", None, "avx is not selected for sm90 on main"),
        ("pytorch-python313-cuda12_8-sm91-avx2", None, "unknown GPU 'sm91'; did you mean sm90"),
        (GPU, "cuda-13_0", f"{GPU} is not built on cuda-13_0, but on main"),
        (GPU, "mian", "unknown branch 'mian'; did you mean main"),
    ],
)
def test_a_variant_that_is_not_built_is_not_started(stack: Plan, name: str, branch: str | None, says: str) -> None:
    with pytest.raises(InputError) as raised:
        orders(stack, [name, GPU], branch=branch)
    assert says in str(raised.value)


def test_missing_workflows_are_reported(github: GitHub, stack: Plan) -> None:
    with pytest.raises(InputError, match=r"build-main-sm90\.yml: my-org/stack has no such workflow; push"):
        started(talk(github), stack, GPU)


def test_a_refused_dispatch_is_reported_and_not_repeated(served: GitHub, stack: Plan) -> None:
    served.branches = {"main"}
    with pytest.raises(GitHubError, match="refused it \\(422\\): No ref found for: cuda-13_0") as raised:
        started(talk(served), stack, CPU, branch="cuda-13_0")
    assert raised.value.trouble is Trouble.REFUSED
    assert not served.dispatched


@pytest.mark.parametrize("details", ["unsaid", "refused"])
def test_the_run_is_looked_up_if_the_server_does_not_return_it(served: GitHub, stack: Plan, details: str) -> None:
    path = ".github/workflows/build-main-sm90.yml"
    served.add_run(path, [], event="workflow_dispatch", display_title="main sm90 (all)", head_branch="main")
    served.add_run(
        path,
        [],
        event="workflow_dispatch",
        display_title=f"main sm90 ({GPU})",
        head_branch="main",
        created_at="2026-09-30T12:00:00Z",
    )
    served.details = details
    [url] = started(talk(served), stack, GPU)
    assert url == served.runs[-1]["html_url"]
    assert len(served.dispatched) == 1


@pytest.mark.parametrize(
    ("faults", "dispatches"),
    [
        ([Fault(502, "POST", "dispatches", done=True)], 1),
        ([Fault(0, "POST", "dispatches", done=True, cut=1)], 1),
        ([Fault(502, "POST", "dispatches")], 1),
        ([Fault(0, "POST", "dispatches")] * 2, 1),
        ([Fault(429, "POST", "dispatches", headers={"Retry-After": "9"})], 1),
    ],
)
def test_a_build_is_started_once_even_if_responses_are_lost(
    served: GitHub, stack: Plan, faults: list[Fault], dispatches: int
) -> None:
    served.faults += faults
    [url] = started(talk(served), stack, GPU)
    assert url == served.runs[-1]["html_url"]
    assert (len(served.dispatched), len(served.runs)) == (dispatches, dispatches)


def test_it_gives_up_if_no_run_appears(served: GitHub, stack: Plan) -> None:
    served.faults += [Fault(502, "POST", "dispatches")] * 9
    with pytest.raises(GitHubError, match=r"start build-main-sm90\.yml on main for pytorch"):
        started(talk(served), stack, GPU)
    assert sum(method == "POST" for method, _, _ in served.asked) == 3


def script(served: GitHub, *, conclusion: str) -> None:
    """The newest run advances at each poll: queued, one of 120 jobs done, ended."""
    run = served.runs[-1]
    waiting = [(f"3.13 avx2 / p{number} / build", "queued", None) for number in range(119)]

    def running() -> None:
        run.update(status="in_progress")
        served.set_jobs(run["id"], [("Select", "completed", "success"), *waiting])

    def ended() -> None:
        run.update(status="completed", conclusion=conclusion)
        served.set_jobs(run["id"], [("Select", "completed", "success")] * 120)

    served.scripts[run["id"]] = [lambda: None, running, lambda: None, ended]


def test_runs_are_followed_until_they_end(served: GitHub, stack: Plan) -> None:
    talking = talk(served)
    runs = list(start(talking.client, orders(stack, [GPU]), Terms()))
    script(served, conclusion="failure")
    looks = [str(look[0]) for look in follow(talking.client, runs)]
    assert looks == [
        f"{GPU} on main: queued, 0 of 0 jobs",
        f"{GPU} on main: in progress, 1 of 120 jobs",
        f"{GPU} on main: in progress, 1 of 120 jobs",
        f"{GPU} on main: failure",
    ]
    assert talking.clock.slept == [15.0] * 3


def test_many_runs_are_polled_less_often(served: GitHub, stack: Plan) -> None:
    talking = talk(served)
    runs = list(start(talking.client, orders(stack, [GPU]), Terms())) * 100
    served.runs[-1].update(status="in_progress")
    next(looks := follow(talking.client, runs))
    before = talking.clock.at
    next(looks)
    requests_an_hour = 200 * 3600 / (talking.clock.at - before)
    assert requests_an_hour < 5000 / 2


def test_the_command_prints_addresses_and_says_where_it_started(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAM, ["dispatch", CPU, GPU, *commands]) == 0
    out, err = capsys.readouterr()
    urls = [made["html_url"] for made in served.runs]
    assert out.splitlines() == [f"{CPU} main {urls[0]}", f"{GPU} main {urls[1]}", f"{CPU} cuda-13_0 {urls[2]}"]
    load, *notes = err.splitlines()
    assert load == "3 variants: 7 jobs, 2.4 machine-hours, done in 1 h 11 min if nothing else runs"
    assert notes == [f"{CPU} is built on main and cuda-13_0: all are started; --branch starts one"]


def test_the_command_prints_names_or_json(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAM, ["dispatch", CPU, GPU, "--quiet", *commands]) == 0
    assert capsys.readouterr() == (f"{CPU}\n{GPU}\n{CPU}\n", "")
    served.on_dispatch = lambda _: script(served, conclusion="failure")
    assert run(PROGRAM, ["dispatch", GPU, "--json", "--wait", *commands]) == 1
    (found,) = checked("ci-compile dispatch", capsys.readouterr().out)
    assert (found["variants"], found["branch"], found["conclusion"]) == ([GPU], "main", "failure")
    assert (found["run"], found["url"]) == (served.runs[-1]["id"], served.runs[-1]["html_url"])


@pytest.mark.parametrize(("conclusion", "code"), [("success", 0), ("failure", 1), ("cancelled", 1)])
def test_the_command_waits_and_reports_failure_by_its_exit_code(
    served: GitHub,
    commands: list[str],
    capsys: pytest.CaptureFixture[str],
    conclusion: str,
    code: int,
) -> None:
    served.on_dispatch = lambda _: script(served, conclusion=conclusion)
    assert run(PROGRAM, ["dispatch", GPU, "--wait", *commands]) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        f"{GPU} on main: queued, 0 of 0 jobs",
        f"{GPU} on main: in progress, 1 of 120 jobs",
        f"{GPU} on main: {conclusion}",
    ]
    assert lines[3:] == ([f"{GPU} on main: {conclusion}; {served.runs[-1]['html_url']}"] if code else [])


def test_a_terminal_shows_progress_bars(served: GitHub, commands: list[str]) -> None:
    """The run has ended by the first poll."""
    seen, terminal = pty.openpty()
    command = [sys.executable, "-c", "from ci_compiler.cli.compile import main; raise SystemExit(main())"]
    served.on_dispatch = lambda made: served.scripts.update(
        {made["id"]: [lambda: made.update(status="completed", conclusion="success")]}
    )
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    done = subprocess.run(
        [*command, "dispatch", GPU, "--wait", *commands], stderr=terminal, env=environment, check=True
    )
    os.close(terminal)
    text = os.read(seen, 65536).decode()
    os.close(seen)
    assert done.returncode == 0
    assert f"{GPU} on main: success" in text
    assert "\x1b[" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN: neither GITHUB_TOKEN nor GH_TOKEN is set"),
        ({"GITHUB_TOKEN": "wrong"}, "127.0.0.1: read my-org/stack: GitHub refused the token"),
        ({"GITHUB_REPOSITORY": "my-org/other"}, "127.0.0.1: read my-org/other: it does not exist"),
    ],
)
def test_the_command_reports_failures_on_one_line(
    commands: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    changes: dict[str, str],
    says: str,
) -> None:
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("GH_TOKEN", raising=False)
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert run(PROGRAM, ["dispatch", GPU, *commands]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"error: {says}")


# What is chosen.


def test_patterns_start_one_run_per_shard(served: GitHub, stack: Plan) -> None:
    vision = GPU.replace("pytorch", "torchvision")
    started(talk(served), stack, "*-sm90-avx2", "*-cpu-*", branch="main")
    assert [(one["variant"], one.get("only", "")) for one in served.dispatched] == [
        ("all", ""),
        ("all", f"{GPU} {vision}"),
    ]


@pytest.mark.parametrize(
    ("choice", "inputs"),
    [
        ({"shard": "build-main-cpu"}, [{"variant": "all"}]),
        ({"shard": "build-main-cpu", "unpublished": True}, [{"variant": "unpublished"}]),
        ({"patterns": [GPU], "unpublished": True}, [{"variant": "unpublished", "only": GPU}]),
        ({"patterns": [GPU]}, [{"variant": GPU}]),
    ],
)
def test_an_order_is_the_shortest_form_of_a_choice(
    stack: Plan, choice: dict[str, Any], inputs: list[dict[str, str]]
) -> None:
    assert [Terms().inputs(order) for order in orders(stack, **choice)] == inputs


def test_a_branch_that_does_not_publish_is_not_asked_to(stack: Plan) -> None:
    (order,) = orders(stack, [GPU])
    assert Terms(publish=True).inputs(replace(order, publishes=False)) == {"variant": GPU}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "PATTERN: nothing is chosen"),
        (["*-sm91-*"], "NAME: '*-sm91-*' matches no variant"),
        (["{a"], "PATTERN: '{a' opens a brace"),
        (["--shard", "build-main"], "--shard: unknown shard 'build-main'; did you mean build-main-"),
    ],
)
def test_a_choice_that_is_none_is_refused(
    commands: list[str], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert run(PROGRAM, ["dispatch", *words, *commands]) == 2
    assert capsys.readouterr().err.startswith(f"error: {says}")
