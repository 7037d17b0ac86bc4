"""The Nix daemon of a slot: a container that owns the slot's store, beside the container of the job.

The daemon's container mounts the volume of the store read-write and runs as root of its container, with the few
capabilities that nix-daemon needs to build as other users. The job's container has no capabilities and mounts the same
volume read-only; the daemon's socket is on the volume and works all the same. So no job can change what a later job of
the slot executes. Each job gets a daemon of its own, which ends with the job, and with it everything that it builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ci_compiler.runner.controller.runner_names import PREFIX, marks

if TYPE_CHECKING:
    from ci_compiler.runner.controller.engine import RunnerOrder

STORE = "/nix"
"""The folder of a container that is a volume and outlives it: the Nix store."""

DAEMON = "/usr/local/lib/ci-runner/daemon"
"""The program of the images that serves the store (`runner-images/builder/daemon`)."""

TRUSTED_KEYS = "CI_RUNNER_TRUSTED_KEYS"
"""The variable from which the daemon reads the public keys whose paths jobs may fetch, separated by spaces."""

SERVES = "serves"
"""The label of a daemon with the name of its runner."""

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What nix-daemon needs to build as the users of its group and to own the results (tried with Nix 2.8)."""

PROCESSES, FILES = 16384, 16384
"""The most processes and threads of a container, and the most open files of a process in it."""

SANDBOX = {
    "podman": ("seccomp=unconfined", "apparmor=unconfined", "unmask=ALL"),
    "docker": ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"),
}
"""The security options with which Nix can make its sandbox in a container: namespaces, mounts, a /proc without masks.

The default AppArmor profiles of docker and containerd deny `mount`.
"""


def daemon_name(runner: str) -> str:
    """The name of the container that serves the store to `runner`."""
    return f"{runner}-nix"


def daemon_arguments(order: RunnerOrder, kind: str, volume: str, *how: str) -> list[str]:
    """The engine's arguments that start the daemon of `order`."""
    return [
        *started(daemon_name(order.name), {SERVES: order.name, **order.identity}, "--detach", *how),
        *options("--env", {TRUSTED_KEYS: " ".join(order.trusted_keys)}),
        *as_root(*CAPABILITIES),
        *(word for option in SANDBOX[kind] if order.builds for word in ("--security-opt", option)),
        *bounds(order.memory, order.cores),
        *("--volume", f"{volume}:{STORE}", "--entrypoint", DAEMON, order.image),
    ]


def collector_arguments(order: RunnerOrder, volume: str) -> list[str]:
    """The engine's arguments that collect the garbage of a slot's store, while no job and no daemon uses it."""
    identity = {"pool": order.pool, "slot": order.slot}
    return [
        *started(collector_name(order), identity, "--rm", "--network", "none"),
        *bounds(order.memory, order.cores),
        *as_root(*CAPABILITIES),
        *("--volume", f"{volume}:{STORE}", "--entrypoint", DAEMON, order.image, "--collect-garbage"),
    ]


def collector_name(order: RunnerOrder) -> str:
    """The name of the container that collects garbage in the slot of `order`."""
    return f"{PREFIX}-garbage-{order.pool}-{order.slot}"


def started(name: str, identity: Mapping[str, object], *how: str) -> list[str]:
    """The arguments that start the container `name`, with the labels of its `identity`."""
    return ["run", *how, "--pull", "never", "--name", name, *options("--label", marks(identity))]


def options(option: str, values: Mapping[str, str]) -> list[str]:
    """`option` with NAME=VALUE for each of `values`."""
    return [word for name, value in values.items() for word in (option, f"{name}={value}")]


def bounds(memory: int, cores: int) -> list[str]:
    """The options for `memory` and `cores` of a container, and for what is always bounded."""
    return ["--pids-limit", str(PROCESSES), "--ulimit", f"nofile={FILES}:{FILES}", *bounds_of_pod(memory, cores)]


def bounds_of_pod(memory: int, cores: int) -> list[str]:
    """The options for `memory` in bytes, without swap, and `cores` that a pod takes as well; 0 means no bound."""
    words = ["--memory", str(memory), "--memory-swap", str(memory)] if memory else []
    return [*words, "--cpus", str(cores)] if cores else words


def as_root(*capabilities: str) -> Sequence[str]:
    """Root of the container, with nothing but `capabilities`."""
    added = (word for name in capabilities for word in ("--cap-add", name))
    return ("--user", "0:0", "--cap-drop", "all", *added, "--security-opt", "no-new-privileges")
