"""The identity and the faults of GPUs, from nvidia-smi and the kernel's log.

Pure: `this_machine` records the texts. What a driver does not report is no fault, because older drivers and consumer
GPUs report little; `GpuDevice.unread` names it. A GPU that does not respond at all is a problem that `recorded.gpus`
finds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ci_compiler.hardware.machine import GpuDevice

HEALTH_QUERY = ("index", "uuid", "pci.bus_id", "ecc.errors.uncorrected.volatile.total")
"""The fields of `nvidia-smi --query-gpu`, in this order."""

REMAPPED_QUERY = ("gpu_uuid", "remapped_rows.pending", "remapped_rows.failure")
"""The fields of `nvidia-smi --query-remapped-rows`, in this order."""

_GPU = re.compile(r"^GPU ([0-9]{1,4}):", re.MULTILINE)
_SLICE = re.compile(r"\(UUID: (MIG-[0-9a-zA-Z/-]+)\)")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,30})\): ([0-9]{1,4})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """The outputs of nvidia-smi for `HEALTH_QUERY`, `REMAPPED_QUERY` and `--list-gpus`, and the kernel's log.

    A text is '' if it could not be read.
    """

    health: str = ""
    remapped: str = ""
    listed: str = ""
    kernel_log: str = ""


SIGNS = ("memory errors", "pending remappings", "the kernel's log")
"""Where faults show."""

NO_STATE = GpuState()
"""The state of a machine whose driver reports nothing."""


@cache
def lasting_xids() -> Mapping[int, str]:
    """The Xid errors after which a GPU stays unusable until it is reset, with their meaning (`xids.json`)."""
    rows = json.loads(Path(__file__).with_name("xids.json").read_bytes())["lasting"]
    return {int(number): meaning for number, meaning in rows.items()}


def with_state(device: GpuDevice, state: GpuState) -> GpuDevice:
    """`device` with its UUID, those of its MIG slices, and its faults."""
    row = next((row for row in _rows(state.health, HEALTH_QUERY) if row[0] == str(device.index)), None)
    if row is None:
        return replace(device, unread=SIGNS)
    _, uuid, address, errors = row
    remapped = next((row for row in _rows(state.remapped, REMAPPED_QUERY) if row[0] == uuid), ("", "", ""))
    faults = (*_memory_faults(errors, *remapped[1:]), *_xid_faults(address, state.kernel_log))
    read = (errors.isdecimal(), remapped[1].lower() in {"yes", "1", "no", "0"}, state.kernel_log)
    unread = tuple(sign for sign, known in zip(SIGNS, read, strict=True) if not known)
    return replace(device, uuid=uuid, slices=_slices(state.listed, device.index), faults=faults, unread=unread)


def _rows(text: str, fields: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.split(","))
        if len(cells) == len(fields):
            yield cells


def _memory_faults(errors: str, pending: str, failure: str) -> Iterator[str]:
    """Source: NVIDIA, "GPU Memory Error Management": a pending remapping takes effect at the next reset."""
    if re.fullmatch(r"[0-9]{1,18}", errors) and int(errors):
        yield f"{int(errors)} uncorrected memory errors since the driver was loaded"
    if pending.lower() in {"yes", "1"}:
        yield "rows of its memory wait to be remapped"
    if failure.lower() in {"yes", "1"}:
        yield "rows of its memory could not be remapped, so it must be replaced"


def _xid_faults(address: str, log: str) -> Iterator[str]:
    known, own = lasting_xids(), _address(address)
    numbers = dict.fromkeys(int(found[2]) for found in _XID.finditer(log) if _address(found[1]) == own)
    yield from (f"Xid {number} since boot ({known[number]})" for number in numbers if number in known)


def _address(text: str) -> tuple[str, ...]:
    """A PCI address without its function: the kernel writes `0000:4e:00`, nvidia-smi `00000000:4E:00.0`."""
    return tuple(part.lstrip("0") for part in text.lower().partition(".")[0].split(":"))


def _slices(listed: str, index: int) -> tuple[str, ...]:
    """The UUIDs of the MIG slices of the GPU `index` in the output of `nvidia-smi --list-gpus`."""
    parts = _GPU.split(listed)
    texts = {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}
    return tuple(_SLICE.findall(texts.get(index, "")))
