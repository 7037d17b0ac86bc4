"""NVIDIA's GPUs: their identity and faults from nvidia-smi, the PCI bus and the kernel's log; options for containers.

`gpu_texts` records the texts, and `gpus` is pure: it accepts any text, since drivers of any age and in any state write
it. What a driver does not report is no fault, because older drivers and consumer GPUs report little; `GpuDevice.unread`
names it. A GPU that does not respond at all is a problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci_compiler.hardware import Version
from ci_compiler.hardware.machine import GpuDevice, bus_place
from ci_compiler.hardware.texts import Answer, answer, heard, kernel_log, plain, text_of
from ci_compiler.process import PAST_LIMIT

IDENTITY = ("index", "name", "compute_cap", "memory.total", "driver_version", "mig.mode.current")
STATE = ("uuid", "pci.bus_id", "ecc.errors.uncorrected.volatile.total", "mig.mode.pending")
NEWER: tuple[tuple[str, ...], ...] = (
    ("gpu_recovery_action",),
    ("fabric.state", "fabric.status"),
    ("remapped_rows.pending", "remapped_rows.failure"),
)
"""The fields that nvidia-smi is asked for by `--query-gpu`; older drivers refuse a query with one of `NEWER`."""

REMAPPED_QUERY = ("gpu_uuid", "remapped_rows.pending", "remapped_rows.failure")
"""The fields of `nvidia-smi --query-remapped-rows`, which drivers have that refuse them in the other query."""

_REFUSED = re.compile(r'Field "([a-z_.]{1,60})" is not a valid field')
_ADDRESS = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b")
_GPU = re.compile(r"^GPU ([0-9]{1,4}):", re.MULTILINE)
_SLICE = re.compile(r"\(UUID: (MIG-[0-9a-zA-Z/-]+)\)")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,30})\): ([0-9]{1,4})\b")
_LOADED = "NVRM: loading "
"""The driver says this when it is loaded, which ends the state that earlier errors left."""

_ACTION_XID = 154
_ACTION = re.compile(r" to (0x[0-9a-fA-F]{1,4}) \(([A-Za-z0-9 ]{1,40})\)")
"""An Xid 154 says what the driver now needs: `… changed from 0x0 (None) to 0x2 (Node Reboot Required)`."""


class GpuTexts(NamedTuple):
    """What a machine says of its GPUs: nvidia-smi's answer (None: there is no nvidia-smi) of `fields`, and faults.

    `controllers` are the PCI addresses of NVIDIA GPUs. `remapped` and `listed` are the outputs of nvidia-smi for
    `REMAPPED_QUERY` and `--list-gpus`, where these are needed, and `kernel_log` is the kernel's; '' if they could not
    be read.
    """

    smi: Answer | None = None
    controllers: tuple[str, ...] = ()
    fields: tuple[str, ...] = IDENTITY
    remapped: str = ""
    listed: str = ""
    kernel_log: str = ""


SIGNS = ("memory errors", "pending remappings", "the kernel's log")
"""Where faults show."""


def gpu_texts(root: Path) -> GpuTexts:
    """What this machine says of its GPUs. The kernel's log is often hidden from users and from containers.

    Each question can take nine seconds, so there is one, and more only for an older driver, slices or a lost GPU.
    """
    controllers = tuple(_display_controllers(root))
    smi, fields = _answer()
    texts = GpuTexts(smi, controllers, fields, kernel_log=kernel_log() if smi or controllers else "")
    if smi is None or smi.status == PAST_LIMIT:
        return texts
    rows, others = _rows(texts)
    listed = {bus_place(row.get("pci.bus_id", "")) for row in rows}
    lost = [address for address in controllers if bus_place(address) not in listed]
    if lost and (others or not rows):  # one lost GPU can silence nvidia-smi on all others
        with ThreadPoolExecutor() as pool:
            single = pool.map(lambda one: heard("nvidia-smi", f"--id={one}", *_query("gpu", fields)), lost)
            more = [text for text in single if _rows(texts._replace(smi=Answer(0, text)))[0]]
        texts = texts._replace(smi=Answer(smi.status, "\n".join([smi.out, *more]), smi.err))
        rows, _ = _rows(texts)
    return texts._replace(
        remapped="" if {*NEWER[-1]} <= {*fields} else heard("nvidia-smi", *_query("remapped-rows", REMAPPED_QUERY)),
        listed=heard("nvidia-smi", "--list-gpus") if any(row["mig.mode.current"] == "Enabled" for row in rows) else "",
    )


def _answer() -> tuple[Answer | None, tuple[str, ...]]:
    """nvidia-smi's answer, and the fields that this nvidia-smi knows."""
    newer = NEWER
    while True:
        fields = (*IDENTITY, *STATE, *(field for group in newer for field in group))
        smi = answer("nvidia-smi", *_query("gpu", fields))
        refused = _REFUSED.search(f"{smi.out}{smi.err}") if smi else None
        left = tuple(group for group in newer if not refused or refused[1] not in group)
        if left == newer:
            return smi, fields
        newer = left


def _query(kind: str, fields: Sequence[str]) -> Sequence[str]:
    return (f"--query-{kind}={','.join(fields)}", "--format=csv,noheader,nounits")


def _display_controllers(root: Path) -> Iterator[str]:
    """The PCI addresses of the NVIDIA display controllers (vendor 10de, class 03)."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if text_of(device / "vendor").strip() == "0x10de" and text_of(device / "class").startswith("0x03"):
            yield device.name


def gpus(texts: GpuTexts) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs in nvidia-smi's answer, with their state, and what is wrong with the others.

    The exit status proves nothing, since a crashed driver gives 0 and a warning gives 14: a row counts if it has a name
    and a compute capability. Other lines are remarks on GPUs if they warn, name a GPU that is listed, or if none is
    missing. If there are GPUs on the bus, and none of them answers, the driver does not work.
    """
    rows, others = _rows(texts)
    devices = {int(row["index"]): _device(row, texts) for row in rows}
    places = {index: bus_place(gpu.address) for index, gpu in devices.items()}
    complete = bool(texts.controllers) and {*places.values()} >= {*map(bus_place, texts.controllers)}
    problems: list[str] = []
    for line in others:
        named = {*map(bus_place, _ADDRESS.findall(line))}
        about = [index for index, place in places.items() if place in named]
        number, said = re.match(r"[0-9]+(?=,|$)", line), f"nvidia-smi: {line}"
        if number:
            problems.append(f"nvidia-smi lists GPU {number[0]} without its name and compute capability: {line}")
        elif devices and (about or complete or line.lower().startswith("warning")):
            for index in about or devices:
                devices[index] = replace(devices[index], remarks=(*devices[index].remarks, said))
        else:
            problems.append(said)
    if texts.smi is not None and not devices and not problems:
        problems.append(f"nvidia-smi: {texts.smi.said or f'exited with {texts.smi.status} and listed no GPU'}")
    if texts.controllers and not devices:
        driver = "there is no nvidia-smi" if texts.smi is None else "no driver answers"
        problems.append(f"NVIDIA GPUs are on the PCI bus ({', '.join(texts.controllers)}), but {driver}")
    return tuple(devices.values()), tuple(problems)


def on_bus(texts: GpuTexts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The GPUs on the PCI bus, and what the kernel's log says of each."""
    return ((address, tuple(_xid_faults(address, texts.kernel_log))) for address in texts.controllers)


def _rows(texts: GpuTexts) -> tuple[list[dict[str, str]], list[str]]:
    """The rows of GPUs with a name and a compute capability, by field, and the other lines."""
    rows, others = [], []
    for line in dict.fromkeys(map(plain, texts.smi.out.splitlines() if texts.smi else ())):
        cells = [cell.strip() for cell in line.split(",")]
        last = len(cells) - len(texts.fields) + 2  # a name may contain commas
        row = dict(zip(texts.fields, [cells[0], ", ".join(cells[1:last]), *cells[last:]], strict=False))
        known = re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", row.get("compute_cap", ""))
        if last > 1 and known and _has_value(row["name"]) and re.fullmatch(r"[0-9]{1,4}", cells[0]):
            rows.append(row)
        elif line:
            others.append(line)
    return rows, others


def _device(row: Mapping[str, str], texts: GpuTexts) -> GpuDevice:
    """The GPU of a row, with its UUID, those of its MIG slices, and its faults."""
    memory, driver, mig, index = row["memory.total"], row["driver_version"], row["mig.mode.current"], int(row["index"])
    uuid, address = row.get("uuid", ""), row.get("pci.bus_id", "")
    errors, log = row.get("ecc.errors.uncorrected.volatile.total", ""), texts.kernel_log if address else ""
    remapped = [row.get(field, "") for field in NEWER[-1]]
    for line in texts.remapped.splitlines():
        own, *cells = (cell.strip() for cell in line.split(","))
        remapped = cells if own == uuid and len(cells) == len(remapped) else remapped
    found = [
        *_stated_faults(errors, row.get("gpu_recovery_action", "")),
        *_state_faults(mig, *(row.get(field, "") for field in ("mig.mode.pending", "fabric.state", "fabric.status"))),
        *_memory_faults(errors, *remapped),
        *_xid_faults(address, log),
    ]
    read = (errors.isdecimal(), remapped[0].lower() in {"yes", "1", "no", "0"}, log)
    return GpuDevice(
        index=index,
        name=row["name"],
        capability=Version.parse(row["compute_cap"]),
        memory=int(memory) * 2**20 if re.fullmatch(r"[0-9]{1,9}", memory) else 0,
        driver=driver if _has_value(driver) else "",
        sliced=mig == "Enabled",
        uuid=uuid,
        address=address,
        slices=_slices(texts.listed, index),
        faults=tuple(dict.fromkeys(found)),
        unread=tuple(sign for sign, known in zip(SIGNS, read, strict=True) if not known),
    )


def _has_value(cell: str) -> bool:
    """Whether a cell has a value, not `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like."""
    return bool(cell) and not cell.startswith("[") and cell != "N/A" and "ERR!" not in cell


@cache
def lasting_xids() -> Mapping[int, str]:
    """The Xid errors after which a GPU stays unusable until it is reset, with their meaning (`xids.json`)."""
    rows = json.loads(Path(__file__).with_name("xids.json").read_bytes())["lasting"]
    return {int(number): meaning for number, meaning in rows.items()}


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
    known, own, action = lasting_xids(), bus_place(address), ""
    numbers: dict[int, None] = {}
    for line in log.splitlines():
        match = _XID.search(line)
        number = int(match[2]) if match and bus_place(match[1]) == own else 0
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
