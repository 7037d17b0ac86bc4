"""The networks of a job and of the daemon of its store, closed before the job runs.

A container holds the network that the job joins; the daemon has its own, since the job must not share one with builds.
None of them has a capability that could open it again: another container has CAP_NET_ADMIN for as long as it closes the
network. So it works with every engine, rootless or not, and changes nothing on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_compiler.runner.controller.store_daemon import SERVES, as_root, bounds, daemon_name, started

if TYPE_CHECKING:
    from ci_compiler.runner.controller.engine import RunnerOrder

CLOSER = ("-I", "-m", "ci_compiler.runner.fence")
"""The arguments of the image's Python that close the network."""

_MEMORY = 64 * 10**6


def network_name(runner: str) -> str:
    """The name of the container that holds the network of `runner`."""
    return f"{runner}-net"


def network_containers(runner: str) -> tuple[str, ...]:
    """The names of the containers of its networks, in the order in which they are removed."""
    closed = (network_name(runner), daemon_name(runner))
    return (*map(_closer_name, closed), network_name(runner))


def _closer_name(container: str) -> str:
    return f"{container}-closer"


def joined(order: RunnerOrder) -> Sequence[str]:
    """The options of a container in the network of the job of `order`."""
    return _in_network_of(network_name(order.name))


def holder_arguments(order: RunnerOrder, *together: str) -> list[str]:
    """The engine's arguments that start the holder, which ends at once when it is removed."""
    identity = {SERVES: order.name, **order.identity}
    how = ("--detach", *together, "--hostname", order.name, "--stop-signal", "KILL")
    return [
        *started(network_name(order.name), identity, *how),
        *("--user", "65534:65534", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *bounds(_MEMORY, 0),
        *("--entrypoint", "sleep", order.image, "infinity"),
    ]


def closer_arguments(order: RunnerOrder, container: str, python: str, *together: str) -> list[str]:
    """The engine's arguments that close the network of `container` with the image's `python`, or fail."""
    identity = {SERVES: order.name, **order.identity}
    return [
        *started(_closer_name(container), identity, "--rm", *together, *_in_network_of(container)),
        *as_root("NET_ADMIN"),
        *bounds(_MEMORY, 0),
        *("--entrypoint", python, order.image, *CLOSER),
    ]


def _in_network_of(container: str) -> Sequence[str]:
    return ("--network", f"container:{container}")
