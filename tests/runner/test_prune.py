"""Finding, listing and removing what is left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.engines import this_machine
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.github.inventory import Runner
from ci_compiler.runner.controller.engine import InstanceStatus, RunnerInstance, StoreVolume
from ci_compiler.runner.controller.host_runner import RECORD
from ci_compiler.runner.controller.prune import (
    Leftover,
    Survey,
    containers,
    find,
    metrics,
    registrations,
    remove,
    roots,
    volumes,
)
from ci_compiler.runner.controller.runner_names import QUARANTINED, RunnerName
from tests.github.server import serving
from tests.github.state import REPOSITORY, TOKEN, Fault, GitHub
from tests.output import checked
from tests.specs import small, spec_of

from .test_containers import Told
from .unpacked import RUN

NOW = 1_790_856_000
NAME = RunnerName(host="here-0123", slot=1, made=NOW - 5000, pool="builder")
HERE = Survey(host=NAME.host, now=NOW)
MACHINE = RunnerInstance(
    name="one", status=InstanceStatus.RUNNING, exit_code=0, registration=17, scope=REPOSITORY, pool="builder", slot=1
)
RUNNER = Runner(id=17, name=str(NAME), labels=(), online=True, busy=False)


def left(items: Iterator[Leftover]) -> list[str]:
    return [item.left_over for item in items]


def judged(runner: Runner, *, machine: RunnerInstance = MACHINE, everywhere: bool = False) -> str:
    [item] = registrations(Survey(NAME.host, NOW, everywhere=everywhere), REPOSITORY, [runner], [machine])
    return item.left_over


def test_metrics_count_what_is_there_in_prometheus_format() -> None:
    kind = next(iter(containers([MACHINE], {}))).kind
    items = [
        Leftover(kind=kind, name=name, pool='a "b"\n', state="running", left_over=why)
        for name, why in (("one", ""), ("two", ""), ("three", "it ended"))
    ]
    sick = replace(RUNNER, labels=("quarantined",), online=False)
    for pool, runner in (("h100", RUNNER), ("rtx", sick)):
        name = str(replace(NAME, pool=pool))
        items += registrations(HERE, REPOSITORY, [replace(runner, name=name)], [])
    lines = metrics(items, lost=2).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f'ci_runner_items{{kind="{kind}",pool="a \\"b\\"\\n",state="running",left_over="false"}} 2',
        f'ci_runner_items{{kind="{kind}",pool="a \\"b\\"\\n",state="running",left_over="true"}} 1',
        'ci_runner_items{kind="registration",pool="h100",state="online",left_over="false"} 1',
        'ci_runner_items{kind="registration",pool="rtx",state="quarantined",left_over="false"} 1',
        'ci_runner_quarantined_slots{pool="h100"} 0',
        'ci_runner_quarantined_slots{pool="rtx"} 1',
        "ci_runner_lost_logs 2",
    ]


def test_a_container_is_left_over_if_it_ended_or_its_runner_is_unknown() -> None:
    known = {REPOSITORY: {17: RUNNER}}
    assert left(containers([MACHINE], known)) == [""]
    assert left(containers([MACHINE], {REPOSITORY: {}})) == ["GitHub has no such runner"]
    assert left(containers([MACHINE], {})) == [""]
    assert left(containers([replace(MACHINE, scope="my-org")], {REPOSITORY: {}})) == [""]
    assert left(containers([replace(MACHINE, status=InstanceStatus.ENDED)], known)) == ["it ended"]
    [collecting] = containers([replace(MACHINE, registration=0, scope="")], known)
    assert (collecting.left_over, collecting.state) == ("", "collecting garbage")


def test_a_registration_is_left_over_if_it_is_offline_old_and_not_running() -> None:
    gone = replace(RUNNER, online=False)
    stopped = replace(MACHINE, status=InstanceStatus.ENDED)
    assert judged(gone, machine=stopped) == "nothing runs it on this machine"
    assert judged(gone) == ""
    assert judged(RUNNER, machine=stopped) == ""
    assert judged(replace(gone, busy=True), machine=stopped) == ""
    young = replace(gone, name=str(replace(NAME, made=NOW - 60)))
    assert judged(young, machine=stopped) == ""
    there = replace(gone, name=str(replace(NAME, host="there-4567")))
    assert judged(there, machine=stopped) == ""
    assert judged(there, machine=stopped, everywhere=True) == "its machine does not run it"
    ahead = replace(gone, name=str(replace(NAME, made=NOW + 5000)))
    assert judged(ahead, machine=stopped) == "nothing runs it on this machine"
    skewed = replace(gone, name=str(replace(NAME, made=NOW + 60)))
    assert judged(skewed, machine=stopped) == ""
    theirs = replace(gone, name="theirs")
    assert not list(registrations(HERE._replace(everywhere=True), REPOSITORY, [theirs], []))


def test_a_store_is_kept_for_the_next_job_of_its_slot() -> None:
    volume = StoreVolume(name="v", pool="builder", slot=1, image="new")
    assert left(volumes(HERE, [volume], [], {"builder": "new"})) == [""]
    assert left(volumes(HERE, [volume], [], {"builder": ""})) == [""]
    assert left(volumes(HERE, [volume], [], {"builder": "newer"})) == ["the pool has a newer image"]
    assert left(volumes(HERE, [volume], [], {})) == ["the spec has no such pool"]
    assert left(volumes(HERE._replace(stores=True), [volume], [], {"builder": "new"})) == ["no job is using it"]
    assert left(volumes(HERE._replace(stores=True), [volume], [MACHINE], {})) == [""]


def test_roots_of_finished_jobs_are_left_over(tmp_path: Path) -> None:
    auto, work = tmp_path / "auto", tmp_path / "runner" / "_work"
    auto.mkdir()
    work.mkdir(parents=True)
    (work / "result").symlink_to("/nix/store/abc")
    (tmp_path / "mine").symlink_to("/nix/store/def")
    for name, target in {"1": work / "result", "2": tmp_path / "mine", "3": work / "gone"}.items():
        (auto / name).symlink_to(target)
    [item] = roots(work, running=False, folder=auto)
    assert (item.name, item.left_over) == (str(work / "result"), "its job is over")
    assert left(roots(work, running=True, folder=auto)) == [""]
    assert left(roots(work, running=False, folder=tmp_path / "none")) == []


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as served:
        yield served


@pytest.fixture
def command(github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments for the small spec and a runner's folder in which a runner was killed."""
    for name, value in {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_APP_ID", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "spec.yaml").write_text(json.dumps(small()), "utf-8")
    folder = tmp_path / "runner"
    folder.mkdir()
    (folder / "run.sh").write_text(RUN, "utf-8")
    (folder / "run.sh").chmod(0o755)
    record = {
        "name": "one",
        "registration": 1,
        "scope": REPOSITORY,
        "pool": "builder",
        "slot": 1,
        "pid": 999_999_999,
        "born": 1,
    }
    (folder / RECORD).write_text(json.dumps(record), "utf-8")
    return ["--host", str(folder), "--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]


def fill(github: GitHub) -> str:
    """A left-over registration of this machine, one of another machine, and one that no controller made."""
    mine = str(replace(NAME, host=this_machine(), made=1_700_000_000))
    there = str(replace(NAME, host="there-4567", made=1_700_000_000))
    for name in (mine, there, "theirs"):
        github.add_runner(name, status="offline")
    return mine


def test_the_command_lists_everything_and_why_it_is_left_over(
    github: GitHub, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    mine = fill(github)
    assert run(PROGRAM, ["list", "--json", *command]) == 0
    rows = checked("ci-runner list", capsys.readouterr().out)
    assert [(row["kind"], row["name"], row["left_over"]) for row in rows] == [
        ("container", "one", "it ended"),
        ("registration", mine, "nothing runs it on this machine"),
        ("registration", str(replace(NAME, host="there-4567", made=1_700_000_000)), ""),
    ]
    asked = len(github.asked)
    assert run(PROGRAM, ["list", "--here", *command]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert len(github.asked) == asked


def test_the_command_removes_only_what_is_left_over(
    github: GitHub, command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine = fill(github)
    assert run(PROGRAM, ["prune", "--dry-run", *command]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "would remove container one: it ended",
        f"would remove registration {mine}: nothing runs it on this machine",
    ]
    assert run(PROGRAM, ["prune", "--dry-run", "--json", *command]) == 0
    found = checked("ci-runner prune", capsys.readouterr().out)
    assert [(one["name"], one["result"]) for one in found] == [("one", "left over"), (mine, "left over")]
    assert len(github.of()) == 3
    assert (tmp_path / "runner" / RECORD).exists()
    assert run(PROGRAM, ["prune", *command]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert mine not in {runner["name"] for runner in github.of()}
    assert len(github.of()) == 2
    assert not (tmp_path / "runner" / RECORD).exists()
    assert run(PROGRAM, ["prune", "--everywhere", *command]) == 0
    assert [runner["name"] for runner in github.of()] == ["theirs"]
    assert run(PROGRAM, ["prune", *command]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_the_command_continues_if_something_cannot_be_removed(
    github: GitHub, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(github)
    github.faults.append(Fault(403, "DELETE", message="Resource not accessible"))
    assert run(PROGRAM, ["prune", "--everywhere", *command]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "remove the runner" in err
    assert len(github.of()) == 2


def test_containers_and_stores_are_found_and_removed_through_the_engine(tmp_path: Path) -> None:
    told = Told(tmp_path, "podman")
    labels = '{"io.github.ci-compiler":"runner","io.github.ci-compiler.pool":"builder"}'
    (tmp_path / "names").write_text("one\n", "utf-8")
    (tmp_path / "inspected").write_text(f'["one","exited",1,{labels}]\n', "utf-8")
    (tmp_path / "volumes").write_text("store\n", "utf-8")
    (tmp_path / "image").write_text("sha256:fedcba9876543210\n", "utf-8")
    items = find(HERE, spec_of(small()), told.engine, {})
    assert [(item.kind.value, item.name, item.left_over) for item in items] == [
        ("container", "one", "it ended"),
        ("volume", "store", "the pool has a newer image"),
    ]
    assert all(remove(item, told.engine, {}) for item in items)
    assert told.told[-1] == "volume rm store"
    assert "rm --force --volumes one" in told.told


def test_a_link_that_keeps_a_build_is_removed_with_the_rest(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auto, work = tmp_path / "auto", tmp_path / "runner" / "_work"
    auto.mkdir()
    work.mkdir()
    (work / "result").symlink_to("/nix/store/abc")
    (auto / "1").symlink_to(work / "result")
    monkeypatch.setattr("ci_compiler.runner.controller.prune.ROOTS", auto)
    assert run(PROGRAM, ["prune", *command]) == 0
    assert not os.path.lexists(work / "result")
    assert f"removed gc-root {work / 'result'}: its job is over" in capsys.readouterr().out


def test_a_quarantine_is_listed_and_kept(
    github: GitHub, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = str(replace(NAME, host=this_machine(), made=1_700_000_000))
    github.add_runner(shown, (QUARANTINED,), status="offline")
    assert run(PROGRAM, ["list", "--json", *command]) == 0
    row = json.loads(capsys.readouterr().out)[-1]
    assert (row["name"], row["state"], row["left_over"]) == (shown, "quarantined", "")


def test_a_list_of_this_machine_does_not_import_pygithub(command: list[str]) -> None:
    """It is slow to import, and a machine without a network has no use for it."""
    program = "import sys; from ci_compiler.cli.runner import main; code = main(); sys.exit('github' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, "list", "--here", *command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
