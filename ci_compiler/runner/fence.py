"""Closes a container's network to addresses that no job may reach, by routes that only CAP_NET_ADMIN can remove.

Runs in a container of its own (`python -I`) that shares the network of a job's, and has that capability for a moment.
The services of clouds give a machine's credentials to any process on it. Sources: the clouds' documentation; RFC 1918,
RFC 6598 and RFC 3927 for the private ranges; rtnetlink(7) for the messages.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FENCE = "CI_RUNNER_FENCE"
"""The variable of a job's container that names what is closed: "metadata", or "private" for the ranges as well."""

METADATA = (
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200"),
    *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
)
"""AWS, Azure, Google and others; AWS's credentials of containers and pods; Alibaba; IPv6 of AWS, Google and Oracle."""

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
"""The private ranges. IPv6 is off where they are closed."""

CLOSED = {"metadata": METADATA, "private": (*METADATA, *PRIVATE)}
"""The addresses and ranges by the value of `FENCE`."""

_CLOSED = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""The errors that say that there is no route, or no IPv6."""

_NEW, _DELETE, _FLAGS = 24, 25, 0x505  # REQUEST, ACK, REPLACE or CREATE
_MAIN, _STATIC, _UNICAST, _UNREACHABLE, _LINK = 254, 4, 1, 7, 253
_DESTINATION, _DEVICE, _GATEWAY = 1, 4, 5


def reachable(closed: Iterable[str]) -> list[str]:
    """Those of `closed` to which there is a route: an address, or the middle of a range. Sends nothing."""
    return [one for one in closed if _routed(ipaddress.ip_network(one))]


def _routed(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(network[network.num_addresses // 2]), 9))
    except OSError as error:
        return error.errno not in _CLOSED
    return True


def close(kind: str) -> list[str]:
    """Closes what `kind` names in `CLOSED`. Returns what stays reachable. Raises OSError."""
    if kind == "private":
        _keep_gateway_alone()
    for one in CLOSED[kind]:
        with suppress(*((OSError,) if ":" in one else ())):  # IPv6 may be off; what stays reachable is returned
            _route(_NEW, one, _UNREACHABLE)
    return reachable(CLOSED[kind])


def _keep_gateway_alone() -> None:
    """Of the container's own network, only the gateway stays, and the name servers through it."""
    lines = [line.split() for line in Path("/proc/net/route").read_text("ascii").splitlines()[1:]]
    rows = [(device, *(_address(word) for word in (to, via, mask))) for device, to, via, *_, mask, _, _, _ in lines]
    gateways = {(device, via) for device, to, via, _ in rows if to == "0.0.0.0" != via}  # noqa: S104  (the default)
    for device, gateway in gateways:
        _route(_NEW, gateway, _UNICAST, device=device)
        for server in _name_servers():
            if server != gateway:
                _route(_NEW, server, _UNICAST, device=device, gateway=gateway)
    for device, to, via, mask in rows:
        if via == "0.0.0.0" and to != via:  # noqa: S104  (no gateway)
            _route(_DELETE, f"{to}/{mask}", _UNICAST, device=device)


def _name_servers() -> list[str]:
    lines = (line.split() for line in Path("/etc/resolv.conf").read_text("utf-8").splitlines())
    servers = [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]
    return [server for server in servers if ":" not in server and not server.startswith("127.")]


def _address(word: str) -> str:
    return socket.inet_ntoa(struct.pack("=I", int(word, 16)))


def _route(action: int, to: str, kind: int, *, device: str = "", gateway: str = "") -> None:
    """Adds or deletes a route of the main table. Raises OSError."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), to)
    network = ipaddress.ip_network(to)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    scope = _LINK if device and not gateway else 0
    origin = _STATIC if action == _NEW else 0  # a route is deleted whoever added it
    body = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, _MAIN, origin, scope, kind, 0)
    body += _attribute(_DESTINATION, network.network_address.packed)
    body += _attribute(_DEVICE, struct.pack("=I", socket.if_nametoindex(device))) if device else b""
    body += _attribute(_GATEWAY, socket.inet_aton(gateway)) if gateway else b""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), action, _FLAGS if action == _NEW else 5, 1, 0) + body)
        [status] = struct.unpack_from("=i", kernel.recv(4096), 16)
    if status:
        raise OSError(-status, os.strerror(-status), to)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def main(kind: str) -> int:
    """The exit status: 0 if all is closed."""
    try:
        left = close(kind)
    except OSError as error:
        left = [str(error)]
    if left:
        print(f"fence: still reachable: {', '.join(left)}", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
