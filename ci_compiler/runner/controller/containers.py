"""Where runners run: the interface of an engine, and its implementation for podman and docker.

The configuration of a runner reaches the container through the environment of the engine's process, by name. It is in
no argument, which `ps` would show, and in no file. The engine itself gets no GitHub credential that it could pass on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, nearest, wrong
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.process import PAST_LIMIT, Ended, ask
from ci_compiler.runner.controller.confinement import bounds, gpu_options
from ci_compiler.runner.controller.job_log import JobResult, job_result
from ci_compiler.runner.controller.runner_names import LABEL, PREFIX, mark, marks
from ci_compiler.secret import Secret
from ci_compiler.units import GB

JIT = "ACTIONS_RUNNER_INPUT_JITCONFIG"
"""The variable from which the runner reads its configuration (actions/runner)."""

RUNNER_ENVIRONMENT = {
    "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT": "1",
    "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",
    "RUNNER_MANUALLY_TRAP_SIG": "1",
}
"""Settings for a runner under supervision: where it logs, how it reports its end (actions/runner)."""

ENGINES = ("podman", "docker")
"""Container engines, in the order of preference."""

STORE = "/nix"
"""The folder of a container that is a volume and outlives it: the Nix store."""

SANDBOX = {
    "podman": ("--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"),
    "docker": ("--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined"),
}
"""What Nix needs to make its sandbox in a container without capabilities: namespaces, and a /proc without masks."""

TOOLKIT_PREFIX = "/opt/ci-compiler"
"""Where the toolkit is installed, in the images and on a machine."""

TOOLKIT = f"{TOOLKIT_PREFIX}/bin/ci-runner"
"""The toolkit's program in the images."""

CHECK_SECONDS = 180
"""The time limit of the toolkit in a container: a GPU that hangs takes 30 s for each question to the driver."""

SHARED_MEMORY = "8g"
"""The size of /dev/shm in a container: the data loaders of torch pass batches through it."""

_SHORT, _LONG = 120, 3600
"""Time limits in seconds: of a query to the engine, and of a pull or garbage collection."""


class EngineError(Exception):
    """The engine failed; the text is one line."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Within it, an OSError or an InputError becomes an EngineError."""
    try:
        yield
    except OSError as error:
        raise EngineError(f"{error.filename}: {error.strerror}" if error.filename else error.strerror) from None
    except InputError as error:
        raise EngineError(str(error)) from None


class InstanceStatus(StrEnum):
    """Whether a machine runs."""

    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOrder:
    """A runner to start: its registration, pool and slot, and what its jobs need.

    `gpus`: the UUIDs of GPUs or MIG slices, or `all`. `builds`: whether Nix builds there, in its sandbox. `room`: bytes
    that must be free for a job. `cores` and `memory` (bytes): its share of the machine's, 0 for no bound.
    """

    name: str
    registration: int
    scope: str
    pool: str
    slot: int
    image: str
    gpus: tuple[str, ...]
    builds: bool
    room: int
    cores: int
    memory: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerInstance:
    """A container (or process) of the controller; `registration` is 0 if unknown, `exit_code` is set once it ended."""

    name: str
    status: InstanceStatus
    exit_code: int
    registration: int
    scope: str
    pool: str
    slot: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVolume:
    """The store of a pool's slot and an image (its id), which outlives the containers."""

    name: str
    pool: str
    slot: int
    image: str


class RunnerEngine(Protocol):
    """Runs runners. Every method raises EngineError.

    `stopped`: asked while something that takes long runs; if it returns True, that is given up.
    """

    stopped: Callable[[], bool]

    def prepare(self, order: RunnerOrder) -> None:
        """Prepares the image and the store of `order`, before its runner is registered."""

    def room(self) -> int:
        """Free bytes on the file system of builds and stores."""

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Collects the garbage in the store of `order`, which nothing may be using."""

    def toolkit(self, order: RunnerOrder, arguments: Sequence[str], stdin: str = "") -> Ended:
        """Runs `ci-runner` with `arguments` where a job of `order` would run."""

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts the runner of `order`."""

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The runners of the controller that run, or ended and were not removed."""

    def end(self, name: str) -> None:
        """Asks the runner `name` to end. One that has a job finishes it first."""

    def remove(self, name: str) -> None:
        """Removes `name`, even if it runs. Does nothing if it does not exist."""

    def last_words(self, name: str) -> str:
        """The last line of output of `name`."""

    def job_result(self, name: str) -> JobResult | None:
        """How the job of `name`, which has ended, went; None if that is unknown."""


def find_engine(name: str | None) -> ContainerEngine:
    """The container engine called `name`, or the first that is installed. Raises InputError."""
    if name is not None and name not in ENGINES:
        message = f"unknown engine {name!r}{nearest(name, ENGINES)}"
        raise wrong("--engine", Code.UNKNOWN_ENGINE, message)
    wanted = (name,) if name else ENGINES
    program = next((found for one in wanted if (found := shutil.which(one))), None)
    if program is None:
        message = f"{' and '.join(wanted)} not installed; install one, or run without containers (--host DIR)"
        raise wrong("--engine", Code.NO_ENGINE, message)
    return ContainerEngine(Path(program))


class ContainerEngine:
    """podman or docker: one container per job, and one volume per slot and image for the Nix store."""

    def __init__(self, program: Path) -> None:
        self._program = os.fspath(program)
        self.kind = program.name
        self._stores: dict[tuple[str, int], str] = {}
        self.stopped: Callable[[], bool] = lambda: False

    def image_id(self, image: str) -> str:
        """The id of the local `image`; '' if there is none."""
        done = self._ask(["image", "inspect", "--format", "{{.Id}}", image], check=False)
        return done.removeprefix("sha256:")[:12]

    def prepare(self, order: RunnerOrder) -> None:
        """Pulls the image if it is missing, and creates the volume of the store."""
        if not (image := self.image_id(order.image)):
            self._ask(["pull", order.image], timeout=_LONG)
            image = self.image_id(order.image)
        volume = f"{PREFIX}-{order.pool}-{order.slot}-{image}"
        if volume not in {one.name for one in self.volumes()}:
            labels = marks({"pool": order.pool, "slot": order.slot, "image": image})
            self._ask(["volume", "create", *_options("--label", labels), volume])
        self._stores[order.pool, order.slot] = volume

    def room(self) -> int:
        """Free bytes on the file system of the engine's volumes and containers."""
        template = "{{.Store.VolumePath}}" if self.kind == "podman" else "{{.DockerRootDir}}"
        folder = self._ask(["info", "--format", template])
        with engine_errors():
            return shutil.disk_usage(_existing(Path(folder))).free

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Runs the garbage collector of Nix on the store of the slot, in a container without network."""
        name = f"{PREFIX}-garbage-{order.pool}-{order.slot}"
        labels = _options("--label", marks({"pool": order.pool, "slot": order.slot}))
        command = ["run", "--rm", "--pull", "never", "--name", name, *labels, "--network", "none", *self._store(order)]
        try:
            self._ask([*command, "--entrypoint", "nix-collect-garbage", order.image, "--delete-old"], timeout=_LONG)
        except EngineError:
            self.remove(name)  # a hung collector must not run beside the job
            raise

    def toolkit(self, order: RunnerOrder, arguments: Sequence[str], stdin: str = "") -> Ended:
        """Runs the toolkit of the image in a container like that of a job."""
        name = f"{PREFIX}-check-{order.pool}-{order.slot}"
        labels = marks({"pool": order.pool, "slot": order.slot})
        command = ["run", "--rm", "--interactive", "--pull", "never", "--name", name, *_options("--label", labels)]
        self.remove(name)  # of a controller that was killed
        try:
            words = [*command, *self._confinement(order), order.image, TOOLKIT, *arguments]
            return self._run(words, timeout=CHECK_SECONDS, stdin=stdin)
        except EngineError:
            self.remove(name)  # a hung check must not hold the GPU
            raise

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Starts a new container, which gets the configuration through the environment."""
        self._ask(self.command(order), jit=jit, timeout=_SHORT)

    def command(self, order: RunnerOrder) -> list[str]:
        """The arguments that start `order`."""
        labels = marks({
            "pool": order.pool,
            "slot": order.slot,
            "registration": order.registration,
            "scope": order.scope,
            "gpus": ",".join(order.gpus),
        })  # fmt: skip
        return [
            *("run", "--detach", "--pull", "never", "--name", order.name, "--hostname", order.name),
            *_options("--label", labels),
            *("--env", JIT),
            *_options("--env", RUNNER_ENVIRONMENT | _environment(order)),
            *self._confinement(order),
            order.image,
        ]

    def _confinement(self, order: RunnerOrder) -> list[str]:
        """What a job may use, and what it may not."""
        return [
            *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *(SANDBOX[self.kind] if order.builds else ()),
            *("--shm-size", SHARED_MEMORY),
            *self._store(order),
            *gpu_options(self.kind, order.gpus),
            *bounds(order.memory, order.cores),
        ]

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The containers with the label of the controller."""
        fields = ("json .Name", "json .State.Status", ".State.ExitCode", "json .Config.Labels")
        return tuple(
            RunnerInstance(
                name=name.removeprefix("/"),
                status=InstanceStatus.ENDED if status in _ENDED else InstanceStatus.RUNNING,
                exit_code=code if status in _ENDED else 0,
                registration=int(mark(labels, "registration") or 0),
                scope=mark(labels, "scope"),
                pool=mark(labels, "pool"),
                slot=int(mark(labels, "slot") or 0),
                gpus=tuple(filter(None, mark(labels, "gpus").split(","))),
            )
            for name, status, code, labels in self._inspected("container", self._names(), fields)
        )

    def volumes(self) -> tuple[StoreVolume, ...]:
        """The volumes with the label of the controller. Raises EngineError."""
        names = self._ask(["volume", "ls", "--quiet", "--filter", f"label={LABEL}"]).split()
        return tuple(
            StoreVolume(
                name=name, pool=mark(labels, "pool"), slot=int(mark(labels, "slot") or 0), image=mark(labels, "image")
            )
            for name, labels in self._inspected("volume", names, ("json .Name", "json .Labels"))
        )

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

    def job_result(self, name: str) -> JobResult | None:
        """The result that its log states."""
        return job_result(self._run(["logs", "--tail", "100", name]).out)

    def last_words(self, name: str) -> str:
        """The last line of its log."""
        ended = self._run(["logs", "--tail", "5", name])
        lines = [line.strip() for line in (ended.out + ended.err).splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def _names(self) -> list[str]:
        return self._ask(["ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"]).split()

    def _inspected(self, kind: str, names: Sequence[str], fields: Iterable[str]) -> list[list[Any]]:
        """The `fields` of each of `names`, which are objects of a `kind`."""
        template = "[" + ",".join(f"{{{{{field}}}}}" for field in fields) + "]"
        said = self._ask([kind, "inspect", "--format", template, *names]) if names else ""
        return [json.loads(line) for line in said.splitlines()]

    def _store(self, order: RunnerOrder) -> list[str]:
        return ["--volume", f"{self._stores[order.pool, order.slot]}:{STORE}"]

    def _ask(
        self, words: Sequence[str], *, jit: Secret | None = None, timeout: int = _SHORT, check: bool = True
    ) -> str:
        """The output of the engine for `words`. Raises EngineError with its last line if it fails."""
        ended = self._run(words, jit, timeout)
        if ended.status and not check:
            return ""
        if ended.status:
            said = (ended.err.strip() or ended.out.strip() or f"exit code {ended.status}").splitlines()[-1]
            raise EngineError(f"{self.kind} {' '.join(words[:2])}: {said}")
        return ended.out.strip()

    def _run(self, words: Sequence[str], jit: Secret | None = None, timeout: int = _SHORT, *, stdin: str = "") -> Ended:
        env = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
        env |= {JIT: jit.reveal()} if jit else {}
        with engine_errors():  # in the caller's group: podman starts processes that must outlive it
            stopped = self.stopped if timeout > _SHORT else None
            command = [self._program, *words]
            ended = ask(command, seconds=timeout, env=env, stdin=stdin, secret=jit, group=False, stopped=stopped)
        if ended.status == PAST_LIMIT:
            why = "given up to stop" if self.stopped() else f"no answer in {timeout} s"
            raise EngineError(f"{self.kind} {' '.join(words[:2])}: {why}")
        return ended


_ENDED = frozenset({"exited", "dead", "stopped"})
"""The states of a container that has ended (podman, docker)."""


def _environment(order: RunnerOrder) -> dict[str, str]:
    """The variables that the entry point and the hooks of the images read (`runner-images/README.md`)."""
    cores = {"CI_RUNNER_CORES": str(order.cores)} if order.cores else {}
    return {"CI_RUNNER_FREE_GB": str(order.room // GB)} | cores


def _options(option: str, values: Mapping[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in (option, f"{name}={value}")]


def _existing(folder: Path) -> Path:
    """`folder` or its nearest parent that exists: an engine creates its folders when it first needs them."""
    return next((one for one in (folder, *folder.parents) if one.exists()), folder)
