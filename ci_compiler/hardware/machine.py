"""A machine: its hardware and software, and the instruction sets, GPUs and pools that these satisfy.

`runners.detect` makes a `Machine` from a recording, and `products` from the names of a GPU and a CPU. A field that is
not given means that the machine does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ci_compiler.hardware import NO_VERSION, Version
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.units import gigabytes

if TYPE_CHECKING:
    from ci_compiler.hardware import Gpu, Hardware

NOMINAL = 0.95
"""The share of its nominal size that a memory or a disk must have: firmware and file systems reserve the rest.

An ext4 file system has about 98 % of its disk; a machine with 128 GiB of memory reports about 124 GiB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A GPU that responds: its index, name, compute capability, memory in bytes (0: unknown) and driver version.

    `sliced`: processes see only its slices, if any are configured. `slices` are the UUIDs of these. `faults`: why it
    must be reset or replaced, one line each. `unread`: the signs of faults that could not be read. `remarks`: what else
    its tool says of it. `target`: the name of a GPU that has no compute capability. `address`: that on the PCI bus.
    """

    index: int
    name: str
    capability: Version = NO_VERSION
    memory: int = 0
    driver: str = ""
    sliced: bool = False
    uuid: str = ""
    slices: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    target: str = ""
    family: str = DEFAULT
    address: str = ""

    @property
    def units(self) -> tuple[str, ...]:
        """The UUIDs of what a job can get of it: its slices if it is sliced, else the GPU itself; '' if unknown."""
        return self.slices if self.sliced and self.uuid else (self.uuid,)

    @property
    def sm(self) -> str:
        """Its architecture's name in the tables."""
        family = family_of(self.family)
        return family.named(self.target) if self.target else family.target_of(*self.capability)

    def runs(self, hardware: Hardware, gpu: Gpu) -> bool:
        """Whether it runs code built for `gpu`; False if the tables do not have it, nor its target."""
        own = hardware.gpus.get(self.sm)
        if self.target:
            own = replace(gpu, name=self.target, family=self.family)
        return own is not None and own.runs_code_of(gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedGpu:
    """A GPU on the PCI bus that no tool lists: lost, without a driver, or of another container or guest.

    `faults` are what the kernel's log says of it.
    """

    family: str
    address: str
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.address} is on the PCI bus, and {family_of(self.family).tool} does not list it"


def bus_place(address: str) -> tuple[str, ...]:
    """A PCI address without its function: the kernel writes `0000:4e:00`, nvidia-smi `00000000:4E:00.0`."""
    return tuple(part.lstrip("0") for part in address.lower().partition(".")[0].split(":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFolder:
    """A folder that jobs need, and its file system: `device` identifies the file system, sizes are in bytes.

    `role` is "store" (Nix's), "build" (where Nix unpacks and compiles) or "work" (where jobs check out).
    """

    role: str
    path: str
    device: str
    kind: str
    size: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NixInstallation:
    """Nix and its effective settings; `source` is where the settings were read.

    `sandboxed`: whether a trial build ran in a sandbox; None if there was no trial build, for the reason in `problem`.
    """

    version: str
    sandbox: str
    features: tuple[str, ...]
    max_jobs: int
    cores: int
    source: str
    sandboxed: bool | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuntime:
    """A container engine; `problem` is the reason why it cannot be used, or ''."""

    name: str
    version: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine. `isas` follow from `flags`, in the tables' order; `memory` is in bytes; `cores` counts usable ones.

    `flox` is its version ('' if it is not installed). `problems` are the errors during detection, one line each.
    """

    system: str
    isas: tuple[str, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()
    os: str = ""
    kernel: str = ""
    cpu: str = ""
    virtual: str = ""
    flags: frozenset[str] = frozenset()
    cores: int = 0
    memory: int = 0
    folders: tuple[StorageFolder, ...] = ()
    nix: NixInstallation | None = None
    flox: str = ""
    engines: tuple[ContainerRuntime, ...] = ()
    problems: tuple[str, ...] = ()
    unlisted: tuple[UnlistedGpu, ...] = ()

    def folder(self, role: str) -> StorageFolder | None:
        """The folder with `role`; None if it is unknown."""
        return next((folder for folder in self.folders if folder.role == role), None)

    @property
    def disk(self) -> int:
        """Bytes of the file systems of the store and of builds, each counted once."""
        sizes = {folder.device: folder.size for folder in self.folders if folder.role in {"store", "build"}}
        return sum(sizes.values())


def missing_flags(hardware: Hardware, isa: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The /proc/cpuinfo flags of `isa`, and of all that it includes, that are not in `flags`.

    Raises UnknownHardwareError.
    """
    has = frozenset(flags)
    needed = [flag for name in hardware.isas if name in hardware.runs([isa]) for flag in hardware.isa(name).cpuinfo]
    return tuple(flag for flag in dict.fromkeys(needed) if flag not in has)


def isas_of(hardware: Hardware, system: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The instruction sets that a CPU with `flags` has on `system`, in the tables' order."""
    has = frozenset(flags)
    known = (isa for isa in hardware.isas.values() if isa.system == system)
    return tuple(isa.name for isa in known if not missing_flags(hardware, isa.name, has))


# For people and pipes.


def as_json(machine: Machine) -> dict[str, Any]:
    """`machine` as JSON: sizes in GB, capabilities such as `9.0`, flags sorted."""
    return {
        "system": machine.system,
        "os": machine.os,
        "kernel": machine.kernel,
        "cpu": {
            "model": machine.cpu,
            "virtual": machine.virtual,
            "cores": machine.cores,
            "isas": list(machine.isas),
            "flags": sorted(machine.flags),
        },
        "memory": gigabytes(machine.memory),
        "folders": {folder.role: _folder_json(folder) for folder in machine.folders},
        "gpus": [_gpu_json(device) for device in machine.gpus],
        "unlisted": [asdict(one) for one in machine.unlisted],
        "nix": _nix_json(machine.nix),
        "flox": machine.flox,
        "engines": [
            {"name": engine.name, "version": engine.version, "usable": not engine.problem, "problem": engine.problem}
            for engine in machine.engines
        ],
        "problems": list(machine.problems),
    }


def _folder_json(folder: StorageFolder) -> dict[str, Any]:
    sizes = {"size": gigabytes(folder.size), "free": gigabytes(folder.free)}
    return {"path": folder.path, "device": folder.device, "kind": folder.kind} | sizes


def _gpu_json(device: GpuDevice) -> dict[str, Any]:
    own = {"sm": device.sm, "capability": str(device.capability), "memory": gigabytes(device.memory)}
    fields = asdict(device)
    return {key: value for key, value in fields.items() if device.target or key not in {"target", "family"}} | own


def _nix_json(nix: NixInstallation | None) -> dict[str, Any] | None:
    if nix is None:
        return None
    return {
        "version": nix.version,
        "sandbox": nix.sandbox,
        "sandboxed": nix.sandboxed,
        "system-features": list(nix.features),
        "max-jobs": nix.max_jobs,
        "cores": nix.cores,
        "source": nix.source,
        "problem": nix.problem,
    }
