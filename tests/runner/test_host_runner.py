"""Runners without containers: run.sh as a process of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.runner.controller import runner_logs
from ci_compiler.runner.controller.engine import EngineError, InstanceStatus, RunnerOrder, RunnerState
from ci_compiler.runner.controller.host_runner import CONFIGURED, HOOK, RECORD, ProcessEngine
from ci_compiler.secret import Secret
from tests.processes import has_ended, number_in, until
from tests.runner.unpacked import RUN, end_job, unpacked

SECRET = "ZW5jb2RlZCBjb25maWd1cmF0aW9u"  # noqa: S105
ALONE: dict[str, Any] = {"image": "", "gpus": (), "builds": True, "room": 0, "cores": 0}
ORDER = RunnerOrder(name="one", registration=17, scope="my-org/stack", pool="builder", slot=1, **ALONE)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with unpacked(tmp_path / "runner") as made:
        yield made


def started(folder: Path) -> ProcessEngine:
    engine = ProcessEngine(folder)
    engine.prepare(ORDER)
    engine.start(ORDER, Secret(SECRET))
    until((folder / "_work").exists)
    return engine


def test_a_job_sees_the_configuration_and_no_credential(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_APP_PRIVATE_KEY", "LD_LIBRARY_PATH", "FLOX_ENV"):
        monkeypatch.setenv(name, "secret-of-the-controller")
    engine = started(folder)
    environment = (folder / "environment").read_text("utf-8")
    assert f"ACTIONS_RUNNER_INPUT_JITCONFIG={SECRET}" in environment
    assert "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1" in environment
    assert "secret-of-the-controller" not in environment
    assert SECRET not in (folder / RECORD).read_text("utf-8")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # processes come and go
            assert SECRET.encode() not in path.read_bytes()
    engine.remove(ORDER.name)


def test_code_of_a_fork_is_refused_before_the_job(folder: Path, tmp_path: Path) -> None:
    (folder / HOOK).write_text("exit 0\n", "utf-8")  # what an earlier job may have left
    engine = started(folder)
    environment = (folder / "environment").read_text("utf-8").splitlines()
    assert f"ACTIONS_RUNNER_HOOK_JOB_STARTED={folder / HOOK}" in environment
    engine.remove(ORDER.name)
    (tmp_path / "json.py").write_text("raise SystemExit(0)\n", "utf-8")
    for head, status in (("o/r", 0), ("stranger/r", 1)):
        event = {"repository": {"full_name": "o/r"}, "pull_request": {"head": {"repo": {"full_name": head}}}}
        (tmp_path / "event.json").write_text(json.dumps(event), "utf-8")
        env = {
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "PATH": str(tmp_path),
            "PYTHONPATH": str(tmp_path),
        }
        done = subprocess.run(["/bin/bash", "-e", folder / HOOK], env=env, capture_output=True, check=False, text=True)
        assert (done.returncode, "stranger/r" in done.stderr) == (status, bool(status))


@pytest.mark.parametrize("code", [0, 7, 1])
def test_a_runner_ends_with_its_own_code_and_leaves_no_configuration(folder: Path, code: int) -> None:
    engine = started(folder)
    [machine] = engine.machines()
    assert (machine.name, machine.status, machine.registration, machine.pool) == (
        "one",
        InstanceStatus.RUNNING,
        17,
        "builder",
    )
    end_job(folder, code)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert engine.machines()[0].exit_code == code
    engine.remove(ORDER.name)
    assert engine.machines() == ()
    assert not any((folder / name).exists() for name in (*CONFIGURED, RECORD))
    assert (folder / "_work").is_dir()


def test_what_a_runner_says_is_known_and_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run.sh` ends with 0 where an old runner is refused, and only its output says so."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    engine = started(folder)
    words = "An error occurred: Runner version v2.331.0 is deprecated and cannot receive messages."
    (folder / "says").write_text(f"{words}\nRunner listener exit with terminated error\nExiting runner...\n", "utf-8")
    end_job(folder, 0)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert (engine.last_words(ORDER.name), engine.job_failed(ORDER.name)) == (words, None)
    assert runner_logs.refused(engine.last_words(ORDER.name))
    engine.keep_log(ORDER.name)
    engine.remove(ORDER.name)
    assert words in (tmp_path / "ci-runner-lost/one.log").read_text("utf-8")
    engine.prepare(ORDER)
    assert engine.last_words(ORDER.name) == "", "that was an earlier runner"


@pytest.mark.parametrize("result", ["Succeeded", "Failed"])
def test_how_a_job_ended_is_known(folder: Path, result: str) -> None:
    engine = started(folder)
    assert engine.state(ORDER.name) is None
    (folder / "says").write_text(f"2026-01-01 00:00:00Z: Job build completed with result: {result}\n", "utf-8")
    end_job(folder, 0)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert engine.job_failed(ORDER.name) is (result == "Failed")
    assert ProcessEngine(folder).job_failed(ORDER.name) is (result == "Failed"), "a later controller knows it too"
    engine.remove(ORDER.name)


def test_removing_kills_the_runner_and_its_children(folder: Path) -> None:
    (folder / "run.sh").write_text(RUN.replace("until", "sleep 1000 & echo $! > child\nuntil"), "utf-8")
    engine = started(folder)
    child = number_in(folder / "child")
    engine.remove("another")
    assert engine.machines()[0].status is InstanceStatus.RUNNING
    engine.remove(ORDER.name)
    until(lambda: has_ended(child))
    engine.remove(ORDER.name)


def test_an_idle_runner_is_asked_to_end(folder: Path) -> None:
    engine = started(folder)
    engine.end(ORDER.name)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert engine.machines()[0].exit_code == -signal.SIGTERM
    engine.remove(ORDER.name)


def test_a_runner_that_has_a_job_finishes_it(folder: Path) -> None:
    """GitHub's run.sh would abort the job. The worker is a process of its own, as in actions/runner."""
    (folder / "Runner.Worker").write_text("#!/bin/sh\nmkdir -p _work\nuntil test -e go; do sleep 0.01; done\n", "utf-8")
    (folder / "Runner.Worker").chmod(0o755)
    (folder / "run.sh").write_text("#!/bin/sh\n./Runner.Worker\nexit 0\n", "utf-8")
    engine = started(folder)
    engine.end(ORDER.name)
    assert engine.machines()[0].status is InstanceStatus.RUNNING
    assert engine.state(ORDER.name) == RunnerState(online=True, busy=True)
    end_job(folder, 0)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert engine.machines()[0].exit_code == 0
    assert engine.state(ORDER.name) is None
    engine.remove(ORDER.name)


def test_the_toolkit_runs_on_this_machine(folder: Path) -> None:
    ended = ProcessEngine(folder).toolkit(ORDER, ("detect", "--help"))
    assert ended.status == 0
    assert "--json" in ended.out


def test_signals_to_the_controller_do_not_reach_the_runner(folder: Path) -> None:
    engine = started(folder)
    record = json.loads((folder / RECORD).read_text("utf-8"))
    assert os.getsid(record["pid"]) == record["pid"] != os.getsid(0)
    engine.remove(ORDER.name)


def test_a_later_controller_finds_the_runner_of_an_earlier_one(folder: Path) -> None:
    """The earlier controller was another process that has exited, so its runner has no parent here."""
    code = (
        "import sys; from pathlib import Path\n"
        "from ci_compiler.secret import Secret\n"
        "from ci_compiler.runner.controller.engine import RunnerOrder\n"
        "from ci_compiler.runner.controller.host_runner import ProcessEngine\n"
        "order = RunnerOrder(name='one', registration=17, scope='s', pool='p', slot=1, image='', gpus=(),"
        " builds=True, room=0, cores=0)\n"
        "ProcessEngine(Path(sys.argv[1])).start(order, Secret('x'))\n"
        "import os; os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    until((folder / "_work").exists)
    engine = ProcessEngine(folder)
    [machine] = engine.machines()
    assert (machine.name, machine.status, machine.registration) == ("one", InstanceStatus.RUNNING, 17)
    end_job(folder, 1)
    until(lambda: engine.machines()[0].status is InstanceStatus.ENDED)
    assert engine.machines()[0].exit_code == 0
    engine.remove("one")
    assert engine.machines() == ()


def test_another_process_with_the_same_id_is_not_the_runner(folder: Path) -> None:
    known = {"name": "one", "registration": 1, "scope": "s", "pool": "p", "slot": 1, "pid": os.getpid(), "born": 1}
    (folder / RECORD).write_text(json.dumps(known), "utf-8")
    engine = ProcessEngine(folder)
    assert engine.machines()[0].status is InstanceStatus.ENDED
    engine.remove("one")
    assert engine.machines() == ()


def test_a_folder_in_which_another_runner_runs_is_left_alone(folder: Path) -> None:
    engine = started(folder)
    with pytest.raises(EngineError, match="one of the pool builder runs here"):
        ProcessEngine(folder).prepare(ORDER)
    assert engine.machines()[0].status is InstanceStatus.RUNNING
    engine.remove(ORDER.name)
    ProcessEngine(folder).prepare(ORDER)


def test_a_folder_without_a_usable_runner_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / RECORD).write_text("{", "utf-8")
    with pytest.raises(EngineError, match="cannot be read; check that no runner runs there"):
        ProcessEngine(folder).machines()
    (folder / "run.sh").chmod(0o644)
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("run.sh"))
    with pytest.raises(InputError, match=r"holds no run\.sh; unpack the archive"):
        ProcessEngine(folder)
    monkeypatch.setattr(os, "access", lambda path, _: str(path).endswith("run.sh"))
    with pytest.raises(InputError, match="cannot be written"):
        ProcessEngine(folder)


RECORDED = {"name": "one", "registration": 1, "scope": "o/r", "pool": "p", "slot": 1, "pid": 4321, "born": -1}


@pytest.mark.parametrize(
    "record",
    [
        *("", "null", "[]", "17", "[" * 200_000, json.dumps(RECORDED)[:-1], '{"name": "one"}', "a" * 5_000_000),
        *(
            json.dumps(RECORDED | {field: wrong})
            for field, wrong in [
                *(("pid", wrong) for wrong in (None, True, 0, 1, -1, 1.5, "self", 10**400, [4321])),
                *(("name", wrong) for wrong in (None, 3, ["one"], "", "a\0b", "--all", "\ud800")),
                *((field, wrong) for field in ("registration", "slot", "born") for wrong in (None, {}, "first", 1e99)),
            ]
        ),
    ],
    ids=lambda record: record[:40].encode("ascii", "replace").decode(),
)
def test_a_record_that_makes_no_sense_is_an_error_and_signals_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("it sent a signal"))
    (folder / RECORD).write_text(record, "utf-8")
    engine = ProcessEngine(folder)
    for ask in (
        engine.machines,
        lambda: engine.prepare(ORDER),
        lambda: engine.end("one"),
        lambda: engine.remove("one"),
    ):
        with pytest.raises(EngineError, match="cannot be read; check that no runner runs there, then delete it"):
            ask()


def test_a_runner_that_cannot_be_started_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.sh").write_text("#!/nowhere/sh\n", "utf-8")
    engine = ProcessEngine(folder)
    with pytest.raises(EngineError, match=r"run\.sh: cannot be started: No such file"):
        engine.start(ORDER, Secret(SECRET))
    assert engine.machines() == ()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="nix-collect-garbage: cannot be started: No such file"):
        engine.collect_garbage(ORDER)


def test_the_files_of_earlier_jobs_are_removed_before_the_next_runner(folder: Path, tmp_path: Path) -> None:
    """Read-only caches too, and nothing through a link; of the logs, the newest stay."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/kept").touch()
    cache = folder / "_work/r/cache"
    cache.mkdir(parents=True)
    (cache / "module").touch()
    cache.chmod(0o500)
    (folder / "_work/link").symlink_to(tmp_path / "elsewhere")
    (folder / "_diag").mkdir()
    for number in range(25):
        log = folder / f"_diag/Worker_{number:02}.log"
        log.touch()
        os.utime(log, (number, number))
    ProcessEngine(folder).prepare(ORDER)
    assert list((folder / "_work").iterdir()) == []
    assert (tmp_path / "elsewhere/kept").exists()
    assert sorted(path.name for path in (folder / "_diag").iterdir()) == [
        f"Worker_{one:02}.log" for one in range(5, 25)
    ]
    (folder / "_work").rmdir()
    (folder / "_work").symlink_to(tmp_path / "elsewhere")
    ProcessEngine(folder).prepare(ORDER)
    assert (tmp_path / "elsewhere/kept").exists(), "whoever links it elsewhere looks after that folder"


def test_a_runner_is_not_started_in_a_folder_without_room(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has room, on a disk of its own."""
    free = {os.fspath(tmp_path / "store"): 10**12, os.fspath(folder): 999_999_999}
    known = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: known._replace(free=free[os.fspath(path)]))
    (tmp_path / "store").mkdir()
    engine = ProcessEngine(folder, store=tmp_path / "store")
    with pytest.raises(EngineError, match=r"free for the files of a job in \S*_work, and 1 GB needed"):
        engine.prepare(replace(ORDER, room=20 * 10**9))
    assert engine.room() == 10**12
    free[os.fspath(folder)] = 10**9
    engine.prepare(replace(ORDER, room=20 * 10**9))
    engine.prepare(replace(ORDER, room=20 * 10**9, store=False))
    assert engine.room() == 10**9, "a job without a Nix store builds there"


def test_the_doctor_looks_at_the_disk_of_the_runners_folder(folder: Path) -> None:
    found = json.loads(ProcessEngine(folder).toolkit(ORDER, ("detect", "--json")).out)
    assert found["folders"]["work"]["path"] == os.fspath(folder / "_work")


def test_nix_collects_the_garbage(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nix-collect-garbage"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\ntest ! -e {tmp_path}/broken || exit 1\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("GITHUB_TOKEN", "secret-of-the-controller")
    engine = ProcessEngine(folder, store=tmp_path)
    engine.collect_garbage(ORDER)
    assert "secret-of-the-controller" not in (tmp_path / "seen").read_text("utf-8")
    assert engine.room() > 0
    (tmp_path / "broken").touch()
    with pytest.raises(EngineError, match="nix-collect-garbage: failed"):
        engine.collect_garbage(ORDER)
