"""The interface of what runs runners: podman or docker (`containers`), or processes of this machine (`host_runner`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from ci_compiler.errors import InputError
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.process import Ended
from ci_compiler.secret import Secret

JIT = "ACTIONS_RUNNER_INPUT_JITCONFIG"
"""The variable from which the runner reads its configuration (actions/runner)."""

RUNNER_ENVIRONMENT = {
    "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT": "1",
    "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",  # Assumes `runner-exit-7`
    "RUNNER_MANUALLY_TRAP_SIG": "1",
}
"""Settings for a runner under supervision: where it logs, how it reports its end (actions/runner)."""

CHECK_SECONDS = 180
"""The time limit of a check by the toolkit: a GPU that hangs takes 30 s for each question to the driver."""


class EngineError(Exception):
    """The engine failed; the text is one line."""


@contextmanager
def engine_errors(place: object = "") -> Iterator[None]:
    """Within it, an OSError (about its file, or else `place`) or an InputError becomes an EngineError."""
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise EngineError(f"{where}: {error.strerror}" if where else error.strerror) from None
    except InputError as error:
        raise EngineError(str(error)) from None


class InstanceStatus(StrEnum):
    """Whether a machine runs."""

    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNeeds:
    """What the jobs of a pool need, in each of its runners.

    `scope`: the repository or organisation that the runners are registered in. `builds`: whether Nix builds there, in
    its sandbox. `room`: bytes that must be free for a job. `cores` and `memory` (bytes): those of the machine, or a
    runner's share of them, 0 for no bound. `store`: whether jobs use a Nix store, which a daemon serves. `fresh_store`:
    nothing of an earlier job is in the store. `trusted_keys`: public keys whose paths jobs may fetch. `family`: that of
    their GPUs.
    """

    pool: str
    scope: str
    image: str
    builds: bool
    room: int
    cores: int
    memory: int = 0
    store: bool = True
    fresh_store: bool = False
    trusted_keys: tuple[str, ...] = ()
    family: str = DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOrder(JobNeeds):
    """A runner to start: its registration and slot, and its GPUs: UUIDs (also of slices), or `all`."""

    name: str
    registration: int
    slot: int
    gpus: tuple[str, ...]

    @property
    def identity(self) -> dict[str, str | int]:
        """What tells the machines of the runner, apart from its name, from others."""
        return {"pool": self.pool, "slot": self.slot, "registration": self.registration, "scope": self.scope}


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


class RunnerState(NamedTuple):
    """What a runner itself says: whether it is connected to GitHub, and whether it has a job."""

    online: bool
    busy: bool


class StoreVolume(NamedTuple):
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

    def keep_log(self, name: str) -> None:
        """Keeps the output of `name`, whose runner is lost, beyond its removal."""

    def written(self, name: str) -> int:
        """Bytes that the job of `name` keeps on the disk, outside the store; 0 if that is not measured."""

    def last_words(self, name: str) -> str:
        """The last line of output of `name` that its runner itself wrote; '' if that is unknown."""

    def state(self, name: str) -> RunnerState | None:
        """The state of the runner `name` by its output; None if that is unknown."""

    def job_failed(self, name: str) -> bool | None:
        """Whether the job of `name`, which has ended, failed; None if that is unknown."""
