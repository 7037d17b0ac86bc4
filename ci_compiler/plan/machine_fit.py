"""How a machine suits a pool: what the pool declares and the machine does not have, and what to take care of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ci_compiler.hardware import Hardware
from ci_compiler.hardware.families import family_of
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.hardware.machine import NOMINAL, Machine, missing_flags
from ci_compiler.spec.model import Pool
from ci_compiler.units import GB, counted, size


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFit:
    """Whether a machine suits a pool: what is `missing`, one line each; if nothing is, what to take care of."""

    pool: Pool
    missing: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the machine has everything that the pool declares."""
        return not self.missing


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
    row = hardware.gpus.get(pool.gpu)
    if row and not machines_of(row.family).lists:
        return  # nothing lists the GPUs of this family; the doctor tries them
    if pool.gpu and pool.gpu not in {device.sm for device in machine.gpus}:
        has = ", ".join(dict.fromkeys(device.sm for device in machine.gpus))
        yield f"a GPU of {pool.gpu} ({f'there is {has}' if has else 'no GPU answers'})"
    elif pool.gpu and (count := sum(len(gpu.units) for gpu in machine.gpus if gpu.sm == pool.gpu)) < pool.gpus:
        yield f"{counted(pool.gpus, 'GPU')} of {pool.gpu} (there {'is' if count == 1 else 'are'} {count})"


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
    own = ",".join(str(device.index) for device in machine.gpus if device.sm == pool.gpu)
    if own and others:
        names = ", ".join(f"{device.name} ({device.sm})" for device in others)
        how = f"a container's device, or {family_of(others[0].family).visible}"
        yield f"it also has {names}; give the jobs GPU {own} alone ({how})"
    for slices in {family_of(gpu.family).slices for gpu in machine.gpus if gpu.sliced and gpu.sm == pool.gpu}:
        yield f"its GPU is in multi-instance ({slices}) mode, so a job sees the slice it is given, or nothing"


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
