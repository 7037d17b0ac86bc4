"""Runners in containers of podman or docker.

The configuration of a runner and the key of the builders reach a container through a pipe in it (`secret-pipe` of the
images). They are in no argument, which `ps` would show, and not in the environment of a container, which the engine
keeps in files of its own. The engine itself gets no GitHub credential that it could pass on.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.github.access import CREDENTIALS
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.outside import json_of
from ci_compiler.process import PAST_LIMIT, Ended, ask, located
from ci_compiler.runner.controller import answers, runner_logs
from ci_compiler.runner.controller.engine import (
    CHECK_SECONDS,
    RUNNER_ENVIRONMENT,
    EngineError,
    InstanceStatus,
    RunnerInstance,
    RunnerOrder,
    RunnerState,
    StoreVolume,
    engine_errors,
)
from ci_compiler.runner.controller.job_network import (
    closer_arguments,
    holder_arguments,
    joined,
    network_containers,
    network_name,
)
from ci_compiler.runner.controller.runner_names import LABEL, PREFIX, mark, marks
from ci_compiler.runner.controller.slot_memory import (
    SHARED_MEMORY,
    in_pod,
    parts,
    pod_arguments,
    pod_member,
    pod_name,
)
from ci_compiler.runner.controller.store_daemon import (
    SERVES,
    STORE,
    bounds,
    collector_arguments,
    collector_name,
    daemon_arguments,
    daemon_name,
    options,
    started,
)
from ci_compiler.runner.fence import CLOSED, FENCE
from ci_compiler.secret import Secret
from ci_compiler.units import GB

ENGINES = ("podman", "docker")
"""Container engines, in the order of preference."""

TOOLKIT_PREFIX = "/opt/ci-compiler"
"""Where the toolkit is installed, in the images and on a machine."""

TOOLKIT = f"{TOOLKIT_PREFIX}/bin/ci-runner"
"""The toolkit's program in the images."""

PYTHON = f"{TOOLKIT_PREFIX}/bin/python"
"""The toolkit's interpreter in the images."""

PIPE = "/usr/local/lib/ci-runner/secret-pipe"
"""The program of the images that passes on a secret."""

PIPED = ("--env", "CI_RUNNER_SECRET_PIPE=true")
"""The options of a container whose program waits for a secret."""

LOGS, MOST_LOG = {"podman": "k8s-file", "docker": "json-file"}, "50m"
"""Where an engine keeps what a job's container prints, and the most of it: any job can print, to fill the disk."""

LAST = "1000"
"""The lines of its output by which a runner is judged that has ended: traces follow the result of a job."""

FRESH = 3600.0
"""Seconds after which an image that a tag names is pulled again."""

_Made = TypeVar("_Made")
_SHORT, _LONG, _HURRIED = 120, 3600, 20
"""Time limits in seconds: of a query to the engine, of a pull or garbage collection, and of a query during a stop."""


@dataclass(slots=True)
class ImagePulls:
    """When images were pulled: a tag may name a newer one by now, to which the next job then moves.

    `clock` counts seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _last: dict[str, float] = field(default_factory=dict)

    def due(self, image: str, *, here: bool) -> bool:
        """Whether to pull `image` now: never if it is `here` and cannot change, as with a digest or a local name."""
        fixed = "@" in image or image.startswith("localhost/")
        now, last = self.clock(), self._last.get(image)
        if here and (fixed or (last is not None and now - last < FRESH)):
            return False
        self._last[image] = now
        return True


def find_engine(name: str | None, builder_key: Secret | None = None) -> ContainerEngine:
    """The container engine called `name`, or the first that is installed. Raises InputError."""
    if name is not None and name not in ENGINES:
        message = f"unknown engine {name!r}{nearest(name, ENGINES)}"
        raise wrong("--engine", Code.UNKNOWN_ENGINE, message)
    wanted = (name,) if name else ENGINES
    program = next((found for one in wanted if (found := located(one))), None)
    if program is None:
        message = f"{' and '.join(wanted)} not installed; install one, or run without containers (--host DIR)"
        raise wrong("--engine", Code.NO_ENGINE, message)
    return ContainerEngine(Path(program), builder_key)


class ContainerEngine:
    """podman or docker: one container per job, and one volume per slot and image for the Nix store.

    `builder_key`: the secret key with which the daemons sign builds; None lets each store make one of its own.
    """

    def __init__(self, program: Path, builder_key: Secret | None = None) -> None:
        self._program = os.fspath(program)
        self.kind = program.name
        self._builder_key = builder_key
        self._stores: dict[tuple[str, int], str] = {}
        self._pulls = ImagePulls()
        self.stopped: Callable[[], bool] = lambda: False

    def image_id(self, image: str) -> str:
        """The id of the local `image`; '' if there is none."""
        words = ["image", "inspect", "--format", "{{.Id}}", image]
        ended = self._run(words)
        return "" if ended.status else answers.read(ended.out.strip(), _image_id, self._who(words), str)

    def prepare(self, order: RunnerOrder) -> None:
        """Pulls the image if it is missing or may be newer by now, and creates the volume of the store."""
        image = self.image_id(order.image)
        if self._pulls.due(order.image, here=bool(image)):
            try:
                self._ask(["pull", "--quiet", order.image], timeout=_LONG)
            except EngineError:
                if not image:
                    raise
            image = self.image_id(order.image)
        if not order.store:
            return
        volume = f"{PREFIX}-{order.pool}-{order.slot}-{image}"
        exists = volume in {one.name for one in self.volumes()}
        if exists and order.fresh_store:
            self.remove_volume(volume)
        if not exists or order.fresh_store:
            labels = marks({"pool": order.pool, "slot": order.slot, "image": image})
            self._ask(["volume", "create", *options("--label", labels), volume])
        self._stores[order.pool, order.slot] = volume

    def room(self) -> int:
        """Free bytes on the file system of the engine's volumes and containers."""
        template = "{{.Store.VolumePath}}" if self.kind == "podman" else "{{.DockerRootDir}}"
        command = ["info", "--format", template]
        folder = answers.read(self._ask(command), _folder, self._who(command), str)
        with engine_errors():
            return shutil.disk_usage(_existing(Path(folder))).free

    def collect_garbage(self, order: RunnerOrder) -> None:
        """Collects the garbage in the store of the slot, in a container without network."""
        if not order.store:
            return
        try:
            self._ask(collector_arguments(order, self._stores[order.pool, order.slot]), timeout=_LONG)
        except EngineError:
            self.remove(collector_name(order))  # a hung collector must not run beside the job
            raise

    def toolkit(self, order: RunnerOrder, arguments: Sequence[str], stdin: str = "") -> Ended:
        """Runs the toolkit of the image in a container like that of a job."""
        order = replace(order, name=f"{PREFIX}-check-{order.pool}-{order.slot}")
        words = self._job(order, {"pool": order.pool, "slot": order.slot}, ("--rm", "--interactive"), {})
        self.remove(order.name)  # of a controller that was killed
        try:
            self._start_services(order)
            return self._run([*words, TOOLKIT, *arguments], timeout=CHECK_SECONDS, stdin=stdin)
        finally:
            self.remove(order.name)  # a hung check must not hold the GPU

    def start(self, order: RunnerOrder, jit: Secret) -> None:
        """Closes a network, starts the daemon of the store and a new container, and gives it the configuration."""
        self._start_services(order)
        self._ask(self.command(order))
        self._hand(order.name, jit)

    def _start_services(self, order: RunnerOrder) -> None:
        together = self._in_pod(order)
        if together:
            self._ask(pod_arguments(order))
        own = (*together, "--network", "private") if together else ()
        self._ask(holder_arguments(order, *own))
        self._ask(closer_arguments(order, network_name(order.name), PYTHON, *together))
        if order.store:
            volume, daemon, key = self._stores[order.pool, order.slot], daemon_name(order.name), self._builder_key
            how = (*own, *(PIPED if key else ()))
            memory = self._shares(order)[1]
            self._ask(daemon_arguments(replace(order, memory=memory), self.kind, volume, *how))
            if key:
                self._hand(daemon, key)
            self._ask(closer_arguments(order, daemon, PYTHON, *together))

    def _in_pod(self, order: RunnerOrder) -> Sequence[str]:
        """The options of a container of `order`, if it has a pod."""
        return in_pod(order) if order.memory and self._pods else ()

    def _shares(self, order: RunnerOrder) -> tuple[int, int]:
        """The memory of the job and of the daemon: in a pod, each may have all of what they share."""
        return (order.memory, order.memory) if not order.memory or self._pods else parts(order)

    @cached_property
    def _pods(self) -> bool:
        """Whether it makes pods with bounds. Without systemd, podman 4.3 denies all devices to a pod in version 2."""
        words = ["info", "--format", "{{.Host.CgroupManager}} {{.Host.CgroupsVersion}}"]
        return self.kind == "podman" and answers.read(self._ask(words), _groups, self._who(words), str) != "cgroupfs v2"

    def _hand(self, container: str, secret: Secret) -> None:
        """Passes `secret` to the program of `container`, which waits for it."""
        self._ask(["exec", "--interactive", container, PIPE, "--in"], secret=secret)

    def command(self, order: RunnerOrder) -> list[str]:
        """The arguments that start `order`."""
        identity = order.identity | {"gpus": ",".join(order.gpus)}
        return self._job(order, identity, ("--detach", *_hostname(order, self.kind), *PIPED), RUNNER_ENVIRONMENT)

    def _job(
        self, order: RunnerOrder, identity: Mapping[str, object], how: Sequence[str], variables: Mapping[str, str]
    ) -> list[str]:
        """The arguments that start a container like that of a job: what it may use, and what it may not."""
        return [
            *started(order.name, identity, *how, *self._in_pod(order), *joined(order)),
            *options("--env", {**variables, **_environment(order)}),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *("--shm-size", SHARED_MEMORY),
            *("--log-driver", LOGS[self.kind], "--log-opt", f"max-size={MOST_LOG}"),
            *(("--volume", f"{self._stores[order.pool, order.slot]}:{STORE}:ro") if order.store else ()),
            *machines_of(order.family).options(self.kind, order.gpus),
            *bounds(self._shares(order)[0], order.cores),
            order.image,
        ]

    def machines(self) -> tuple[RunnerInstance, ...]:
        """The containers with the label of the controller.

        A daemon whose runner is missing stands for the runner: it is what a start that was interrupted leaves.
        """
        fields = ("json .Name", "json .State.Status", ".State.ExitCode", "json .Config.Labels")
        found = self._inspected("container", self._names(), fields, _container)
        return tuple({one.name: one for _, one in sorted(found, key=lambda pair: pair[0])}.values())

    def volumes(self) -> tuple[StoreVolume, ...]:
        """The volumes with the label of the controller. Raises EngineError."""
        names = self._listed(["volume", "ls", "--quiet", "--filter", f"label={LABEL}"])
        return tuple(self._inspected("volume", names, ("json .Name", "json .Labels"), _volume))

    def remove_volume(self, name: str) -> None:
        """Removes the volume `name`, which no container uses. Raises EngineError."""
        self._ask(["volume", "rm", name])

    def end(self, name: str) -> None:
        """Sends SIGTERM."""
        self._ask(["kill", "--signal", "TERM", name])

    def remove(self, name: str) -> None:
        """Removes the container, the daemon of its store and the network, with their anonymous volumes."""
        there = self._names()
        if pod_member(name) in there:
            self._ask(["pod", "rm", "--force", "--time", "0", pod_name(name)])
            there = self._names()
        for one in (name, daemon_name(name), *network_containers(name)):
            if one in there:
                self._ask(["rm", "--force", "--volumes", one])

    def keep_log(self, name: str) -> None:
        """Writes its log to a file."""
        ended = self._run(["logs", "--tail", str(runner_logs.LINES), name])
        if not ended.status:
            with engine_errors():
                runner_logs.keep(name, ended.out + ended.err)

    def state(self, name: str) -> RunnerState | None:
        """What its log says."""
        ended = self._run(["logs", "--tail", "100", name])
        return runner_logs.state(ended.err + "\n" + ended.out)

    def job_failed(self, name: str) -> bool | None:
        """Whether its log says so."""
        return runner_logs.job_failed(self._run(["logs", "--tail", LAST, name]).out)

    def written(self, name: str) -> int:
        """The size of what its container has beyond its image."""
        words = ["container", "inspect", "--size", "--format", "{{.SizeRw}}", name]
        return answers.read(self._ask(words), answers.number, self._who(words), str.strip)

    def last_words(self, name: str) -> str:
        """The last line of its log that is the runner's own."""
        ended = self._run(["logs", "--tail", LAST, name])
        return runner_logs.last_words(ended.out + ended.err)

    def _names(self) -> list[str]:
        return self._listed(["ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"])

    def _listed(self, words: Sequence[str]) -> list[str]:
        """The names that the engine prints for `words`."""
        return answers.read(self._ask(words), lambda found: list(map(_name, found)), self._who(words), str.split)

    def _inspected(
        self, kind: str, names: Sequence[str], fields: Iterable[str], shape: Callable[[Any], _Made]
    ) -> list[_Made]:
        """What `shape` makes of the `fields` of each of `names`, which are objects of a `kind`."""
        template = "[" + ",".join(f"{{{{{field}}}}}" for field in fields) + "]"
        words = [kind, "inspect", "--format", template, *names]

        def rows(text: str) -> list[_Made]:
            return [shape(json_of(line)) for line, _ in zip(text.split("\n"), names, strict=True)]

        return answers.read(self._ask(words), rows, self._who(words), str) if names else []

    def _who(self, words: Sequence[str]) -> str:
        return f"{self.kind} {' '.join(words[:2])}"

    def _ask(self, words: Sequence[str], *, secret: Secret | None = None, timeout: int = _SHORT) -> str:
        """The output of the engine for `words`. Raises EngineError with its last line if it fails."""
        ended = self._run(words, timeout, f"{secret.reveal()}\n" if secret else "", secret)
        if ended.status:
            said = answers.last_line(ended.out + ended.err) or f"exit code {ended.status}"
            raise EngineError(f"{self._who(words)}: {said}")
        return ended.out.strip()

    def _run(self, words: Sequence[str], timeout: int = _SHORT, stdin: str = "", secret: Secret | None = None) -> Ended:
        """Runs the engine with `stdin`, which `secret` is part of."""
        env = {name: value for name, value in os.environ.items() if name not in CREDENTIALS}
        hurried = time.monotonic() + (0 if timeout > _SHORT else _HURRIED)

        def given_up() -> bool:
            return self.stopped() and time.monotonic() >= hurried

        with engine_errors():  # in the caller's group: podman starts processes that must outlive it
            command = [self._program, *words]
            ended = ask(command, seconds=timeout, env=env, stdin=stdin, secret=secret, group=False, stopped=given_up)
        if ended.status == PAST_LIMIT:
            why = "given up to stop" if self.stopped() else f"no answer in {timeout} s"
            raise EngineError(f"{self._who(words)}: {why}")
        return ended


_ENDED = frozenset({"exited", "dead", "stopped"})
"""The states of a container that has ended (podman, docker)."""


def _environment(order: RunnerOrder) -> dict[str, str]:
    """The variables that the entry point and the hooks of the images read (`runner-images/README.md`)."""
    cores = {"CI_RUNNER_CORES": str(order.cores)} if order.cores else {}
    return {"CI_RUNNER_FREE_GB": str(order.room // GB), FENCE: CLOSED} | cores


def _hostname(order: RunnerOrder, kind: str) -> Sequence[str]:
    """The option for its name; docker takes none beside the network of another container, which has it already."""
    return ("--hostname", order.name) if kind == "podman" else ()


_image_id = partial(answers.matched, "(?:sha256:)?([0-9a-f]{12})[0-9a-f]{0,52}")
_folder = partial(answers.matched, "(/.*)")
_groups = partial(answers.matched, "((?:cgroupfs|systemd) v[12])")
_name = partial(answers.matched, answers.NAME)


def _container(row: Any) -> tuple[bool, RunnerInstance]:
    """Whether a container is a runner's own, not that of a daemon, and the runner in whose name it stands."""
    own, status, code, labels = row
    labels = answers.own_labels(labels)
    serves, ended = mark(labels, SERVES), answers.matched("([a-z]+)", status) in _ENDED
    return not serves, RunnerInstance(
        name=answers.matched(f"/?{answers.NAME}", serves or own),
        status=InstanceStatus.ENDED if ended else InstanceStatus.RUNNING,
        exit_code=answers.number(code) if ended else 0,
        registration=answers.number(mark(labels, "registration")),
        scope=mark(labels, "scope"),
        pool=mark(labels, "pool"),
        slot=answers.number(mark(labels, "slot")),
        gpus=tuple(filter(None, mark(labels, "gpus").split(","))),
    )


def _volume(row: Any) -> StoreVolume:
    name, labels = row
    labels = answers.own_labels(labels)
    pool, slot, image = mark(labels, "pool"), answers.number(mark(labels, "slot")), mark(labels, "image")
    return StoreVolume(name=_name(name), pool=pool, slot=slot, image=image)


def _existing(folder: Path) -> Path:
    """`folder` or its nearest parent that exists: an engine creates its folders when it first needs them."""
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)
