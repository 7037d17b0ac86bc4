"""A machine: its hardware and software, and the instruction sets, GPUs and pools that these satisfy.

`runners.detect` makes a `Machine` from a recording, and `products` from the names of a GPU and a CPU. A field that is
not given means that the machine does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ci_compiler.record import record
from ci_compiler.units import GB, gigabytes, size

if TYPE_CHECKING:
    from ci_compiler.hardware import Gpu, Hardware, Version
    from ci_compiler.spec.model import Pool

NOMINAL = 0.95
"""The share of its nominal size that a memory or a disk must have: firmware and file systems reserve the rest.

An ext4 file system has about 98 % of its disk; a machine with 128 GiB of memory reports about 124 GiB.
"""


@record
class GpuDevice:
    """A GPU that responds: its index, name, compute capability, memory in bytes (0: unknown) and driver version.

    `mig`: it is in multi-instance (MIG) mode, in which processes see only its slices, if any are configured. `slices`
    are the UUIDs of these. `faults`: why it must be reset or replaced, one line each. `unread`: the signs
    of faults that could not be read.
    """

    index: int
    name: str
    capability: Version
    memory: int = 0
    driver: str = ""
    mig: bool = False
    uuid: str = ""
    slices: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[str, ...]:
        """The UUIDs of what a job can get of it: its slices in MIG mode, else the GPU itself; '' if unknown."""
        return self.slices if self.mig and self.uuid else (self.uuid,)

    @property
    def sm(self) -> str:
        """Its architecture's name in the tables: `sm90`."""
        return f"sm{self.capability.major}{self.capability.minor}"

    def runs(self, hardware: Hardware, gpu: Gpu) -> bool:
        """Whether it runs a cubin built for `gpu`; False if the tables do not have it."""
        own = hardware.gpus.get(self.sm)
        return own is not None and own.runs_cubin_of(gpu)


@record
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


@record
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


@record
class ContainerRuntime:
    """A container engine; `problem` is the reason why it cannot be used, or ''."""

    name: str
    version: str
    problem: str = ""


@record
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

    def folder(self, role: str) -> StorageFolder | None:
        """The folder with `role`; None if it is unknown."""
        return next((folder for folder in self.folders if folder.role == role), None)

    @property
    def disk(self) -> int:
        """Bytes of the file systems of the store and of builds, each counted once."""
        sizes = {folder.device: folder.size for folder in self.folders if folder.role in {"store", "build"}}
        return sum(sizes.values())


@record
class PoolFit:
    """Whether a machine suits a pool: what is `missing`, one line each; if nothing is, what to take care of."""

    pool: Pool
    missing: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the machine has everything that the pool declares."""
        return not self.missing


# Instruction sets.


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


# Pools.


def fit(hardware: Hardware, machine: Machine, pool: Pool) -> PoolFit:
    """How `machine` suits `pool`."""
    missing = (*lacks(hardware, machine, pool), *_too_small(machine, pool))
    return PoolFit(pool=pool, missing=missing, remarks=() if missing else tuple(_remarks(machine, pool)))


def lacks(hardware: Hardware, machine: Machine, pool: Pool) -> Iterator[str]:
    """The system, instruction sets and GPUs of `pool` that `machine` does not have."""
    if machine.system != pool.system:
        yield f"{pool.system} (this is {machine.system})"
        return
    for isa in pool.cpu:
        if isa not in machine.isas:
            flags = missing_flags(hardware, isa, machine.flags)
            yield f"{isa} (the CPU lacks {', '.join(flags)})" if machine.flags else isa
    if pool.gpu and pool.gpu not in {device.sm for device in machine.gpus}:
        has = ", ".join(dict.fromkeys(device.sm for device in machine.gpus))
        yield f"a GPU of {pool.gpu} ({f'there is {has}' if has else 'no GPU answers'})"
    elif pool.gpu and (count := sum(len(one.units) for one in machine.gpus if one.sm == pool.gpu)) < pool.gpus:
        yield f"{pool.gpus} GPUs of {pool.gpu} (there {'is' if count == 1 else 'are'} {count})"


def _too_small(machine: Machine, pool: Pool) -> Iterator[str]:
    if machine.system != pool.system:
        return
    if machine.cores < pool.cores:
        yield f"{pool.cores} cores (there are {machine.cores})"
    for what, wanted, has_bytes in (("memory", pool.memory, machine.memory), ("disk", pool.disk, machine.disk)):
        if has_bytes < wanted * GB * NOMINAL:
            yield f"{wanted} GB of {what} (there are {size(has_bytes)})"


def _remarks(machine: Machine, pool: Pool) -> Iterator[str]:
    if machine.gpus and not pool.gpu:
        yield "its jobs would keep this machine's GPU from the jobs that need one; give it no label of this pool"
    others = [device for device in machine.gpus if device.sm != pool.gpu]
    if pool.gpu and others:
        own = ",".join(str(device.index) for device in machine.gpus if device.sm == pool.gpu)
        names = ", ".join(f"{device.name} ({device.sm})" for device in others)
        yield f"it also has {names}; give the jobs GPU {own} alone (a container's device, or CUDA_VISIBLE_DEVICES)"
    if pool.gpu and any(device.mig for device in machine.gpus if device.sm == pool.gpu):
        yield "its GPU is in multi-instance (MIG) mode, so a job sees the slice it is given, or nothing"


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
        "nix": _nix_json(machine.nix),
        "flox": machine.flox,
        "engines": [
            {"name": engine.name, "version": engine.version, "usable": not engine.problem, "problem": engine.problem}
            for engine in machine.engines
        ],
        "problems": list(machine.problems),
    }


def fit_as_json(one: PoolFit) -> dict[str, Any]:
    """How a machine suits a pool, as JSON, with the labels of the pool's runners."""
    runs_on = one.pool.runs_on
    return {
        "pool": one.pool.name,
        "fits": one.fits,
        "labels": list(runs_on.labels),
        "group": runs_on.group,
        "scale-set": runs_on.scale_set,
        "missing": list(one.missing),
        "remarks": list(one.remarks),
    }


def _folder_json(folder: StorageFolder) -> dict[str, Any]:
    sizes = {"size": gigabytes(folder.size), "free": gigabytes(folder.free)}
    return {"path": folder.path, "device": folder.device, "kind": folder.kind} | sizes


def _gpu_json(device: GpuDevice) -> dict[str, Any]:
    return asdict(device) | {"sm": device.sm, "capability": str(device.capability), "memory": gigabytes(device.memory)}


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
