"""Runners without containers: `run.sh` of an unpacked actions/runner, as a process of this machine.

One runner a folder, since it writes its configuration into it. The process gets an environment of its own, without a
credential of GitHub's and without what an activated shell has put into the controller's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from ci_compiler.errors import wrong
from ci_compiler.runner.controller.containers import (
    JIT,
    RUNNER_ENVIRONMENT,
    EngineError,
    InstanceStatus,
    RunnerInstance,
    RunnerOrder,
)
from ci_compiler.secret import Secret

RECORD = ".ci-runner.json"
"""What the controller keeps of the runner in its folder."""

WORK = "_work"
"""The folder of a runner's jobs in its own (actions/runner's default)."""

CONFIGURED = (".runner", ".credentials", ".credentials_rsaparams")
"""The files that a configured runner leaves in its folder (actions/runner)."""

PASSED_ON = frozenset({
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("NIX_PATH", "NIX_REMOTE", "NIX_SSL_CERT_FILE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
})  # fmt: skip
"""The variables of the controller's that a job may see."""

_COLLECTION = 3600


class ProcessEngine:
    """An `Engine` whose machine is a process. Raises InputError where `folder` holds no runner."""

    kind = "process"

    def __init__(self, folder: Path, store: Path = Path("/nix/store")) -> None:
        self._folder = folder.resolve()
        self._store = store
        self._child: subprocess.Popen[bytes] | None = None
        if not os.access(self._script, os.X_OK):
            raise wrong(folder, "no-runner", "holds no run.sh; unpack the archive of actions/runner there")
        if not os.access(self._folder, os.W_OK):
            raise wrong(folder, "cannot-write", "cannot be written, and a runner writes its configuration there")

    @property
    def folder(self) -> Path:
        """The runner's folder."""
        return self._folder

    def prepare(self, _: RunnerOrder) -> None:
        """Nothing that an earlier runner left stays; one of another pool that still runs there is left alone."""
        for machine in self.machines():
            if machine.status is InstanceStatus.RUNNING:
                message = f"{self._folder}: {machine.name} of the pool {machine.pool} runs here"
                raise EngineError(message)
        self._forget()

    def room(self) -> int:
        """Free bytes beside the store, or where there is none, the runner's folder."""
        try:
            return shutil.disk_usage(self._store if self._store.exists() else self._folder).free
        except OSError as error:
            raise EngineError(_line(error)) from None

    def collect_garbage(self, _: RunnerOrder) -> None:
        """Runs Nix' collector; the machine's own profiles keep their generations."""
        try:
            done = subprocess.run(
                ["nix-collect-garbage"],
                env=_passed_on(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_COLLECTION,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"nix-collect-garbage: not done in {_COLLECTION} s"
            raise EngineError(message) from None
        except OSError as error:
            raise EngineError(_line(error)) from None
        if done.returncode:
            message = f"nix-collect-garbage: {(done.stderr.strip() or 'failed').splitlines()[-1]}"
            raise EngineError(message)

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts `run.sh` in a session of its own, which no signal to the controller's reaches."""
        try:
            child = subprocess.Popen(
                [self._script],
                cwd=self._folder,
                env=_passed_on() | RUNNER_ENVIRONMENT | {JIT: jit.reveal()},
                stdin=subprocess.DEVNULL,
                stdout=2,
                stderr=2,
                start_new_session=True,
            )
            self._child = child
            record = {
                "name": order.name,
                "registration": order.registration,
                "scope": order.scope,
                "pool": order.pool,
                "slot": order.slot,
                "pid": child.pid,
                "born": _born(child.pid),
            }
            self._record.write_text(json.dumps(record), "utf-8")
        except OSError as error:
            raise EngineError(_line(error)) from None

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The one that the folder's record tells of, ours or an earlier controller's."""
        record = self._read()
        if not record:
            return ()
        code = self._child.poll() if self._child else None
        mine = self._child is not None and self._child.pid == record["pid"]
        running = code is None if mine else _born(record["pid"]) == record["born"]
        return (
            RunnerInstance(
                name=record["name"],
                status=InstanceStatus.RUNNING if running else InstanceStatus.ENDED,
                exit_code=(code or 0) if mine else 0,
                registration=record["registration"],
                scope=record["scope"],
                pool=record["pool"],
                slot=record["slot"],
            ),
        )

    def end(self, name: str) -> None:
        """Sends SIGTERM to the runner and its children."""
        self._signal(name, signal.SIGTERM)

    def remove(self, name: str) -> None:
        """Kills what still runs, and removes what the runner left in its folder, but not the work."""
        self._signal(name, signal.SIGKILL)
        if self._read().get("name") == name:
            if self._child is not None:
                self._child.wait()
                self._child = None
            self._forget()

    def last_words(self, _: str) -> str:
        """Nothing: what it says goes to the controller's standard error at once."""
        return ""

    @property
    def _script(self) -> Path:
        return self._folder / "run.sh"

    @property
    def _record(self) -> Path:
        return self._folder / RECORD

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._record.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            message = f"{self._record}: cannot be read; see whether a runner runs there, then delete it"
            raise EngineError(message) from None
        return found

    def _signal(self, name: str, number: signal.Signals) -> None:
        record = self._read()
        if record.get("name") == name and _born(record["pid"]) == record["born"]:
            try:
                os.killpg(record["pid"], number)
            except ProcessLookupError:
                return
            except OSError as error:
                raise EngineError(_line(error)) from None

    def _forget(self) -> None:
        try:
            for name in (*CONFIGURED, RECORD):
                (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise EngineError(_line(error)) from None


def _passed_on() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in PASSED_ON}


def _born(pid: int) -> int:
    """When the process `pid` began, in the kernel's ticks (proc(5), field 22 of stat); -1 where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])


def _line(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
