"""What the runners of a machine have left over, and removing it: registrations, containers, volumes, GC roots.

A thing is left over only where nothing can still want it: no container of a runner that is registered, no registration
that is connected, at work or young enough to be just starting, no store that the next job of its slot would use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ci_compiler.github.inventory import Runner
from ci_compiler.github.registration import Removal
from ci_compiler.runner.controller.containers import (
    ContainerEngine,
    EngineError,
    InstanceStatus,
    RunnerInstance,
    StoreVolume,
)
from ci_compiler.runner.controller.host_runner import WORK, ProcessEngine
from ci_compiler.runner.controller.runner_names import read_name
from ci_compiler.runner.controller.slots import READY
from ci_compiler.spec.model import Spec

ROOTS = Path("/nix/var/nix/gcroots/auto")
"""Where Nix keeps the roots that links outside of the store make (Nix manual, "Garbage collector roots")."""

YOUNG = 2 * READY
"""Seconds for which a registration without a container counts as one that is being made."""


class LeftoverKind(StrEnum):
    """What can be left over, in the order in which it is removed."""

    CONTAINER = "container"
    REGISTRATION = "registration"
    VOLUME = "volume"
    ROOT = "gc-root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One thing of ours. `left_over`: why nothing wants it any more; '' where something does.

    `scope` and `id` are a registration's: whose runner it is, and which.
    """

    kind: LeftoverKind
    name: str
    pool: str
    state: str
    left_over: str = ""
    scope: str = ""
    id: int = 0


def containers(
    machines: Iterable[RunnerInstance], registered: Mapping[str, Mapping[int, Runner]]
) -> Iterator[Leftover]:
    """The containers (or processes), against the registrations by scope and id, as far as those were asked for."""
    for machine in machines:
        why, state = "", machine.status.value
        known = registered.get(machine.scope)
        if machine.status is InstanceStatus.ENDED:
            why = "it ended"
        elif not machine.registration:
            state = "collecting garbage"
        elif known is not None and machine.registration not in known:
            why = "GitHub knows no such runner"
        yield Leftover(kind=LeftoverKind.CONTAINER, name=machine.name, pool=machine.pool, state=state, left_over=why)


def registrations(
    scope: str,
    runners: Iterable[Runner],
    machines: Iterable[RunnerInstance],
    *,
    host: str,
    now: float,
    everywhere: bool,
) -> Iterator[Leftover]:
    """The registrations in `scope` that a controller made; those of other machines are kept unless `everywhere`."""
    running = {machine.registration for machine in machines if machine.status is InstanceStatus.RUNNING}
    for runner in runners:
        name = read_name(runner.name)
        if name is None:
            continue
        state = "busy" if runner.busy else "online" if runner.online else "offline"
        why = ""
        if state == "offline" and runner.id not in running and now - name.made > YOUNG:
            if name.host == host:
                why = "nothing runs it on this machine"
            elif everywhere:
                why = "its machine does not run it"
        yield Leftover(
            kind=LeftoverKind.REGISTRATION,
            name=runner.name,
            pool=name.pool,
            state=state,
            left_over=why,
            scope=scope,
            id=runner.id,
        )


def volumes(
    found: Iterable[StoreVolume], machines: Iterable[RunnerInstance], images: Mapping[str, str], *, stores: bool = False
) -> Iterator[Leftover]:
    """The stores, by `images`: each declared pool's image id ('' where the image is not here).

    A slot's store is what the next job's builds start from; it is kept unless `stores` says otherwise.
    """
    used = {(machine.pool, machine.slot) for machine in machines}
    for volume in found:
        why = ""
        if volume.pool not in images:
            why = "the spec has no such pool"
        elif images[volume.pool] not in {"", volume.image}:
            why = "the pool has a newer image"
        elif stores:
            why = "no job uses it now"
        in_use = (volume.pool, volume.slot) in used
        state = "in use" if in_use else "kept for the next job"
        yield Leftover(
            kind=LeftoverKind.VOLUME, name=volume.name, pool=volume.pool, state=state, left_over="" if in_use else why
        )


def roots(work: Path, *, running: bool, folder: Path) -> Iterator[Leftover]:
    """The roots among Nix' own in `folder` that jobs of a runner without containers left in its folder `work`."""
    try:
        links = sorted(folder.iterdir())
    except OSError:
        return
    for link in links:
        try:
            target = link.readlink()
        except OSError:
            continue
        if target.is_relative_to(work) and target.is_symlink():
            why = "" if running else "its job is over"
            state = "kept by a job" if running else "keeps its build"
            yield Leftover(kind=LeftoverKind.ROOT, name=str(target), pool="", state=state, left_over=why)


class Registrations(Protocol):
    """What GitHub is asked (`ci_compiler.github.registration.Registrar`). Each raises GitHubError."""

    def runners(self) -> Iterable[Runner]:
        """All registrations."""

    def remove(self, runner: int) -> Removal:
        """Removes one that is not at work."""


def find(
    spec: Spec,
    engine: ContainerEngine | ProcessEngine | None,
    github: Mapping[str, Registrations],
    *,
    host: str,
    now: float,
    everywhere: bool = False,
    stores: bool = False,
) -> tuple[Leftover, ...]:
    """Everything of ours, in this machine's `engine` and in the scopes of `github`. Raises EngineError, GitHubError."""
    machines = engine.machines() if engine else ()
    seen = {scope: {runner.id: runner for runner in one.runners()} for scope, one in github.items()}
    items = list(containers(machines, seen))
    for scope, runners in seen.items():
        items += registrations(scope, runners.values(), machines, host=host, now=now, everywhere=everywhere)
    if isinstance(engine, ContainerEngine):
        images = {pool.name: engine.image_id(pool.image) for pool in spec.pools}
        items += volumes(engine.volumes(), machines, images, stores=stores)
    elif engine is not None:
        running = any(machine.status is InstanceStatus.RUNNING for machine in machines)
        items += roots(engine.folder / WORK, running=running, folder=ROOTS)
    return tuple(items)


def remove(item: Leftover, engine: ContainerEngine | ProcessEngine | None, github: Mapping[str, Registrations]) -> bool:
    """Removes `item`; False where it is wanted again by now. Raises EngineError, GitHubError."""
    match item.kind:
        case LeftoverKind.REGISTRATION:
            return github[item.scope].remove(item.id) is not Removal.BUSY
        case LeftoverKind.CONTAINER if engine is not None:
            engine.remove(item.name)
        case LeftoverKind.VOLUME if isinstance(engine, ContainerEngine):
            engine.remove_volume(item.name)
        case LeftoverKind.ROOT:
            _unlink(Path(item.name))
    return True


def _unlink(link: Path) -> None:
    try:
        link.unlink(missing_ok=True)
    except OSError as error:
        message = f"{link}: {error.strerror}"
        raise EngineError(message) from None
