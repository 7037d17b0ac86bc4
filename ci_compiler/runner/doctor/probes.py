"""Gathers the doctor's evidence on this machine: small probes, one per fact."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import ci_compiler
from ci_compiler.backends.protocol import NixUse
from ci_compiler.hardware.texts import MISSING, Answer, answer, printed, text_of
from ci_compiler.process import located
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.runner.doctor.evidence import TRIED, Assignment, ClockReading, Evidence
from ci_compiler.runner.fence import FENCE, reachable
from ci_compiler.stages import USABLE
from ci_compiler.units import release

DAEMON_SECONDS = 20.0
"""Seconds within which Nix's daemon must answer."""

_LISTENER = Path("bin", "Runner.Listener")


def gather(work: Assignment) -> Evidence:
    """The evidence for `work` from this machine; what its stage does not need is not gathered."""
    backend, checks = work.spec.backend, {check for stage in work.stages for check in stage.checks}
    trial = backend.nix is not NixUse.NONE and (not work.stages or "sandbox" in checks)
    store = _own_store() if backend.nix is not NixUse.NONE else None
    machine = this_machine(work.spec.hardware, trial=trial)
    uses_gpu = USABLE in checks if work.stages else bool(machine.gpus or machine.problems)
    given = {name: text for name in work.spec.publishing_secrets if (text := os.environ.get(name, ""))}
    secret = next(iter(given.values()), "")
    command = backend.secret_command(secret)
    programs = [
        *(tool.name for tool in backend.tools),
        *(emulator.program for emulator in work.spec.hardware.emulators),
    ]
    fence = FENCE in os.environ
    return Evidence(
        machine=machine,
        clock=clock(),
        attempts=tuple(work.machines.attempts(deep=work.deep)) if uses_gpu else (),
        runner=runner_version(),
        tools=frozenset(filter(located, programs)),
        secret=secret,
        lacks=tuple(name for name in work.spec.required_secrets if name not in given),
        answer=answer(*command) if command else None,
        cache=_ping("--store", work.spec.cache.url) if work.spec.cache and "cache" in checks else None,
        store=store,
        disk=disk() if work.deep else "",
        short_paths=short_paths(),
        fence=fence,
        reached=tuple(reachable()) if fence else (),
    )


def _own_store() -> Answer | None:
    """The answer of this machine's own store. A daemon that was started with this container needs a moment."""
    end = time.monotonic() + DAEMON_SECONDS
    while (found := _ping()) is not None and found.status and os.environ.get("NIX_REMOTE") == "daemon":
        if time.monotonic() > end:
            break
        time.sleep(0.2)
    return found


def _ping(*store: str) -> Answer | None:
    """The answer of a store, by default this machine's own, to its Nix."""
    return answer("nix", "--extra-experimental-features", "nix-command", "store", "ping", *store, seconds=60)


# The disk.


def disk(folder: Path | None = None) -> str:
    """Writes a file to `folder` (None: that of temporary files) and reads it back; why that failed, or ''."""
    written = os.urandom(TRIED)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(written)
            os.fsync(file.fileno())
            if sys.platform == "linux":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            return "" if file.read() == written else "a file that was just written has another content"
    except OSError as error:
        return f"a file cannot be written and read back: {error.strerror}"


def short_paths() -> bool:
    """Whether a folder with a path of 300 characters and more is refused, as by Windows where nobody allowed them."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            Path(folder, *["long" * 25] * 3).mkdir(parents=True)
        except FileNotFoundError:  # both codes of Windows for such a path
            return True
    return False


# The clock.


def clock() -> ClockReading:
    """The current time, the newest of some files that this machine writes, and systemd's state of the clock."""
    here = Path.cwd()
    files = (here, here / ".git", Path("/"), Path("/var/log"), Path("/nix/var/nix/db"), Path(ci_compiler.__file__))
    newest, name = max((_changed(path), str(path)) for path in files)
    shown = answer("timedatectl", "show", "--property=NTPSynchronized", "--value", seconds=10) or MISSING
    synchronised = {"yes": True, "no": False}.get(shown.printed.strip())
    return ClockReading(now=int(time.time()), newest=newest, newest_file=name, synchronised=synchronised)


def _changed(path: Path) -> int:
    try:
        return int(path.stat().st_mtime)
    except OSError:
        return 0


# GitHub's runner.


def runner_version() -> str:
    """The version of the runner that started this process, or of a runner in one of the usual folders; '' for none.

    GitHub's runner image sets RUNNER_VERSION; the runner itself sets no such variable.
    """
    if given := os.environ.get("RUNNER_VERSION", ""):
        return given if release(given) else ""
    for folder in _runner_folders():
        if (folder / _LISTENER).is_file():
            return ".".join(map(str, release(printed(str(folder / _LISTENER), "--version"))))
    return ""


def _runner_folders() -> Iterator[Path]:
    """Where a runner may be: the folders of this process's ancestors, the usual folders, the current folder."""
    yield from (program.parent.parent for program in _ancestors() if program.name.startswith("Runner."))
    yield from (Path(os.environ.get("HOME", "/"), "actions-runner"), Path("/home/runner"), Path.cwd())


def _ancestors() -> Iterator[Path]:
    """The programs of the ancestors of this process, nearest first."""
    process = os.getppid()
    while process > 1:
        with suppress(OSError):  # a process of another user; its ancestors may still be readable
            yield Path(f"/proc/{process}/exe").readlink()
        parent = re.search(r"^PPid:\s*([0-9]{1,10})$", text_of(f"/proc/{process}/status"), re.MULTILINE)
        process = int(parent[1]) if parent else 0
