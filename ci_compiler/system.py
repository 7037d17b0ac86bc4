"""What differs between Linux, macOS and Windows: a row of facts for each, and the calls that only some of them have.

What a system cannot do is absent from its row, never imitated. `mypy --platform` checks that no other module uses what
one of the systems lacks.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

if sys.platform == "win32":
    import _winapi
    import msvcrt
else:
    import fcntl
    import resource
    import select


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingSystem:
    """An operating system.

    `beside` has the programs that are not taken from PATH: each is at a path below a folder that another program is in.
    `programs` is the folder of programs in a virtual environment, `suffix` the end of their names, and `magic` the
    first bytes of machine code. `pythons` are the commands that may start a Python of a version, the best first.
    `starts_scripts`: a script starts by its first line. `stop` is the signal with which GitHub's runner cancels a step,
    and `group` the options of `Popen` for a program that leads a group. `homes`, `temporaries` and `kept` are the
    variables that name a user's folder, the one for temporary files, and those without which programs do not start;
    `locale` is one with UTF-8.

    `processor` and `memory` are commands that print the model and the bytes; (): files say it. `crashes` are the
    statuses of programs that a fault ended, with the signal that other systems send then.
    """

    beside: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    programs: str = "bin"
    suffix: str = ""
    magic: tuple[bytes, ...] = (b"\x7fELF",)
    pythons: tuple[tuple[str, ...], ...] = (("python{}",),)
    starts_scripts: bool = True
    stop: str = "SIGTERM"
    group: Mapping[str, Any] = field(default_factory=lambda: {"start_new_session": True})
    homes: tuple[str, ...] = ("HOME",)
    temporaries: tuple[str, ...] = ("TMPDIR",)
    kept: tuple[str, ...] = ()
    locale: str = "C.UTF-8"
    processor: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    crashes: Mapping[int, str] = field(default_factory=dict)


LINUX = OperatingSystem()

_POWERSHELL = ("powershell", "-NoProfile", "-NonInteractive", "-Command")

SYSTEMS: Mapping[str, OperatingSystem] = {
    "linux": LINUX,
    "darwin": OperatingSystem(  # Assumes `macos-machine`.
        magic=(b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),  # Mach-O of 64 bits, and for several architectures
        locale="en_US.UTF-8",
        processor=("sysctl", "-n", "machdep.cpu.brand_string"),
        memory=("sysctl", "-n", "hw.memsize"),
    ),
    "win32": OperatingSystem(  # Assumes `windows-machine`.
        beside={"bash": ("git", "bin/bash.exe")},  # the one on PATH may be that of WSL
        programs="Scripts",
        suffix=".exe",
        magic=(b"MZ",),
        pythons=(("python{}",), ("py", "-{}"), ("python",)),
        starts_scripts=False,
        stop="SIGBREAK",
        group={"creationflags": 0x200},  # CREATE_NEW_PROCESS_GROUP
        homes=("HOME", "USERPROFILE"),
        temporaries=("TMPDIR", "TEMP", "TMP"),
        kept=("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        processor=(*_POWERSHELL, "@(Get-CimInstance Win32_Processor)[0].Name"),
        memory=(*_POWERSHELL, "(Get-CimInstance Win32_ComputerSystem).TotalPhysicalMemory"),
        crashes={  # ntstatus.h
            0xC0000005: "SIGSEGV",  # access violation
            0xC00000FD: "SIGSEGV",  # stack overflow
            0xC000001D: "SIGILL",  # illegal instruction
            0xC0000094: "SIGFPE",  # integer division by zero
            0xC0000409: "SIGABRT",  # stack buffer overrun, also the end by abort()
        },
    ),
}
"""The facts by `sys.platform`."""

SYSTEM = SYSTEMS.get(sys.platform, LINUX)
"""The system that this process runs on."""

DEVICE = r"(?i:con|prn|aux|nul|com[1-9]|lpt[1-9])(?=[./]|$)"
"""The pattern of a name that Windows keeps for a device, with any suffix, in a path with slashes."""

READ = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    READ |= getattr(os, _name, 0)
"""The flags with which a file is opened that may be anything: a pipe does not block, and no byte is changed."""

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag that refuses a symbolic link; 0 where there is none."""


if sys.platform == "win32":

    def lock(descriptor: int, *, shared: bool = False) -> None:  # noqa: ARG001  (Windows has no shared locks of files)
        """Waits for a lock on an open file, which closing releases. `shared`: others may read, not write. OSError."""
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:  # after ten seconds
                if error.errno != errno.EDEADLOCK:
                    raise

    def readable(stream: IO[bytes], seconds: float) -> bool:
        """Waits for something to read from a pipe, or its end, for at most `seconds`; whether there is something."""
        pipe, end = msvcrt.get_osfhandle(stream.fileno()), time.monotonic() + seconds
        try:
            while not _winapi.PeekNamedPipe(pipe, 0)[0]:
                if time.monotonic() >= end:
                    return False
                time.sleep(0.01)
        except BrokenPipeError:  # its end
            pass
        return True

    def runs(pid: int) -> bool:
        """Whether there is a process with this number."""
        try:
            _winapi.CloseHandle(_winapi.OpenProcess(0x1000, False, pid))  # noqa: FBT003  (limited information)
        except OSError as error:
            return isinstance(error, PermissionError)
        return True

    def press_break(pid: int) -> bool:
        """Sends Ctrl-Break to the group of a process; False if it has no console.

        There, os.kill ends the process, but not its children, and raises SystemError.
        """
        import ctypes  # few commands end a group

        return bool(ctypes.windll.kernel32.GenerateConsoleCtrlEvent(1, pid))

    def limit_memory(pid: int, size: int) -> None:
        """Limits the address space of a process to `size` bytes, where the system can do that. Raises OSError."""

else:

    def lock(descriptor: int, *, shared: bool = False) -> None:
        """Waits for a lock on an open file, which closing releases. `shared`: others may read, not write. OSError."""
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def readable(stream: IO[bytes], seconds: float) -> bool:
        """Waits for something to read from a pipe, or its end, for at most `seconds`; whether there is something."""
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def runs(pid: int) -> bool:
        """Whether there is a process with this number."""
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:  # of another user
            return True
        return True

    def limit_memory(pid: int, size: int) -> None:
        """Limits the address space of a process to `size` bytes, where the system can do that. Raises OSError."""
        if sys.platform == "linux":
            resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
