"""NVIDIA's GPUs: their identity and faults from nvidia-smi, the PCI bus and the kernel's log; options for containers.

`gpu_texts` records the texts, and `gpus` is pure: it accepts any text, since drivers of any age and in any state write
it. What a driver does not report is no fault, because older drivers and consumer GPUs report little; `GpuDevice.unread`
names it. A GPU that does not respond at all is a problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci_compiler.hardware import Version
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.hardware.texts import Answer, answer, kernel_log, plain, printed, text_of

GPU_QUERY = ("index", "name", "compute_cap", "memory.total", "driver_version", "mig.mode.current")
HEALTH_QUERY = ("index", "uuid", "pci.bus_id", "ecc.errors.uncorrected.volatile.total")
"""The fields that nvidia-smi is asked for by `--query-gpu`, of each GPU and in this order."""

REMAPPED_QUERY = ("gpu_uuid", "remapped_rows.pending", "remapped_rows.failure")
"""The fields of `nvidia-smi --query-remapped-rows`, in this order."""

RECOVERY_QUERY = ("index", "gpu_recovery_action")
"""What nvidia-smi is asked for of each GPU by itself: older drivers refuse a query with this field."""

STATE_QUERY = ("index", "mig.mode.current", "mig.mode.pending", "fabric.state", "fabric.status")
"""What nvidia-smi is asked for by itself as well: how the GPU is divided, and its place in an NVLink fabric."""

_FORMAT = "--format=csv,noheader,nounits"
_GPU = re.compile(r"^GPU ([0-9]{1,4}):", re.MULTILINE)
_SLICE = re.compile(r"\(UUID: (MIG-[0-9a-zA-Z/-]+)\)")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,30})\): ([0-9]{1,4})\b")
_LOADED = "NVRM: loading "
"""The driver says this when it is loaded, which ends the state that earlier errors left."""

_ACTION_XID = 154
_ACTION = re.compile(r" to (0x[0-9a-fA-F]{1,4}) \(([A-Za-z0-9 ]{1,40})\)")
"""An Xid 154 says what the driver now needs: `… changed from 0x0 (None) to 0x2 (Node Reboot Required)`."""


class GpuTexts(NamedTuple):
    """What a machine says of its GPUs: nvidia-smi's answer to `GPU_QUERY` (None: there is no nvidia-smi), and faults.

    `controllers` are the PCI addresses of NVIDIA GPUs. `health`, `remapped`, `recovery`, `state` and `listed` are the
    outputs of nvidia-smi for `HEALTH_QUERY`, `REMAPPED_QUERY`, `RECOVERY_QUERY`, `STATE_QUERY` and `--list-gpus`, and
    `kernel_log` is the kernel's; '' if they could not be read.
    """

    smi: Answer | None = None
    controllers: tuple[str, ...] = ()
    health: str = ""
    remapped: str = ""
    listed: str = ""
    kernel_log: str = ""
    recovery: str = ""
    state: str = ""


SIGNS = ("memory errors", "pending remappings", "the kernel's log")
"""Where faults show."""


def gpu_texts(root: Path) -> GpuTexts:
    """What this machine says of its GPUs. The kernel's log is often hidden from users and from containers."""
    smi = answer("nvidia-smi", f"--query-gpu={','.join(GPU_QUERY)}", _FORMAT)
    controllers = tuple(_display_controllers(root))
    if smi is None or smi.status:
        return GpuTexts(smi, controllers)
    return GpuTexts(
        smi=smi,
        controllers=controllers,
        health=printed("nvidia-smi", f"--query-gpu={','.join(HEALTH_QUERY)}", _FORMAT),
        remapped=printed("nvidia-smi", f"--query-remapped-rows={','.join(REMAPPED_QUERY)}", _FORMAT),
        listed=printed("nvidia-smi", "--list-gpus"),
        kernel_log=kernel_log(),
        recovery=printed("nvidia-smi", f"--query-gpu={','.join(RECOVERY_QUERY)}", _FORMAT),
        state=printed("nvidia-smi", f"--query-gpu={','.join(STATE_QUERY)}", _FORMAT),
    )


def _display_controllers(root: Path) -> Iterator[str]:
    """The PCI addresses of the NVIDIA display controllers (vendor 10de, class 03)."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if text_of(device / "vendor").strip() == "0x10de" and text_of(device / "class").startswith("0x03"):
            yield device.name


def gpus(texts: GpuTexts) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs in nvidia-smi's answer, with their state, and what is wrong with the others.

    The exit status proves nothing, since a crashed driver gives 0 as well: a row counts if it has a name and a compute
    capability. If there are GPUs on the bus, and none of them answers, the driver does not work.
    """
    devices: list[GpuDevice] = []
    problems: list[str] = []
    for row in texts.smi.out.splitlines() if texts.smi else ():
        cells = [plain(cell) for cell in row.split(",")]
        device = _device(cells) if len(cells) >= len(GPU_QUERY) else None
        if device is not None:
            devices.append(with_state(device, texts))
        elif cells[:1] and cells[0].isdecimal():
            lacks = "without its name and compute capability"
            problems.append(f"nvidia-smi lists GPU {cells[0]} {lacks}: {', '.join(cells)}")
        elif any(cells):
            problems.append(f"nvidia-smi: {', '.join(cells)}")
    if texts.smi is not None and not devices and not problems:
        problems.append(f"nvidia-smi: {texts.smi.said or f'exited with {texts.smi.status} and listed no GPU'}")
    if texts.controllers and not devices:
        driver = "there is no nvidia-smi" if texts.smi is None else "no driver answers"
        problems.append(f"NVIDIA GPUs are on the PCI bus ({', '.join(texts.controllers)}), but {driver}")
    return tuple(devices), tuple(problems)


def _device(cells: list[str]) -> GpuDevice | None:
    """The GPU of a row, whose name may contain commas; None without a name or a compute capability."""
    index, (capability, memory, driver, mig) = cells[0], cells[-4:]
    name = ", ".join(cells[1:-4])
    known = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,2})", capability)
    if not _has_value(name) or not known or not re.fullmatch(r"[0-9]{1,4}", index):
        return None
    return GpuDevice(
        index=int(index),
        name=name,
        capability=Version(int(known[1]), int(known[2])),
        memory=int(memory) * 2**20 if re.fullmatch(r"[0-9]{1,9}", memory) else 0,
        driver=driver if _has_value(driver) else "",
        sliced=mig == "Enabled",
    )


def _has_value(cell: str) -> bool:
    """Whether a cell has a value, not `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like."""
    return bool(cell) and not cell.startswith("[") and cell != "N/A" and "ERR!" not in cell


@cache
def lasting_xids() -> Mapping[int, str]:
    """The Xid errors after which a GPU stays unusable until it is reset, with their meaning (`xids.json`)."""
    rows = json.loads(Path(__file__).with_name("xids.json").read_bytes())["lasting"]
    return {int(number): meaning for number, meaning in rows.items()}


def with_state(device: GpuDevice, state: GpuTexts) -> GpuDevice:
    """`device` with its UUID, those of its MIG slices, and its faults."""
    row = next((row for row in _rows(state.health, HEALTH_QUERY) if row[0] == str(device.index)), None)
    if row is None:
        return replace(device, unread=SIGNS)
    _, uuid, address, errors = row
    remapped = next((row for row in _rows(state.remapped, REMAPPED_QUERY) if row[0] == uuid), ("", "", ""))
    action = next((row[1] for row in _rows(state.recovery, RECOVERY_QUERY) if row[0] == str(device.index)), "")
    modes = next((row[1:] for row in _rows(state.state, STATE_QUERY) if row[0] == str(device.index)), ("",) * 4)
    found = [
        *_stated_faults(errors, action),
        *_state_faults(*modes),
        *_memory_faults(errors, *remapped[1:]),
        *_xid_faults(address, state.kernel_log),
    ]
    faults = tuple(dict.fromkeys(found))
    read = (errors.isdecimal(), remapped[1].lower() in {"yes", "1", "no", "0"}, state.kernel_log)
    unread = tuple(sign for sign, known in zip(SIGNS, read, strict=True) if not known)
    return replace(device, uuid=uuid, slices=_slices(state.listed, device.index), faults=faults, unread=unread)


def _rows(text: str, fields: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.split(","))
        if len(cells) == len(fields):
            yield cells


def _stated_faults(errors: str, action: str) -> Iterator[str]:
    """What the driver itself says: that the GPU must be reset before it answers, or what is to be done about it.

    Sources: nvidia-smi's `--help-query-gpu`, "gpu_recovery_action"; NVML, nvmlDeviceGpuRecoveryAction_t.
    """
    if "requires reset" in errors.lower() or "unknown error" in errors.lower():
        yield f"nvidia-smi reads no memory errors of it: {errors.strip('[]')}"
    if re.fullmatch(r"[A-Za-z0-9 ]{1,40}", action) and action not in {"None", "N/A"}:
        yield _asked(action)


def _asked(action: str) -> str:
    return f"the driver asks for a recovery: {action}"


def _state_faults(current: str, pending: str, fabric: str, status: str) -> Iterator[str]:
    """Source: nvidia-smi's `--help-query-gpu`; a GPU that its NVLink fabric does not accept runs no CUDA program."""
    modes = {"Enabled", "Disabled"}
    if current != pending and {current, pending} <= modes:
        yield f"its MIG mode is {current}, and {pending} after the next reset"
    if fabric in {"Not Started", "In Progress"}:
        yield f"its NVLink fabric is not ready: {fabric}"
    if fabric == "Completed" and re.fullmatch(r"[A-Za-z0-9 ]{1,60}", status) and status != "Success":
        yield f"its NVLink fabric does not accept it: {status}"


def _memory_faults(errors: str, pending: str, failure: str) -> Iterator[str]:
    """Source: NVIDIA, "GPU Memory Error Management": a pending remapping takes effect at the next reset."""
    if re.fullmatch(r"[0-9]{1,18}", errors) and int(errors):
        yield f"{int(errors)} uncorrected memory errors since the driver was loaded"
    if pending.lower() in {"yes", "1"}:
        yield "rows of its memory wait to be remapped"
    if failure.lower() in {"yes", "1"}:
        yield "rows of its memory could not be remapped, so it must be replaced"


def _xid_faults(address: str, log: str) -> Iterator[str]:
    """The lasting errors of the GPU since it last was well: at the boot, or when the driver was loaded or said so."""
    known, own, action = lasting_xids(), _address(address), ""
    numbers: dict[int, None] = {}
    for line in log.splitlines():
        match = _XID.search(line)
        number = int(match[2]) if match and _address(match[1]) == own else 0
        needs = _ACTION.search(line) if number == _ACTION_XID else None
        if _LOADED in line or (needs and not int(needs[1], 16)):
            numbers, action = {}, ""
        elif needs:
            action = needs[2]
        elif number in known:
            numbers[number] = None
    yield from (f"Xid {number} since boot ({known[number]})" for number in numbers)
    if action:
        yield _asked(action)


def _address(text: str) -> tuple[str, ...]:
    """A PCI address without its function: the kernel writes `0000:4e:00`, nvidia-smi `00000000:4E:00.0`."""
    return tuple(part.lstrip("0") for part in text.lower().partition(".")[0].split(":"))


def _slices(listed: str, index: int) -> tuple[str, ...]:
    """The UUIDs of the MIG slices of the GPU `index` in the output of `nvidia-smi --list-gpus`."""
    parts = _GPU.split(listed)
    texts = {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}
    return tuple(_SLICE.findall(texts.get(index, "")))


def gpu_options(kind: str, gpus: Sequence[str]) -> list[str]:
    """The options for `gpus` (UUIDs, or `all`): CDI for podman (4.1 and later), docker's own option for docker."""
    if not gpus:
        return []
    if kind == "podman":
        return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]
    if gpus == ("all",):
        return ["--gpus", "all"]
    return ["--gpus", f'"device={",".join(gpus)}"']  # docker reads the value as CSV
