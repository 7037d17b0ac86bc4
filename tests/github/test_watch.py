"""The watch: who waits for a runner, what is missing, what cannot be seen, and the one issue about it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.remote import client_of, workflow_client_of
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.github import queue as queues
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.github.issues import Kept, keep_issue
from ci_compiler.github.queue import queue
from ci_compiler.runner.watch import MARKER
from ci_compiler.secret import Secret

from .state import NOW, TOKEN, Fault, GitHub
from .talk import talk

RECORDED = json.loads((Path(__file__).parent / "recorded/queue.json").read_bytes())["runs"]
BUILDER = ("self-hosted", "linux", "x64", "nix-builder")
H100 = ("self-hosted", "linux", "x64", "gpu-sm90")

Watching = Callable[[], tuple[int, str]]


@pytest.fixture
def watch(commands: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Runs the command as the compiled workflow does; returns its exit code and its lines on standard error."""
    monkeypatch.setenv("WORKFLOW_TOKEN", TOKEN)
    monkeypatch.setattr("ci_compiler.clock.Clock.now", lambda _: NOW)

    def watching() -> tuple[int, str]:
        code = run(PROGRAM, ["coverage", "--watch", "--issue", *commands])
        return code, capsys.readouterr().err

    return watching


def complete(served: GitHub) -> None:
    """Registers every machine that the spec declares."""
    for name, labels in (("builder-1", BUILDER), ("builder-2", BUILDER), ("h100-1", H100)):
        served.add_runner(name, labels)


def bodies(served: GitHub) -> list[str]:
    return [one["body"] for one in served.issues.values() if one["state"] == "open"]


def test_the_issue_follows_the_fleet(served: GitHub, watch: Watching) -> None:
    complete(served)
    assert watch() == (0, "issue: there is no issue, and none is needed\n")
    served.record(RECORDED)
    served.workflows[".github/workflows/pages.yml"]["state"] = "disabled_inactivity"
    code, err = watch()
    assert code == 1
    assert "self-hosted, linux, x64, gpu-sm90: the oldest job has waited for 6 h 30 min; https://github.com/" in err
    assert "pages.yml is disabled: GitHub disabled it" in err
    assert "issue: opened; https://github.com/my-org/stack/issues/" in err
    [body] = bodies(served)
    assert "/actions/runs/1/job/12" in body
    assert "nix-builder" not in body  # it waits for less than the budget
    assert "everybody" not in body  # anybody's fork can ask for any labels
    assert f"{MARKER} queue workflows -->" in body
    assert watch()[1].endswith(f"issue: still open; {next(iter(served.issues.values()))['html_url']}\n")
    served.workflows[".github/workflows/pages.yml"]["state"] = "active"
    assert "issue: updated" in watch()[1]
    assert f"{MARKER} queue -->" in bodies(served)[0]
    served.runs.clear()
    assert watch()[0] == 0
    assert [(one["state"], one["state_reason"]) for one in served.issues.values()] == [("closed", "completed")]


def test_missing_machines_are_found_and_no_failure(served: GitHub, watch: Watching) -> None:
    for slot, name in enumerate(("ci-runner-one-0123-0-tm89c0-builder", "ci-runner-one-0123-1-tm89c1-builder")):
        served.add_runner(name, BUILDER, busy=bool(slot))
    served.add_runner("h100-1", H100)
    code, err = watch()
    assert code == 0
    assert "self-hosted, linux, x64, nix-builder: 1 of the 2 machines of pool builder are online" in err
    assert len(bodies(served)) == 1
    served.add_runner("other", BUILDER)
    assert "issue: closed" in watch()[1]


@pytest.mark.parametrize(
    ("status", "path", "needs"),
    [
        (403, "/actions/runners", "runners: needs a token with Administration: read"),
        (404, r"/actions/runs\?", "queue: needs a token with Actions: read"),
        (403, "/actions/workflows", "workflows: needs a token with Actions: read"),
    ],
)
def test_what_is_not_seen_is_said_and_not_healthy(
    served: GitHub, watch: Watching, status: int, path: str, needs: str
) -> None:
    complete(served)
    served.add_issue(body=f"{MARKER} queue runners workflows -->")
    served.faults.append(Fault(status, path=path, message="Resource not accessible by integration"))
    code, err = watch()
    assert code == 0
    assert f"not seen: {needs}" in err
    [body] = bodies(served)
    assert f"{MARKER} {needs.partition(':')[0]} -->" in body
    assert "### Not seen" in body
    assert "issue: closed" in watch()[1]


def test_what_is_not_seen_opens_no_issue(served: GitHub, watch: Watching) -> None:
    served.faults.append(Fault(403, path="/actions/runners"))
    code, err = watch()
    assert (code, bodies(served)) == (0, [])
    assert err.count("not seen: ") == 1


def test_a_scale_set_that_takes_no_job(served: GitHub, watch: Watching, commands: list[str]) -> None:
    complete(served)
    file = Path(commands[3])
    document = json.loads(file.read_text("utf-8"))
    document["runners"]["h100"] |= {"runs-on": "arc-h100", "system": "x86_64-linux"}
    file.write_text(json.dumps(document | {"watch": {"longest-wait": 30}}), "utf-8")
    assert "not seen: scale set arc-h100: no runner of it is registered now" in watch()[1]
    [recorded] = [run | {"jobs": [job | {"labels": ["arc-h100"]} for job in run["jobs"][1:]]} for run in RECORDED[:1]]
    served.record([recorded])
    code, err = watch()
    assert code == 1
    assert "scale set arc-h100: the oldest job has waited for 6 h 30 min, and no runner of the scale set is" in err
    assert "not seen" not in err
    served.jobs[served.runs[0]["id"]][0] |= {
        "status": "in_progress",
        "runner_id": 9,
        "runner_name": "arc-h100-runner-x",
    }
    assert "issue: closed" in watch()[1]


def test_the_token_of_the_workflow_is_kept_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = Namespace(repository="my-org/stack")
    for name, value in {"GITHUB_TOKEN": "fleet", "GITHUB_APP_ID": "", "WORKFLOW_TOKEN": "workflow"}.items():
        monkeypatch.setenv(name, value)
    clients = [client_of(arguments, tmp_path), workflow_client_of(arguments, tmp_path)]
    assert [one.access.credential for one in clients] == [Secret("fleet"), Secret("workflow")]
    monkeypatch.setenv("GITHUB_APP_ID", "7")  # without its key
    assert workflow_client_of(arguments, tmp_path).access.credential == Secret("workflow")
    assert "WORKFLOW_TOKEN" in CREDENTIALS


def test_the_jobs_of_the_oldest_runs_are_read(served: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    served.record(RECORDED)
    monkeypatch.setattr(queues, "RUNS", 2)
    found = queue(talk(served).client)
    assert found.left_out == 1
    assert [job.url.rpartition("/")[2] for job in found.jobs] == ["32", "12"]
    assert frozenset(BUILDER) in found.taken
    assert sum("/jobs" in path for _, path, _ in served.asked) == 2


def test_there_is_never_a_second_issue(served: GitHub) -> None:
    client = talk(served).client
    for number in range(100):
        served.add_issue(body=f"another {number}", by="User")
    served.add_issue(body=f"a copy of {MARKER}", by="User", association="CONTRIBUTOR")
    served.add_issue(
        body=f"{MARKER} -->", pull_request={"url": "u", "html_url": "u", "diff_url": "u", "patch_url": "u"}
    )
    by_member = served.add_issue(body=f"{MARKER} 1 -->", by="User", association="MEMBER")
    by_bot = served.add_issue(body=f"{MARKER} 2 -->")
    assert keep_issue(client, MARKER, "title", lambda _: f"{MARKER} 3 -->")[0] is Kept.UPDATED
    assert by_member["body"] == f"{MARKER} 3 -->"
    assert (by_bot["state"], by_bot["state_reason"]) == ("closed", "not_planned")
    assert sum(one["state"] == "closed" for one in served.issues.values()) == 1


def test_no_issue_is_opened_unless_all_were_searched(served: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.github.issues.PAGES", 1)
    for _ in range(100):
        served.add_issue(body="", by="User")
    with pytest.raises(InputError, match="has more than 100 open issues"):
        keep_issue(talk(served).client, MARKER, "title", lambda _: MARKER)
    assert len(served.issues) == 100
