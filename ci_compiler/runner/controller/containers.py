"""Where runners run: the engine's interface, and podman and docker behind it.

A runner's configuration reaches the container through the environment of the engine's own process, by name: it stands
in no argument, which `ps` would show, and in no file. The engine gets no credential of GitHub's to pass on, whatever
its configuration says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ci_compiler.errors import nearest, wrong
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.runner.controller.runner_names import LABEL, PREFIX, mark, marks
from ci_compiler.secret import Secret

JIT = "ACTIONS_RUNNER_INPUT_JITCONFIG"
"""The variable that the runner takes its configuration from (actions/runner)."""

RUNNER_ENVIRONMENT = {
    "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT": "1",
    "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",
    "RUNNER_MANUALLY_TRAP_SIG": "1",
}
"""What makes a runner in a container speak and end as one that is watched (actions/runner)."""

ENGINES = ("podman", "docker")
"""Programs that run containers, in the order in which they are looked for."""

STORE = "/nix"
"""What of a container outlives it: its Nix store, in a volume."""

SANDBOX = {
    "podman": ("--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"),
    "docker": ("--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined"),
}
"""What lets Nix make its sandbox in a container without any capability: namespaces, and a /proc without masks."""

SHARED_MEMORY = "8g"
"""The most that /dev/shm of a container may hold: data loaders of torch hand batches over in it."""

_SHORT, _LONG = 120, 3600
"""Seconds after which a question to the engine, and a pull or garbage collection, counts as hung."""


class EngineError(Exception):
    """The engine failed; the text is one line."""


class InstanceStatus(StrEnum):
    """How a machine stands."""

    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOrder:
    """A runner to start: its registration, pool and place, and what its jobs need.

    `gpus`: `all`, a number, '' for none. `builds`: whether Nix builds there, in a sandbox of its own. `room`: bytes
    that a job is to find free. `cores`: its share of the machine's, 0 for all.
    """

    name: str
    registration: int
    scope: str
    pool: str
    slot: int
    image: str
    gpus: str
    builds: bool
    room: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerInstance:
    """A container (or process) of ours; `registration` 0 where it is none's, `exit_code` once it ended."""

    name: str
    status: InstanceStatus
    exit_code: int
    registration: int
    scope: str
    pool: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVolume:
    """A store that outlives its containers: of a pool's slot and an image (its id)."""

    name: str
    pool: str
    slot: int
    image: str


class RunnerEngine(Protocol):
    """What runs runners. Every method raises EngineError."""

    def prepare(self, order: RunnerOrder) -> None:
        """Gets what `order` needs ready before its runner is registered: the image, the store."""

    def room(self) -> int:
        """Free bytes where builds and stores are."""

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Frees what nothing refers to in the store of `order`, in which nothing runs now."""

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts the runner of `order`."""

    def machines(self) -> tuple[RunnerInstance, ...]:
        """Everything of ours that runs, or ended and was not removed."""

    def end(self, name: str) -> None:
        """Asks the idle runner `name` to end."""

    def remove(self, name: str) -> None:
        """Removes `name`, whatever it does; nothing where it is not there."""

    def last_words(self, name: str) -> str:
        """The last line that `name` said."""


def find_engine(name: str | None) -> ContainerEngine:
    """The container engine called `name`, or the first that is installed. Raises InputError."""
    if name is not None and name not in ENGINES:
        message = f"unknown engine {name!r}{nearest(name, ENGINES)}"
        raise wrong("--engine", "unknown-engine", message)
    wanted = (name,) if name else ENGINES
    program = next((found for one in wanted if (found := shutil.which(one))), None)
    if program is None:
        message = f"{' and '.join(wanted)} not installed; install one, or run without containers (--host DIR)"
        raise wrong("--engine", "no-engine", message)
    return ContainerEngine(Path(program))


class ContainerEngine:
    """podman or docker: a container a job, a volume a slot and image for the Nix store."""

    def __init__(self, program: Path) -> None:
        self._program = os.fspath(program)
        self.kind = program.name
        self._stores: dict[tuple[str, int], str] = {}

    def image_id(self, image: str) -> str:
        """The id of the local `image`; '' where it is not here."""
        done = self._ask(["image", "inspect", "--format", "{{.Id}}", image], check=False)
        return done.removeprefix("sha256:")[:12]

    def prepare(self, order: RunnerOrder) -> None:
        """The image is pulled where it is missing, the store's volume made."""
        if not (image := self.image_id(order.image)):
            self._ask(["pull", order.image], timeout=_LONG)
            image = self.image_id(order.image)
        volume = f"{PREFIX}-{order.pool}-{order.slot}-{image}"
        if volume not in {one.name for one in self.volumes()}:
            labels = marks({"pool": order.pool, "slot": order.slot, "image": image})
            self._ask(["volume", "create", *_options("--label", labels), volume])
        self._stores[order.pool, order.slot] = volume

    def room(self) -> int:
        """Free bytes where the engine keeps its volumes and containers."""
        template = "{{.Store.VolumePath}}" if self.kind == "podman" else "{{.DockerRootDir}}"
        folder = self._ask(["info", "--format", template])
        try:
            return shutil.disk_usage(_existing(Path(folder))).free
        except OSError as error:
            message = f"{folder}: {error.strerror}"
            raise EngineError(message) from None

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Runs Nix' own collector on the slot's store, in a container of its own without a network."""
        name = f"{PREFIX}-garbage-{order.pool}-{order.slot}"
        labels = _options("--label", marks({"pool": order.pool, "slot": order.slot}))
        command = ["run", "--rm", "--pull", "never", "--name", name, *labels, "--network", "none", *self._store(order)]
        try:
            self._ask([*command, "--entrypoint", "nix-collect-garbage", order.image, "--delete-old"], timeout=_LONG)
        except EngineError:
            self.remove(name)  # a hung collector must not go on beside the job
            raise

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts a fresh container; the configuration is handed on by the environment."""
        self._ask(self.command(order), jit=jit, timeout=_SHORT)

    def command(self, order: RunnerOrder) -> list[str]:
        """The arguments that start `order`."""
        labels = marks(
            {"pool": order.pool, "slot": order.slot, "registration": order.registration, "scope": order.scope}
        )
        return [
            *("run", "--detach", "--pull", "never", "--name", order.name, "--hostname", order.name),
            *_options("--label", labels),
            *("--env", JIT),
            *_options("--env", RUNNER_ENVIRONMENT | _told(order)),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *(SANDBOX[self.kind] if order.builds else ()),
            *("--shm-size", SHARED_MEMORY),
            *self._store(order),
            *self._gpus(order),
            order.image,
        ]

    def machines(self) -> tuple[RunnerInstance, ...]:
        """Our containers."""
        return tuple(self._machines())

    def volumes(self) -> tuple[StoreVolume, ...]:
        """Our volumes. Raises EngineError."""
        names = self._ask(["volume", "ls", "--quiet", "--filter", f"label={LABEL}"]).split()
        return tuple(self._volumes(names)) if names else ()

    def remove_volume(self, name: str) -> None:
        """Removes the volume `name`, which no container uses. Raises EngineError."""
        self._ask(["volume", "rm", name])

    def end(self, name: str) -> None:
        """Sends SIGTERM."""
        self._ask(["kill", "--signal", "TERM", name])

    def remove(self, name: str) -> None:
        """Removes the container and its anonymous volumes."""
        if name in self._names():
            self._ask(["rm", "--force", "--volumes", name])

    def last_words(self, name: str) -> str:
        """The last line of its log."""
        done = self._run(["logs", "--tail", "5", name], {}, _SHORT)
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def _machines(self) -> Iterator[RunnerInstance]:
        names = self._names()
        if not names:
            return
        fields = ("json .Name", "json .State.Status", ".State.ExitCode", "json .Config.Labels")
        template = "[" + ",".join(f"{{{{{field}}}}}" for field in fields) + "]"
        for line in self._ask(["container", "inspect", "--format", template, *names]).splitlines():
            name, status, code, labels = json.loads(line)
            yield RunnerInstance(
                name=name.removeprefix("/"),
                status=InstanceStatus.ENDED if status in _ENDED else InstanceStatus.RUNNING,
                exit_code=code if status in _ENDED else 0,
                registration=int(mark(labels, "registration") or 0),
                scope=mark(labels, "scope"),
                pool=mark(labels, "pool"),
                slot=int(mark(labels, "slot") or 0),
            )

    def _names(self) -> list[str]:
        return self._ask(["ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"]).split()

    def _volumes(self, names: Sequence[str]) -> Iterator[StoreVolume]:
        for line in self._ask(
            ["volume", "inspect", "--format", "[{{json .Name}},{{json .Labels}}]", *names]
        ).splitlines():
            name, labels = json.loads(line)
            yield StoreVolume(
                name=name, pool=mark(labels, "pool"), slot=int(mark(labels, "slot") or 0), image=mark(labels, "image")
            )

    def _store(self, order: RunnerOrder) -> list[str]:
        return ["--volume", f"{self._stores[order.pool, order.slot]}:{STORE}"]

    def _gpus(self, order: RunnerOrder) -> list[str]:
        """CDI for podman (4.1 and later), docker's own option for docker."""
        if not order.gpus:
            return []
        if self.kind == "podman":
            return ["--device", f"nvidia.com/gpu={order.gpus}"]
        return ["--gpus", "all" if order.gpus == "all" else f"device={order.gpus}"]

    def _ask(
        self, words: Sequence[str], *, jit: Secret | None = None, timeout: int = _SHORT, check: bool = True
    ) -> str:
        """What the engine says to `words`. Raises EngineError where it fails, with the last line that it said."""
        done = self._run(words, {JIT: jit.reveal()} if jit else {}, timeout)
        if done.returncode and not check:
            return ""
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
            message = f"{self.kind} {' '.join(words[:2])}: {jit.cut_from(said) if jit else said}"
            raise EngineError(message)
        return done.stdout.strip()

    def _run(self, words: Sequence[str], extra: Mapping[str, str], timeout: int) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
        try:
            return subprocess.run(
                [self._program, *words],
                env=environment | dict(extra),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"{self.kind} {' '.join(words[:2])}: no answer in {timeout} s"
        except OSError as error:
            message = f"{self._program}: {error.strerror}"
        raise EngineError(message)


_ENDED = frozenset({"exited", "dead", "stopped"})
"""States of a container that will not run again by itself (podman, docker)."""


def _told(order: RunnerOrder) -> dict[str, str]:
    """What the images' entry point and hooks go by (`runner-images/README.md`)."""
    cores = {"CI_RUNNER_CORES": str(order.cores)} if order.cores else {}
    return {"CI_RUNNER_FREE_GB": str(order.room // 10**9)} | cores


def _options(option: str, values: Mapping[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in (option, f"{name}={value}")]


def _existing(folder: Path) -> Path:
    """`folder`, or the nearest above it that is there: an engine makes its folders when it first needs them."""
    return next((one for one in (folder, *folder.parents) if one.exists()), folder)
