"""Runners without containers: `run.sh` of an unpacked actions/runner, as a process of this machine.

There is one runner per folder, since a runner writes its configuration into its folder. The process gets a clean
environment, without GitHub credentials and without the variables that an activated shell gave to the controller. A hook
refuses code from forks before each job. Nothing separates the jobs from each other.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import write_file
from ci_compiler.outside import LARGEST, open_regular, text_of
from ci_compiler.process import Background, Ended, ask, start
from ci_compiler.runner import refuse_forks
from ci_compiler.runner.controller import runner_logs
from ci_compiler.runner.controller.answers import NAME, matched, number, read
from ci_compiler.runner.controller.engine import (
    CHECK_SECONDS,
    JIT,
    RUNNER_ENVIRONMENT,
    EngineError,
    InstanceStatus,
    RunnerInstance,
    RunnerOrder,
    RunnerState,
    engine_errors,
)
from ci_compiler.runner.limits import WORK_ROOM
from ci_compiler.secret import Secret
from ci_compiler.units import GB, size

RECORD = ".ci-runner.json"
"""The file in a runner's folder in which the controller records it."""

LOG = ".ci-runner.log"
"""The output of the runner in its folder."""

HOOK = ".ci-runner-job-started.sh"
"""The hook in a runner's folder, written again for each runner."""

WORK = "_work"
"""The folder for jobs, inside the runner's folder (the default of actions/runner)."""

KEPT = {WORK: 0, "_diag": 20}
"""The folders that are emptied before each runner, but for their newest files: logs of runners and jobs."""

CONFIGURED = (".runner", ".credentials", ".credentials_rsaparams")
"""The files that a configured runner writes to its folder (actions/runner)."""

PASSED_ON = frozenset({
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("NIX_PATH", "NIX_REMOTE", "NIX_SSL_CERT_FILE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
})  # fmt: skip
"""The variables of the controller that a job may see."""

_COLLECTION = 3600
"""The time limit of a garbage collection, in seconds."""


class ProcessEngine:
    """A `RunnerEngine` whose runner is a process in `folder`. Raises InputError if that holds no runner."""

    kind = "process"

    def __init__(self, folder: Path, store: Path = Path("/nix/store")) -> None:
        self.folder = folder.resolve()
        self._script, self._record, self._log = (self.folder / name for name in ("run.sh", RECORD, LOG))
        self._store = store
        self._builds_in = store if store.exists() else self.folder
        self._child: Background | None = None
        self.stopped: Callable[[], bool] = lambda: False
        if not os.access(self._script, os.X_OK):
            raise wrong(folder, Code.NO_RUNNER, "holds no run.sh; unpack the archive of actions/runner there")
        if not os.access(self.folder, os.W_OK):
            raise wrong(folder, Code.CANNOT_WRITE, "cannot be written, and a runner writes its configuration there")

    def prepare(self, order: RunnerOrder) -> None:
        """Removes the files of an earlier runner and of its job. Raises EngineError if one still runs there.

        And if the folder then lacks room for a job.
        """
        for machine in self.machines():
            if machine.status is InstanceStatus.RUNNING:
                raise EngineError(f"{self.folder}: {machine.name} of the pool {machine.pool} runs here")
        self._forget()
        work = self.folder / WORK
        with engine_errors():
            for name, kept in KEPT.items():
                _empty(self.folder / name, kept)
            free = shutil.disk_usage(work if work.exists() else self.folder).free
        self._builds_in = self._store if order.store and self._store.exists() else self.folder
        needed = min(order.room, WORK_ROOM * GB)
        if free < needed:
            raise EngineError(f"{size(free)} free for the files of a job in {work}, and {size(needed)} needed")

    def room(self) -> int:
        """Free bytes on the file system of the store or, if jobs use none, of the runner's folder."""
        with engine_errors():
            return shutil.disk_usage(self._builds_in).free

    def collect_garbage(self, _: RunnerOrder) -> None:
        """Runs the garbage collector of Nix. The profiles of the machine keep their generations."""
        with engine_errors():
            ended = ask(["nix-collect-garbage"], seconds=_COLLECTION, env=_passed_on(), stopped=self.stopped)
        if ended.status:
            raise EngineError(f"nix-collect-garbage: {ended.said or 'failed'}")

    def toolkit(self, _: RunnerOrder, arguments: Sequence[str], stdin: str = "") -> Ended:
        """Runs this toolkit as a process of this machine."""
        command = [sys.executable, "-I", "-c", "from ci_compiler.cli.runner import main; raise SystemExit(main())"]
        with engine_errors():
            env = _passed_on() | {"GITHUB_WORKSPACE": os.fspath(self.folder / WORK)}  # what the doctor looks at
            return ask([*command, *arguments], seconds=CHECK_SECONDS, env=env, stdin=stdin, stopped=self.stopped)

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts `run.sh` in a session of its own, so that signals to the controller do not reach it.

        The hook runs the interpreter and the module of this process by their paths, whatever the job's environment is.
        """
        hook = self.folder / HOOK
        hooks = {"ACTIONS_RUNNER_HOOK_JOB_STARTED": os.fspath(hook)}
        env = _passed_on() | RUNNER_ENVIRONMENT | hooks | {JIT: jit.reveal()}
        with engine_errors(self.folder):
            hook.unlink(missing_ok=True)
            command = shlex.join([sys.executable, "-I", refuse_forks.__file__])
            hook.write_text(f"#!/bin/bash -p\nexec {command}\n", "utf-8")
            hook.chmod(0o500)
            with self._log.open("wb") as out:
                self._child = child = start([os.fspath(self._script)], env=env, folder=self.folder, out=out)
            try:
                record = {"name": order.name, **order.identity, "pid": child.pid, "born": _born(child.pid)}
                write_file(self._record, json.dumps(record))
            except (OSError, EngineError):  # nothing would find it again
                _send(child.pid, kill=True)
                child.wait()
                self._forget()
                raise

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The runner in the record, which this controller or an earlier one started."""
        record = self._read()
        if not record:
            return ()
        code = self._child.poll() if self._child else None
        mine = self._child is not None and self._child.pid == record["pid"]
        running = code is None if mine else _born(record["pid"]) == record["born"]
        return (
            RunnerInstance(
                status=InstanceStatus.RUNNING if running else InstanceStatus.ENDED,
                exit_code=(code or 0) if mine else 0,
                **{field: value for field, value in record.items() if field not in {"pid", "born"}},
            ),
        )

    def end(self, name: str) -> None:
        """Sends SIGTERM to the runner and its children, unless it has a job: GitHub's run.sh would abort that."""
        if not _has_job(self._read().get("pid", 0)):
            self._signal(name, kill=False)

    def remove(self, name: str) -> None:
        """Kills the runner and its children, and removes its files from the folder, except for the jobs' files."""
        self._signal(name, kill=True)
        if self._read().get("name") == name:
            if self._child is not None:
                self._child.wait()
                self._child = None
            self._forget()

    def keep_log(self, name: str) -> None:
        """Writes its output to a file."""
        with engine_errors():
            runner_logs.keep(name, self._said(name))

    def state(self, name: str) -> RunnerState | None:
        """That it has a job, if it has one; its output says the rest."""
        record = self._read()
        busy = record.get("name") == name and _has_job(record["pid"])
        return RunnerState(online=True, busy=True) if busy else None

    def job_failed(self, name: str) -> bool | None:
        """Whether its output says so."""
        return runner_logs.job_failed(self._said(name))

    def written(self, _: str) -> int:
        """Always 0: the disk is the machine's, and no other slot has a part of it."""
        return 0

    def last_words(self, name: str) -> str:
        """The last line of its output that is the runner's own."""
        return runner_logs.last_words(self._said(name))

    def _said(self, name: str) -> str:
        """The last lines of the output of the runner `name`; '' if it is another one that runs or ran here."""
        if self._read().get("name") != name:
            return ""
        with engine_errors(), open_regular(self._log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LARGEST))
            return file.read().decode("utf-8", "replace")

    def _read(self) -> dict[str, Any]:
        try:
            return read(text_of(self._record), _record, RECORD)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise EngineError(f"{self._record}: {error.strerror}") from None
        except (ValueError, EngineError):
            message = f"{self._record}: cannot be read; check that no runner runs there, then delete it"
            raise EngineError(message) from None

    def _signal(self, name: str, *, kill: bool) -> None:
        record = self._read()
        if record.get("name") == name and _born(record["pid"]) == record["born"]:
            _send(record["pid"], kill=kill)

    def _forget(self) -> None:
        with engine_errors():
            for name in (*CONFIGURED, RECORD, LOG):
                (self.folder / name).unlink(missing_ok=True)


def _empty(folder: Path, kept: int) -> None:
    """Removes all but the newest `kept` files of `folder`, which is no link; what belongs to another user stays."""
    found = [] if folder.is_symlink() or not folder.is_dir() else list(folder.iterdir())
    for path in sorted(found, key=lambda one: one.lstat().st_mtime)[: len(found) - kept]:
        if path.is_symlink() or not path.is_dir():
            with suppress(OSError):
                path.unlink()
            continue
        for inner, _, _ in os.walk(path):  # caches of modules are read-only
            with suppress(OSError):
                Path(inner).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)


def _record(found: Any) -> dict[str, Any]:
    """The record of a runner, whose `pid` no signal to several processes can be."""
    texts = {field: matched(NAME, found[field]) for field in ("name", "scope", "pool")}
    numbers = {field: number(found[field]) for field in ("registration", "slot", "born")}
    return {**texts, **numbers, "pid": int(matched("([1-9][0-9]{1,8})", str(found["pid"])))}


def _passed_on() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in PASSED_ON}


def _send(group: int, *, kill: bool) -> None:
    """Sends SIGKILL or SIGTERM to a process group."""
    if sys.platform != "win32":  # `cli.engines` refuses it
        with engine_errors(), suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL if kill else signal.SIGTERM)


_GONE = (FileNotFoundError, ProcessLookupError)
"""What reading the file of a process raises that has ended. Other errors say nothing of it, and become EngineError."""


def _has_job(leader: int) -> bool:
    """Whether a job runs in the session of the process `leader`: then the session has a Runner.Worker."""
    with engine_errors():
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(*_GONE, PermissionError, ValueError, IndexError):
                name, _, rest = text_of(path, errors="replace").partition("(")[2].rpartition(")")
                if name == "Runner.Worker" and int(rest.split()[3]) == leader:
                    return True
    return False


def _born(pid: int) -> int:
    """When the process `pid` started, in clock ticks (proc(5), field 22 of stat); -1 if it does not run."""
    with engine_errors():
        try:
            fields = text_of(f"/proc/{pid}/stat", errors="replace").rpartition(")")[2].split()
        except _GONE:
            return -1
    return -1 if fields[0] == "Z" else int(fields[19])
