"""Runs a command without the network and without the workspace's tokens, in namespaces of its own.

    python -I offline.py [--hide PATH]... -- COMMAND...

The command keeps its user, sees only a loopback interface, has no capabilities and finds nothing at the hidden paths.
It cannot read the memory or the environment of processes outside, since they belong to another user namespace
(user_namespaces(7), ptrace(2)). The status is 125 if the kernel or the container forbids such namespaces; the command
does not run then.

The module uses only the standard library, since it runs in an isolated interpreter.
"""

import ctypes
import errno
import os
import socket
import struct
import sys
from pathlib import Path

REFUSED = 125
"""The status if the namespaces cannot be made."""

UNSTARTED = 126
"""The status if the command cannot be started, as in shells."""

NEW_USER, NEW_NETWORK, NEW_MOUNTS = 0x10000000, 0x40000000, 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DROP_BOUND, _NO_NEW_PRIVILEGES = 24, 38
_LAST_CAPABILITY = 63
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
"""Numbers of Linux's interface: sched.h, mount.h, prctl.h, sockios.h, if.h."""


def main(arguments: list[str]) -> int:
    """Runs the command in place of this process; returns only if that fails."""
    at = arguments.index("--")
    hidden, command = [Path(path) for path in arguments[1:at:2]], arguments[at + 1 :]
    try:
        _enter(hidden)
    except OSError as error:
        print(f"offline: {error.strerror}", file=sys.stderr)
        return REFUSED
    try:
        os.execvp(command[0], command)  # noqa: S606  (the command takes this process' place)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    return UNSTARTED


def _enter(hidden: list[Path]) -> None:
    """Enters the namespaces and gives up every capability. Raises OSError."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"{sys.platform} has no namespaces")
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(NEW_USER | NEW_NETWORK | NEW_MOUNTS))
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    _start_loopback()
    _check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None))
    for path in hidden:
        where = os.fsencode(path)
        if path.is_dir():
            _check(libc.mount(b"tmpfs", where, b"tmpfs", ctypes.c_ulong(0), b"mode=755,size=4k"))
        elif path.exists():
            _check(libc.mount(b"/dev/null", where, None, ctypes.c_ulong(_BIND), None))
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_DROP_BOUND, capability, 0, 0, 0)  # fails for numbers that the kernel does not have
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _start_loopback() -> None:
    """Sets the loopback interface up, which is down in a new network namespace."""
    if sys.platform != "linux":
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack_from("16sH", fcntl.ioctl(control, _GET_FLAGS, asked))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
