"""Runs `ci-compile` and `ci-runner` as on macOS or Windows: what these systems lack is taken away from Python.

    python -m tests.elsewhere FILE ci-runner detect

`describe` writes the FILE: the system, what it lacks, and the program that starts Python there.

What a system lacks is derived from typeshed's conditions on `sys.platform`, which mypy has with it. What Windows does
in another way is done here in that way: text files get CR LF, open files cannot be removed, links need rights, only
`.exe` files start, no process has a group, crashes have statuses of NTSTATUS.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import errno
import importlib
import importlib.abc
import io
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

FIRST = """
    argparse asyncio concurrent.futures ctypes difflib faulthandler fcntl getpass hashlib http.client http.server
    importlib.metadata importlib.resources inspect ipaddress json locale logging mmap multiprocessing platform pty queue
    random resource runpy select selectors shlex shutil signal site socket socketserver ssl stat subprocess sysconfig
    tarfile tempfile termios threading tomllib typing urllib.request uuid venv xml.etree.ElementTree zipfile zlib
    cyclonedx.model.bom cyclonedx.output.json github jsonschema rich.console rich.progress ruamel.yaml yaml
"""
"""What is imported before anything is taken away: it chooses by the system when it is imported."""

STATUSES = {
    signal.SIGSEGV: 0xC0000005,
    signal.SIGILL: 0xC000001D,
    signal.SIGABRT: 0xC0000409,
    signal.SIGFPE: 0xC0000094,
}
"""The statuses of crashes on Windows (ntstatus.h)."""


# What a system lacks.


def lacking(platform: str) -> dict[str, list[str]]:
    """The names of modules of the standard library that Linux has and `platform` lacks; [] for a whole module."""
    import mypy

    stubs = Path(mypy.__file__).with_name("typeshed") / "stdlib"
    lacks = {}
    for path in sorted([*stubs.glob("*.pyi"), *stubs.glob("*/__init__.pyi")]):
        module = path.stem if path.parent == stubs else path.parent.name
        tree = ast.parse(path.read_text("utf-8"))
        here, there = (set(_names(tree.body, one)) for one in ("linux", platform))
        if missing := sorted(here - there):
            lacks[module] = missing if there & _own(tree.body, platform) else []
    return lacks


def _own(body: Sequence[ast.stmt], platform: str) -> set[str]:
    """The names that a stub defines itself, without what it imports for annotations."""
    return {name for name in _names(body, platform, imports=False) if not name.startswith("_") or name == "__all__"}


def _names(body: Sequence[ast.stmt], platform: str, *, imports: bool = True) -> Iterator[str]:
    """The names that a stub defines on `platform`."""
    for node in body:
        if isinstance(node, ast.If):
            branch = node.body if _holds(node.test, platform) else node.orelse
            yield from _names(branch, platform, imports=imports)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom) and imports:
            yield from (name.asname for name in node.names if name.asname)


def _holds(test: ast.expr, platform: str) -> bool:
    source = ast.unparse(test)
    names = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info), "TYPE_CHECKING": True}
    return bool(eval(source, {"__builtins__": {}}, names))  # noqa: S307  (a condition in typeshed)


# Taking it away.


class _Blocked(importlib.abc.MetaPathFinder):
    """Finds none of the modules that a system lacks."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(self, name: str, *_: object) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def take(platform: str, lacks: Mapping[str, Sequence[str]]) -> None:
    """Makes this process one of `platform`."""
    for name in FIRST.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    real = _Real()
    for module, names in lacks.items():
        if not names:
            sys.modules.pop(module, None)
        for name in names:
            if module in sys.modules and module != "sys":
                vars(sys.modules[module]).pop(name, None)
    sys.meta_path.insert(0, _Blocked([module for module, names in lacks.items() if not names]))
    _hide_files_of_linux()
    if platform == "win32":
        _be_windows(real)
    else:
        _be_macos()
    sys.platform = platform
    warnings.filterwarnings("error", category=EncodingWarning, module=r"ci_compiler\.")


class _Real:
    """What the stand-ins need of Linux."""

    def __init__(self) -> None:
        import fcntl
        import select
        import shutil
        import subprocess
        import tempfile
        import termios

        self.fcntl, self.poll, self.select, self.fionread = fcntl, select.poll, select.select, termios.FIONREAD
        self.select_module, self.shutil, self.subprocess, self.tempfile = select, shutil, subprocess, tempfile
        self.killpg, self.kill, self.open, self.readlink = os.killpg, os.kill, io.open, os.readlink
        self.listdir, self.statvfs = os.listdir, os.statvfs
        vars(tempfile)["_os"] = vars(subprocess)["os"] = SimpleNamespace(**vars(os))  # they are those of Linux
        self.sigkill, self.hup, self.readable = signal.SIGKILL, select.POLLHUP, select.POLLIN

    def disk_usage(self, path: Any) -> Any:
        """The sizes of a file system in bytes, as `nt` has them on Windows."""
        found = self.statvfs(path)
        free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        return SimpleNamespace(total=total, used=total - free, free=free)


def _hide_files_of_linux() -> None:
    """Makes /proc and /sys files that do not exist."""

    def hiding(call: Any) -> Any:
        def checked(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and str(path).startswith(("/proc", "/sys/")):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return call(path, *arguments, **options)

        return checked

    io.open = hiding(io.open)
    for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink"):
        setattr(os, name, hiding(getattr(os, name)))
    builtins.open = io.open


def _be_macos() -> None:
    import ctypes
    import platform

    def renamex_np(one: bytes, other: bytes, flags: int) -> int:
        assert flags == 2
        between = one + b".between"
        for old, new in ((one, between), (other, one), (between, other)):
            os.rename(old, new)  # noqa: PTH104  (the names are bytes)
        return 0

    ctypes.CDLL = lambda *_, **__: SimpleNamespace(renamex_np=renamex_np)
    uname = os.uname_result(("Darwin", "mac", "24.6.0", "Darwin Kernel", "arm64"))
    os.uname = lambda: uname
    vars(platform)["_uname_cache"] = None


def _be_windows(real: _Real) -> None:
    import platform

    _provide_calls(real)
    _provide_processes(real)
    _provide_files(real)
    vars(platform)["_uname_cache"] = platform.uname_result("Windows", "pc", "10", "10.0.26100", "AMD64")


def _provide_calls(real: _Real) -> None:  # noqa: C901  (each call is one function)
    """The modules `msvcrt` and `_winapi` as far as they are used, and `select` for sockets only."""

    def peek(pipe: int, size: int) -> tuple[int, int]:
        assert size == 0
        count = int.from_bytes(real.fcntl.ioctl(pipe, real.fionread, bytes(4)), sys.byteorder)
        poll = real.poll()
        poll.register(pipe, real.readable)
        if not count and any(event & real.hup for _, event in poll.poll(0)):
            raise BrokenPipeError(errno.EPIPE, "The pipe has been ended")
        return count, 0

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (1, 1)
        try:
            real.fcntl.flock(descriptor, real.fcntl.LOCK_EX | real.fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
            raise OSError(errno.EDEADLOCK, "Resource deadlock avoided") from None

    def open_process(rights: int, inherit: bool, pid: int) -> int:
        assert (rights, inherit) == (0x1000, False)
        try:
            real.kill(pid, 0)
        except PermissionError:
            raise PermissionError(errno.EACCES, "Access is denied") from None
        except (OSError, OverflowError):
            raise OSError(errno.EINVAL, "The parameter is incorrect") from None
        return pid

    def of_sockets(*waited: Any) -> Any:
        if any(not hasattr(one, "getsockname") for some in waited[:3] for one in some):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
        return real.select(*waited)

    for name, calls in {
        "msvcrt": {"locking": locking, "LK_LOCK": 1, "get_osfhandle": int},
        "_winapi": {"PeekNamedPipe": peek, "OpenProcess": open_process, "CloseHandle": int},
    }.items():
        module = ModuleType(name)
        vars(module).update(calls)
        sys.modules[name] = module
    real.select_module.select = of_sockets
    real.shutil.disk_usage = real.disk_usage


def _provide_processes(real: _Real) -> None:  # noqa: C901  (each call is one function)
    """Processes without groups and signals: they start from `.exe` files, and end at once.

    With the variable NO_CONSOLE, they have no console, as those of a service may.
    """
    import ctypes

    signal.SIGBREAK = signal.SIGTERM
    signal.CTRL_C_EVENT, signal.CTRL_BREAK_EVENT = 0, 1

    def event(number: int, pid: int) -> int:
        if number == 0:
            raise AssertionError("Ctrl-C to a group, which ends this process as well")
        if "NO_CONSOLE" in os.environ:
            return 0
        real.killpg(pid, signal.SIGTERM)
        return 1

    def kill(pid: int, number: int) -> None:  # posixmodule.c, os_kill_impl of CPython 3.11
        if number not in {0, 1} or not event(number, pid):
            real.kill(pid, real.sigkill)
            if number in {0, 1}:
                raise SystemError("<built-in function kill> returned a result with an exception set")

    ctypes.windll = SimpleNamespace(kernel32=SimpleNamespace(GenerateConsoleCtrlEvent=event))

    class Popen(real.subprocess.Popen):
        """A process as on Windows."""

        def __init__(self, args: Any, *, creationflags: int = 0, **options: Any) -> None:
            assert not {"preexec_fn", "start_new_session", "process_group", "user", "group"} & options.keys()
            program, *more = map(str, args)
            if not Path(program).suffix:  # CreateProcess adds the suffix, and looks on PATH
                program = real.shutil.which(program) or program
            if not program.casefold().endswith(".exe") and Path(program).is_file():
                raise OSError(errno.ENOEXEC, "%1 is not a valid Win32 application", program)
            super().__init__([program, *more], start_new_session=bool(creationflags & 0x200), **options)

        def send_signal(self, sig: int) -> None:
            if self.poll() is None:
                kill(self.pid, sig or 2)

        def kill(self) -> None:
            self.send_signal(2)

        terminate = kill

        def _handle_exitstatus(self, status: int, *more: Any) -> None:
            super()._handle_exitstatus(status, *more)
            if self.returncode < 0:
                self.returncode = STATUSES.get(signal.Signals(-self.returncode), 1) if -self.returncode != 9 else 1

    os.kill = kill
    real.subprocess.Popen = Popen
    real.subprocess.CREATE_NEW_PROCESS_GROUP = 0x200


def _provide_files(real: _Real) -> None:  # noqa: C901  (each call is one function)
    """Files that cannot be removed while they are open, text with CR LF, no links, no descriptors of folders.

    With the variable SHORT_PATHS, folders have the longest paths that Windows allows by default.
    """
    shown, descriptor, make = io.open, os.open, os.mkdir

    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "b" not in mode and set(mode) & set("wax") and len(arguments) < 4 and options.get("newline") is None:
            options["newline"] = "\r\n"
        return shown(file, mode, *arguments, **options)

    def no_folder(path: Any, *arguments: Any, **options: Any) -> int:
        if os.path.isdir(path):  # noqa: PTH112
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return descriptor(path, *arguments, **options)

    def unopened(call: Any) -> Any:
        def checked(*arguments: Any, **options: Any) -> Any:
            held = set()
            for number in real.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):
                    held.add(real.readlink(f"/proc/self/fd/{number}"))
            for path in arguments[:2]:
                if os.path.realpath(path) in held:
                    message = "The process cannot access the file because it is being used by another process"
                    raise PermissionError(errno.EACCES, message, path)
            return call(*arguments, **options)

        return checked

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "A required privilege is not held by the client")

    def short(path: Any, *arguments: Any, **options: Any) -> None:
        if "SHORT_PATHS" in os.environ and len(os.fspath(path)) > 247:
            raise FileNotFoundError(errno.ENOENT, "The filename or extension is too long", path)
        make(path, *arguments, **options)

    vars(real.shutil).update(_use_fd_functions=False, _USE_CP_SENDFILE=False)
    io.open = builtins.open = opened
    os.open, os.mkdir = no_folder, short
    os.symlink = refused
    for name in ("unlink", "remove", "replace", "rename"):
        setattr(os, name, unopened(getattr(os, name)))


def enter(file: str) -> None:
    """Makes this process one of the system that `file` describes."""
    facts = json.loads(Path(file).read_text("utf-8"))
    sys.executable = facts["executable"]
    take(facts["platform"], facts["lacks"])


def describe(file: Path, platform: str, executable: Path, lacks: Mapping[str, Sequence[str]]) -> None:
    """Writes the file for `enter`. `executable` starts Python."""
    file.write_text(json.dumps({"platform": platform, "executable": str(executable), "lacks": lacks}), "utf-8")


def main(file: str, program: str, *words: str) -> int:
    """Runs a command, or with `python` a script, as on the system that `file` describes."""
    enter(file)
    if program == "python":
        path, *arguments = (word for word in words if word not in {"-I", "-S", "-B"})
        sys.argv = [path, *arguments]
        importlib.import_module("runpy").run_path(path, run_name="__main__")
        return 0
    sys.argv = [program, *words]
    from ci_compiler.cli.app import run

    return run(importlib.import_module(f"ci_compiler.cli.{program.removeprefix('ci-')}").PROGRAM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
