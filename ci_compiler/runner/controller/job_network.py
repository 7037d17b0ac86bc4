"""The network of a job: a container that holds it, and routes that close it before anything else runs in it.

The job and the daemon of its store join the network of the holder, and have no capability that could open it again.
The holder has none either: a second container has CAP_NET_ADMIN for as long as it closes the network. So it works with
every engine, rootless or not, and changes nothing on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_compiler.runner.controller.store_daemon import SERVES, as_root, bounds, started

if TYPE_CHECKING:
    from ci_compiler.runner.controller.engine import RunnerOrder

CLOSER = ("-I", "-m", "ci_compiler.runner.fence")
"""The arguments of the image's Python that close the network."""

_UNPRIVILEGED = ("--cap-drop", "all", "--security-opt", "no-new-privileges")
_ONE_FAMILY = ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1")
_NOBODY = ("--user", "65534:65534")
_MEMORY = 64 * 10**6


def network_name(runner: str) -> str:
    """The name of the container that holds the network of `runner`."""
    return f"{runner}-net"


def network_containers(runner: str) -> tuple[str, str]:
    """The names of the containers of its network, in the order in which they are removed."""
    return f"{network_name(runner)}-closer", network_name(runner)


def closed_of(order: RunnerOrder) -> str:
    """What is closed to the jobs of `order`, as the value of `FENCE`."""
    return "private" if order.untrusted else "metadata"


def joined(order: RunnerOrder) -> Sequence[str]:
    """The options of a container in the network of `order`."""
    return ("--network", f"container:{network_name(order.name)}")


def holder_arguments(order: RunnerOrder) -> list[str]:
    """The engine's arguments that start the holder, which ends at once when it is removed."""
    identity = {SERVES: order.name, **order.identity}
    how = ("--detach", "--hostname", order.name, "--stop-signal", "KILL")
    return [
        *started(network_name(order.name), identity, *how),
        *(_ONE_FAMILY if order.untrusted else ()),
        *_UNPRIVILEGED,
        *_NOBODY,
        *bounds(_MEMORY, 0),
        *("--entrypoint", "sleep", order.image, "infinity"),
    ]


def closer_arguments(order: RunnerOrder, python: str) -> list[str]:
    """The engine's arguments that close the network with the image's `python`, and fail if it stays open."""
    identity = {SERVES: order.name, **order.identity}
    return [
        *started(network_containers(order.name)[0], identity, "--rm", *joined(order)),
        *as_root("NET_ADMIN"),
        *bounds(_MEMORY, 0),
        *("--entrypoint", python, order.image, *CLOSER, closed_of(order)),
    ]
