"""Closes a container's network to addresses that no job may reach, by routes that only CAP_NET_ADMIN can remove.

Runs in a container of its own (`python -I`) that shares the network of a job's, and has that capability for a moment.
The services of clouds give a machine's credentials to any process on it. Sources: the clouds' documentation;
rtnetlink(7) for the messages.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from contextlib import suppress

FENCE, CLOSED = "CI_RUNNER_FENCE", "metadata"
"""The variable of a job's container whose network is closed, and its value."""

METADATA = (
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200"),
    *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
)
"""AWS, Azure, Google and others; AWS's credentials of containers and pods; Alibaba; IPv6 of AWS, Google and Oracle."""

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""The errors that say that there is no route, or no IPv6."""

_NEW, _FLAGS = 24, 0x505  # REQUEST, ACK, REPLACE or CREATE
_MAIN, _STATIC, _UNREACHABLE, _DESTINATION = 254, 4, 7, 1


def reachable() -> list[str]:
    """Those of `METADATA` to which there is a route. Sends nothing."""
    return [one for one in METADATA if _routed(one)]


def _routed(address: str) -> bool:
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
    except OSError as error:
        return error.errno not in _NO_ROUTE
    return True


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def close() -> list[str]:
    """Closes `METADATA`. Returns what stays reachable. Raises OSError."""
    for one in METADATA:
        with suppress(*((OSError,) if ":" in one else ())):  # IPv6 may be off; what stays reachable is returned
            _close(one)
    return reachable()


def _close(address: str) -> None:
    """Adds an unreachable route to the main table. Raises OSError."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), address)
    family = _family(address)
    packed = socket.inet_pton(family, address)
    body = struct.pack("=BBBBBBBBI", family, 8 * len(packed), 0, 0, _MAIN, _STATIC, 0, _UNREACHABLE, 0)
    body += struct.pack("=HH", 4 + len(packed), _DESTINATION) + packed
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), _NEW, _FLAGS, 1, 0) + body)
        [status] = struct.unpack_from("=i", kernel.recv(4096), 16)
    if status:
        raise OSError(-status, os.strerror(-status), address)


def main() -> int:
    """The exit status: 0 if all is closed."""
    try:
        left = close()
    except OSError as error:
        left = [str(error)]
    if left:
        print(f"fence: still reachable: {', '.join(left)}", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
