"""`ci-runner start` as users run it: what it refuses, and a complete run with processes and signals."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.process import Ended
from ci_compiler.runner.controller import loop
from ci_compiler.runner.controller.host_runner import RECORD, ProcessEngine
from tests.github.server import serving
from tests.github.state import OWNER, REPOSITORY, TOKEN, Fault, GitHub
from tests.runner.unpacked import end_job, unpacked
from tests.runner.world import HEALTHY
from tests.specs import small


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub(organisation=True)) as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with unpacked(tmp_path / "runner") as made:
        yield made


@pytest.fixture
def options(github: GitHub, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The arguments for the small spec, which needs little disk; restores the signal handlers afterwards."""
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(ProcessEngine, "toolkit", lambda *_: Ended(status=0, out=HEALTHY))
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    document = small()
    document["packages"] = {name: {**row, "disk": 1} for name, row in document["packages"].items()}
    document["runners"]["arc"] = {"runs-on": "arc-x64", "system": "x86_64-linux", "stages": ["publish"]}
    grouped = {"group": "builders", "labels": ["self-hosted", "linux", "x64", "grouped"]}
    document["runners"]["grouped"] = {"runs-on": grouped}
    (tmp_path / "spec.yaml").write_text(json.dumps(document), "utf-8")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield ["--host", str(folder), "--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    for number, handler in before.items():
        signal.signal(number, handler)


class Day:
    """Events while the controller sleeps: jobs start and end, and SIGTERM follows the last one."""

    def __init__(self, github: GitHub, folder: Path, jobs: int) -> None:
        self.github, self.folder, self.jobs = github, folder, jobs
        self.sleep = time.sleep
        self.seen: set[str] = set()

    def __call__(self, _: float) -> None:
        self.sleep(0.02)
        ours = [runner for runner in self.github.runners.values() if runner["name"].startswith("ci-runner-")]
        if ours and (self.folder / "environment").exists():
            self.seen.add((self.folder / "environment").read_text("utf-8"))
            (self.folder / "environment").unlink()
            self.github.runners.pop(ours[0]["id"])
            end_job(self.folder, 0)
        elif not ours and not (self.folder / RECORD).exists() and len(self.seen) == self.jobs:
            self.seen.add("")  # the last job's machine is gone as well
            os.kill(os.getpid(), signal.SIGTERM)


def test_jobs_run_one_after_another_until_sigterm(
    github: GitHub,
    folder: Path,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("time.sleep", Day(github, folder, jobs=3))
    assert run(PROGRAM, ["start", "builder", *options]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert sum("job done after" in line for line in err.splitlines()) == 3
    assert not github.of()
    assert len(github.secrets) >= 3
    assert not any(secret in err for secret in github.secrets)
    assert not any(TOKEN in text for text in (err, *(str(body) for *_, body in github.asked)))
    assert not (folder / ".runner").exists()


def test_without_the_verdict_of_the_host_no_runner_is_registered_for_jobs(
    github: GitHub, options: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert run(PROGRAM, ["start", "builder", "--health", "/nowhere/socket", *options]) == 0
    said = (
        "slot 1: in quarantine: the host's health service gives no verdict: /nowhere/socket: No such file or directory"
    )
    assert said in capfd.readouterr().err
    assert not github.secrets


def test_a_runner_that_github_refuses_for_hours_ends_it_with_the_runners_exit_code(
    github: GitHub,
    folder: Path,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    end_job(folder, 7)
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda _: sleep(0.02))
    monkeypatch.setattr(loop, "OUTDATED", -1.0)  # it was refused for long enough at once
    assert run(PROGRAM, ["start", "builder", *options]) == 7
    assert "builder: GitHub has served no runner of this version since" in capfd.readouterr().err
    assert not github.of()


def test_a_pool_of_a_group_registers_with_the_organisation(
    github: GitHub, folder: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    github.add_group("Default", default=True)
    group = github.add_group("builders")
    monkeypatch.setattr("time.sleep", Day(github, folder, jobs=1))
    assert run(PROGRAM, ["start", "grouped", *options]) == 0
    bodies = [body for method, path, body in github.asked if method == "POST" and path.startswith(f"/orgs/{OWNER}/")]
    assert bodies
    assert all(body["runner_group_id"] == group for body in bodies)
    assert bodies[0]["labels"] == ["self-hosted", "linux", "x64", "grouped"]


def test_a_public_repository_gets_a_machine_without_containers_only_on_request(
    github: GitHub,
    folder: Path,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    github.public = True
    assert run(PROGRAM, ["start", "builder", *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: --host: a public repository may use the runners of {REPOSITORY}")
    assert not github.secrets
    monkeypatch.setattr("time.sleep", Day(github, folder, jobs=1))
    assert run(PROGRAM, ["start", "builder", "--public-repository", *options]) == 0


def test_a_group_that_public_repositories_may_use_counts_as_public(
    github: GitHub, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    github.add_group("Default", default=True)
    group = github.add_group("builders")
    github.groups[group]["allows_public_repositories"] = True
    assert run(PROGRAM, ["start", "grouped", *options]) == 2
    assert "[public-repository]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["biulder"], "POOL: unknown pool 'biulder'; did you mean builder?"),
        (["arc"], "POOL: arc is a runner scale set; `ci-runner deploy arc` writes its files"),
        (["builder", "--count", "0"], "--count: 0 runners: at least 1"),
        (["builder", "--count", "2"], "--count: 2 runners: --host runs one runner per folder"),
        (["grouped"], "my-org: my-org has no runner group 'builders'"),
    ],
)
def test_a_pool_that_cannot_be_started_is_reported(
    options: list[str], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if words == ["builder", "--count", "0"]:
        options = options[2:]
    assert run(PROGRAM, ["start", *words, *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {says}")


def test_a_refused_registration_is_reported_on_one_line(
    github: GitHub, options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    github.faults.append(
        Fault(
            403,
            "POST",
            message="Resource not accessible by personal access token",
            headers={"X-Accepted-GitHub-Permissions": "administration=write"},
        )
    )
    assert run(PROGRAM, ["start", "builder", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: 127.0.0.1: register ci-runner-")
    assert "the token may not do this; it needs administration: write" in line


def test_one_machine_has_one_controller_of_a_pool(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from ci_compiler.cli.runner.start import only_one

    with only_one("builder"):
        assert run(PROGRAM, ["start", "builder", *options]) == 2
    assert "a controller of builder is already running here; stop it first [runs-already]" in capsys.readouterr().err
