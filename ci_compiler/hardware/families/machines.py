"""How the machines of a family are read and judged, and what jobs need there: a module of the family says it."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.hardware import NO_VERSION, Version
from ci_compiler.hardware.families import FAMILIES, family_of
from ci_compiler.hardware.machine import GpuDevice, UnlistedGpu, bus_place
from ci_compiler.judgement import Judgement, skipped


class UsedDevice(NamedTuple):
    """A GPU that a process could use, as its driver reports it."""

    name: str
    capability: Version = NO_VERSION


class Attempt(NamedTuple):
    """The result of using a library of the driver in a process with a clean environment: the GPUs, or the problem.

    `linked`: the library is in the folder where programs of nixpkgs look, instead of only in the loader's cache.
    """

    library: str
    linked: bool
    devices: tuple[UsedDevice, ...] = ()
    problem: str = ""


class DeviceCode(NamedTuple):
    """The code for a family's GPUs in a file: the targets of machine code, and of `portable` code, as specs name them.

    The driver compiles portable code when it is first used. `compilers` are the names and versions that the code
    states. `unread`: there may be code whose targets are not read.
    """

    machine: frozenset[str] = frozenset()
    portable: frozenset[str] = frozenset()
    compilers: frozenset[str] = frozenset()
    unread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What a family knows of machines.

    `record` returns what the machine whose files are below a folder says of its GPUs, and `devices` makes of that the
    GPUs, and what is wrong with others; it is pure, and so is `bus`, which makes of it the addresses of the GPUs on the
    PCI bus, and what the kernel's log says of each (`found_in`). `signs` are where faults show. `host` finds what only
    the host of a machine sees, in the files below a folder and the kernel's log: addresses of GPUs, and their faults.
    `missing` says that no GPU was found, `install` and `reset` how to fix that and a fault.

    `attempts` tries to use the GPUs, thoroughly with `deep`; `usable` judges what it found, and is given whether the
    variant `reads_loader_cache`. `visible` are the variables that say which GPUs a job may use, and where the toolkit
    is. `probe` is the file of Python that the probe of a package loads (`runner.jobs.smoke_probe`). `link` links the
    driver's libraries into a folder, if programs would not find them otherwise. `options` are those for GPUs (their
    UUIDs, or `all`) of a container engine. `driver` judges the driver of GPUs for versions of the toolkit, if the
    family has a rule of its own.

    `code_in` reads the code for GPUs in a file; None if no reader is known. `portable` is what sentences call code that
    the driver compiles, and `libraries` are the names of the vendor's libraries that packages bring along.
    """

    record: Callable[[Path], Any] = str
    devices: Callable[[Any], tuple[tuple[GpuDevice, ...], tuple[str, ...]]] = lambda _: ((), ())
    bus: Callable[[Any], Iterable[tuple[str, tuple[str, ...]]]] = lambda _: ()
    signs: tuple[str, ...] = ()
    host: Callable[[Path, str], Iterable[tuple[str, tuple[str, ...]]]] = lambda *_: ()
    missing: str = ""
    install: str = ""
    reset: str = ""
    attempts: Callable[..., Iterable[Attempt]] = lambda **_: ()
    usable: Callable[..., Judgement]
    visible: tuple[str, ...] = ()
    probe: str = ""
    link: Callable[[Sequence[Attempt], Path], bool] = lambda *_: False
    options: Callable[[str, Sequence[str]], list[str]] = lambda *_: []
    driver: Callable[[Sequence[GpuDevice], Sequence[str]], Judgement] | None = None
    code_in: Callable[[mmap.mmap], DeviceCode] | None = None
    portable: str = ""
    libraries: Sequence[str] = ()

    @property
    def lists(self) -> bool:
        """Whether it lists GPUs: a family without facts lists none."""
        return bool(self.install)


class Found(NamedTuple):
    """The GPUs of a family on a machine, what is wrong with others, and those that no tool lists."""

    gpus: tuple[GpuDevice, ...]
    problems: tuple[str, ...]
    unlisted: tuple[UnlistedGpu, ...]


def found_in(family: str, record: Any) -> Found:
    """What `family` makes of what it recorded of a machine. Without the addresses of its GPUs, none is missing."""
    known = machines_of(family)
    gpus, problems = known.devices(record)
    listed = {bus_place(gpu.address) for gpu in gpus}
    missing = (one for one in known.bus(record) if bus_place(one[0]) not in listed and bus_place("") not in listed)
    return Found(gpus, problems, tuple(UnlistedGpu(family=family, address=at, faults=said) for at, said in missing))


def machines_of(family: str) -> Machines:
    """What `family` knows of machines: nothing for one without such a module."""
    row = family_of(family)
    if row.machines:
        return row.machines()
    return Machines(usable=lambda *_, **__: skipped(f"nothing is known of machines with {row.title}"))


@cache
def known_machines() -> Mapping[str, Machines]:
    """The families that know of machines."""
    return {name: machines_of(name) for name in FAMILIES if family_of(name).machines}
