"""The memory of a slot, which its job and the daemon of its store share.

podman puts their containers into a pod, whose control group has the bound. docker has no pods, and only root could make
a control group for it, so there each gets a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_compiler.runner.controller.runner_names import marks
from ci_compiler.runner.controller.store_daemon import SERVES, bounds_of_pod, options
from ci_compiler.units import GB

if TYPE_CHECKING:
    from ci_compiler.runner.controller.engine import RunnerOrder

SMALL_PART = 8 * GB
"""The most memory, in bytes, of a daemon that does not build, and of a job beside one that does."""

SHARED_MEMORY = "8g"
"""The size of /dev/shm in a container: the data loaders of torch pass batches through it. In a pod, its size counts."""


def pod_name(runner: str) -> str:
    """The name of the pod of `runner`."""
    return f"{runner}-slot"


def pod_member(runner: str) -> str:
    """The name of the container without which podman makes no pod with bounds. Nothing starts it."""
    return f"{runner}-pod"


def pod_arguments(order: RunnerOrder) -> list[str]:
    """The arguments of podman (4.3 or later) that create the pod of `order`."""
    labels = marks({SERVES: order.name, **order.identity})
    return [
        *("pod", "create", "--name", pod_name(order.name), "--infra-name", pod_member(order.name)),
        *("--infra-image", order.image, "--infra-command", "sleep infinity", "--share", "net"),
        *("--shm-size", SHARED_MEMORY),
        *options("--label", labels),
        *bounds_of_pod(order.memory, order.cores),
    ]


def in_pod(order: RunnerOrder) -> Sequence[str]:
    """The options of a container in the pod of `order`. It must name a network: none has that of the pod."""
    return ("--pod", pod_name(order.name))


def parts(order: RunnerOrder) -> tuple[int, int]:
    """The memory of the job of `order` and of its daemon without a pod. The one that works gets most of it."""
    small = min(SMALL_PART, order.memory // 4) if order.store else 0
    large = order.memory - small
    return (small, large) if order.store and order.builds else (large, small)
