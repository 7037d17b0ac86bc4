"""Finds, counts and removes what runners leave behind: registrations, containers, volumes, garbage collector roots.

Something counts as left over only if nothing can need it any more. Kept are the container of a registered runner, a
registration that is online, busy or so new that its runner may still be starting, and the store that the next job of
a slot would use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_compiler.runner.controller.containers import ContainerEngine
from ci_compiler.runner.controller.engine import InstanceStatus, RunnerInstance, StoreVolume, engine_errors
from ci_compiler.runner.controller.host_runner import WORK, ProcessEngine
from ci_compiler.runner.controller.runner_names import QUARANTINED, read_name
from ci_compiler.runner.controller.slots import YOUNG

if TYPE_CHECKING:  # `list --here` does not import PyGithub, which is slow
    from ci_compiler.github.inventory import Runner
    from ci_compiler.github.registration import Registrar
    from ci_compiler.spec.model import Spec

ROOTS = Path("/nix/var/nix/gcroots/auto")
"""Where Nix keeps the roots for links outside the store (Nix manual, "Garbage collector roots")."""


class LeftoverKind(StrEnum):
    """What can be left over, in the order of removal."""

    CONTAINER = "container"
    REGISTRATION = "registration"
    VOLUME = "volume"
    ROOT = "gc-root"


class Leftover(NamedTuple):
    """Something that a controller made. `left_over`: why nothing needs it any more; '' if something does.

    `scope` and `id` are set for a registration: where it is registered, and its id there.
    """

    kind: LeftoverKind
    name: str
    pool: str
    state: str
    left_over: str = ""
    scope: str = ""
    id: int = 0


class Survey(NamedTuple):
    """Where and when leftovers are judged: the tag of this machine, and the time in seconds since 1970.

    Registrations of other machines are kept unless `everywhere`. The next job of a slot builds on the slot's store, so
    it is kept unless `stores` is true.
    """

    host: str
    now: float
    everywhere: bool = False
    stores: bool = False


def containers(
    instances: Iterable[RunnerInstance], registered: Mapping[str, Mapping[int, Runner]]
) -> Iterator[Leftover]:
    """The containers (or processes). `registered`: the registrations by scope and id; a scope may be missing."""
    for instance in instances:
        why, state = "", instance.status.value
        known = registered.get(instance.scope)
        if instance.status is InstanceStatus.ENDED:
            why = "it ended"
        elif not instance.registration:
            state = "collecting garbage"
        elif known is not None and instance.registration not in known:
            why = "GitHub has no such runner"
        yield Leftover(LeftoverKind.CONTAINER, instance.name, instance.pool, state, why)


def registrations(
    survey: Survey, scope: str, runners: Iterable[Runner], instances: Iterable[RunnerInstance]
) -> Iterator[Leftover]:
    """The registrations in `scope` that controllers made."""
    running = {instance.registration for instance in instances if instance.status is InstanceStatus.RUNNING}
    for runner in runners:
        name = read_name(runner.name)
        if name is None:
            continue
        state = "busy" if runner.busy else "online" if runner.online else "offline"
        if QUARANTINED in runner.labels:
            state = QUARANTINED
        why = ""
        if state == "offline" and runner.id not in running and abs(survey.now - name.made) > YOUNG:
            if name.host == survey.host:
                why = "nothing runs it on this machine"
            elif survey.everywhere:
                why = "its machine does not run it"
        yield Leftover(LeftoverKind.REGISTRATION, runner.name, name.pool, state, why, scope, runner.id)


def volumes(
    survey: Survey, known: Iterable[StoreVolume], instances: Iterable[RunnerInstance], images: Mapping[str, str]
) -> Iterator[Leftover]:
    """The volumes with stores. `images`: the image id of each declared pool ('' if this machine does not have it)."""
    used = {(instance.pool, instance.slot) for instance in instances}
    for volume in known:
        state, why = "kept for the next job", ""
        if (volume.pool, volume.slot) in used:
            state = "in use"
        elif volume.pool not in images:
            why = "the spec has no such pool"
        elif images[volume.pool] not in {"", volume.image}:
            why = "the pool has a newer image"
        elif survey.stores:
            why = "no job is using it"
        yield Leftover(LeftoverKind.VOLUME, volume.name, volume.pool, state, why)


def roots(work: Path, *, running: bool, folder: Path) -> Iterator[Leftover]:
    """The roots in Nix's `folder` that point to links left in `work` by the jobs of a runner without containers."""
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
            yield Leftover(LeftoverKind.ROOT, str(target), "", state, why)


def find(
    survey: Survey, spec: Spec, engine: ContainerEngine | ProcessEngine | None, github: Mapping[str, Registrar]
) -> tuple[Leftover, ...]:
    """Everything that controllers made, in `engine` and in the scopes of `github`. Raises EngineError, GitHubError."""
    instances = engine.machines() if engine else ()
    registered = {scope: {runner.id: runner for runner in one.runners()} for scope, one in github.items()}
    items = list(containers(instances, registered))
    for scope, runners in registered.items():
        items += registrations(survey, scope, runners.values(), instances)
    if isinstance(engine, ContainerEngine):
        images = {pool.name: engine.image_id(pool.image) for pool in spec.pools}
        items += volumes(survey, engine.volumes(), instances, images)
    elif engine is not None:
        running = any(instance.status is InstanceStatus.RUNNING for instance in instances)
        items += roots(engine.folder / WORK, running=running, folder=ROOTS)
    return tuple(items)


def remove(item: Leftover, engine: ContainerEngine | ProcessEngine | None, github: Mapping[str, Registrar]) -> bool:
    """Removes `item`; False if it is in use again by now. Raises EngineError, GitHubError."""
    from ci_compiler.github.registration import Removal

    match item.kind:
        case LeftoverKind.REGISTRATION:
            return github[item.scope].remove(item.id) is not Removal.BUSY
        case LeftoverKind.CONTAINER if engine is not None:
            engine.remove(item.name)
        case LeftoverKind.VOLUME if isinstance(engine, ContainerEngine):
            engine.remove_volume(item.name)
        case LeftoverKind.ROOT:
            with engine_errors():
                Path(item.name).unlink(missing_ok=True)
    return True


def metrics(items: Iterable[Leftover], *, lost: int) -> str:
    """The number of items by kind, pool and state, of slots in quarantine, and of lost runners whose logs are kept.

    In Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    items = list(items)
    kinds = ("kind", "pool", "state", "left_over")
    counts = Counter((item.kind.value, item.pool, item.state, str(bool(item.left_over)).lower()) for item in items)
    sick = Counter({(item.pool,): 0 for item in items if item.kind is LeftoverKind.REGISTRATION})
    sick.update((item.pool,) for item in items if item.state == QUARANTINED)
    items_help = "What `ci-runner start` made: registrations, containers, stores, roots."
    slots_help = "Slots that failed a proof of health, or whose runners keep failing."
    return "".join(
        (
            *_metric("items", items_help, kinds, counts),
            *_metric("quarantined_slots", slots_help, ("pool",), sick),
            *_metric("lost_logs", "Logs that are kept of lost runners.", (), {(): lost}),
        )
    )


def _metric(name: str, description: str, labels: Sequence[str], counts: Mapping[Any, int]) -> Iterator[str]:
    """The lines of a metric, with a count for each combination of the values of its labels."""
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    yield f"# HELP ci_runner_{name} {description}\n# TYPE ci_runner_{name} gauge\n"
    for values, count in sorted(counts.items()):
        shown = ",".join(f'{label}="{value.translate(escapes)}"' for label, value in zip(labels, values, strict=True))
        yield f"ci_runner_{name}{{{shown}}} {count}\n" if labels else f"ci_runner_{name} {count}\n"
