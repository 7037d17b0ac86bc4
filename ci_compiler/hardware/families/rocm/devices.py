"""AMD's GPUs: their targets and identity from the kernel's topology, rocminfo and amd-smi; options for containers.

`agent_texts` records the texts, and `agents` is pure: it accepts any text. The kernel's topology counts most: it needs
no ROCm, and HSA_OVERRIDE_GFX_VERSION, a user's work-around, does not change it. Only rocminfo has the features of a
target. Sources: ROCr, libhsakmt/src/topology.c; rocminfo, rocm_agent_enumerator; AMD SMI, "CLI tool usage"; Linux,
"AMDGPU RAS Support"; ROCm, "Running ROCm Docker containers".
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.hardware.families import facts
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.hardware.texts import Answer, answer, plain, text_of
from ci_compiler.outside import json_of

SIGNS = ("uncorrectable errors",)
"""Where faults show: the counters of RAS, which consumer cards and guests do not have."""

_PAGES = "gpu_vram_bad_pages"
_PAGE_FAULTS = [row for row in facts("rocm", "health")["files"] if row["path"].endswith(_PAGES)]

DXG = "dev/dxg"
"""The device of the GPUs in WSL, where the kernel has no topology: rocminfo alone lists them."""

_WSL = "WSL environment detected"
_INSTINCT, _AMD = "0x12", "0x1002"
_FALSE_COUNT: int = facts("rocm", "health")["false-count"]
"""Some Radeon cards report this many errors more at each query: no count of errors."""

_OVERRIDES = ("HSA_OVERRIDE_GFX_VERSION", "ROCM_TARGET_LST", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""The beginnings of variables with which a user gives GPUs another target, or hides them."""

_ISA = re.compile(r"amdgcn-amd-amdhsa--(gfx[0-9a-f]{3,4}(?::sramecc[+-])?(?::xnack[+-])?)(?![0-9a-z:-])")
_MODE = ("memory", "accelerator_type")
_TARGET = re.compile(r"gfx[1-9][0-9a-f]{2,3}")
_FAILED = re.compile(r"unable to open|not loaded|api call failure|status_error", re.IGNORECASE)
_MODULE = re.compile(r"^ROCk module version ([0-9][0-9.]{1,20}) is loaded", re.MULTILINE)
_UNCORRECTABLE = re.compile(r"^(\w{1,20}) ue: ([0-9]{1,12})\b", re.MULTILINE)


class AgentTexts(NamedTuple):
    """What a machine says of its GPUs; '', () or None for what does not exist or cannot be read.

    `nodes` are the properties of the kernel's nodes by their numbers, and `ras` the counters of errors by the number
    of a render node, each line as `umc ue: 0`, with its list of bad pages. `smi` and `partitions` are what `amd-smi`
    prints as JSON for `static --asic --bus` and `partition --current`, `enumerated` what rocm_agent_enumerator prints.
    `module` is the version of the driver, which only AMD's own package has. `accelerators` are PCI addresses of AMD's
    accelerators.
    """

    nodes: tuple[tuple[int, str], ...] = ()
    rocminfo: Answer | None = None
    smi: str = ""
    partitions: str = ""
    enumerated: str = ""
    module: str = ""
    ras: tuple[tuple[int, str], ...] = ()
    accelerators: tuple[str, ...] = ()


def agent_texts(root: Path) -> AgentTexts:
    """What this machine says of its GPUs. No variable of this process changes it."""
    known = tuple(nodes(root))
    accelerators = tuple(_accelerators(root))
    if not known and not accelerators and not (root / DXG).exists():
        return AgentTexts()
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OVERRIDES)}
    smi, partitions, enumerated = (
        found.out if (found := answer(*command, env=env)) else ""
        for command in (
            ("amd-smi", "static", "--asic", "--bus", "--json"),
            ("amd-smi", "partition", "--current", "--json"),
            ("rocm_agent_enumerator",),
        )
    )
    return AgentTexts(
        nodes=known,
        rocminfo=answer("rocminfo", env=env),
        smi=smi,
        partitions=partitions,
        enumerated=enumerated,
        module=text_of(root / "sys/module/amdgpu/version").strip(),
        ras=tuple(_counters(root)),
        accelerators=accelerators,
    )


def nodes(root: Path) -> Iterator[tuple[int, str]]:
    """The nodes of the kernel's topology, CPUs included, and their properties."""
    for path in (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"):
        if path.parent.name.isdecimal():
            yield int(path.parent.name), text_of(path)


def _accelerators(root: Path) -> Iterator[str]:
    """PCI addresses of AMD's accelerators. Display controllers of AMD are in many machines that compute on others."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if text_of(device / "vendor").strip() == _AMD and text_of(device / "class").startswith(_INSTINCT):
            yield device.name


def _counters(root: Path) -> Iterator[tuple[int, str]]:
    for node in sorted((root / "sys/class/drm").glob("renderD*")):
        files = [path for name in ("*_err_count", _PAGES) for path in sorted((node / "device/ras").glob(name))]
        lines = (
            f"{path.name.removesuffix('_err_count')} {line}" for path in files for line in text_of(path).split("\n")
        )
        if files:
            yield int(node.name.removeprefix("renderD")), "\n".join(lines)


def agents(texts: AgentTexts) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs, in the kernel's order, which is also that of HIP; and what is wrong with others.

    A GPU in a partition mode is one GPU per partition: each has a node, and since ROCm 7.0 a UUID, of its own.
    """
    shown, known = _shown(texts), dict(_gpu_nodes(texts))
    devices = [_of_node(texts, number, row, shown.get(number)) for number, row in known.items()]
    if not known:
        devices = [one for _, one in sorted(shown.items())] or _enumerated(texts.enumerated)
    names = _names(texts, [_bus(row) for row in known.values()], devices)
    driver = texts.module or _first(_MODULE, texts)
    uuids = Counter(gpu.uuid for gpu in devices)
    said = texts.rocminfo
    remarks = (f"rocminfo ends with {said.status}: {said.said}",) if said and said.status and _shown(texts) else ()
    gpus = tuple(
        replace(
            one,
            index=index,
            name=name,
            driver=driver,
            uuid=one.uuid if uuids[one.uuid] == 1 else "",
            remarks=remarks,
        )
        for index, (one, name) in enumerate(zip(devices, names, strict=True))
    )
    return gpus, tuple(_problems(texts, gpus))


def target_of(version: int) -> str:
    """The target of a GPU by its number in the kernel's topology: 90010 is gfx90a, 110501 is gfx1151."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _gpu_nodes(texts: AgentTexts) -> Iterator[tuple[int, dict[str, int]]]:
    """The properties of the nodes that are GPUs, by their numbers, in order. The version of a CPU is 0."""
    for number, text in sorted(texts.nodes):
        row = {key: int(value) for key, value in re.findall(r"^(\w+) ([0-9]{1,20})$", text, re.MULTILINE)}
        if _TARGET.fullmatch(target_of(row.get("gfx_target_version", 0))):
            yield number, row


def _of_node(texts: AgentTexts, number: int, row: Mapping[str, int], shown: GpuDevice | None) -> GpuDevice:
    """The GPU of a node. The features of its target are those of rocminfo, if that calls it by the same target."""
    target, identity = target_of(row["gfx_target_version"]), row.get("unique_id", 0)
    same = shown is not None and shown.target.partition(":")[0] == target
    gpu = shown if shown and same else _device(target, shown.name if shown else f"GPU of node {number}")
    counters = dict(texts.ras).get(row.get("drm_render_minor", 0), "")
    counts = {block: int(count) for block, count in _UNCORRECTABLE.findall(counters)}
    faults = [f"{n} uncorrectable errors in {block}" for block, n in counts.items() if n % _FALSE_COUNT]
    faults += [row["fault"] for row in _PAGE_FAULTS if re.search(row["pattern"], counters, re.MULTILINE)]
    uuid = f"GPU-{identity:016x}" if identity else ""
    return replace(gpu, uuid=uuid, faults=tuple(faults), unread=() if counts else SIGNS, address=_bus(row))


def _device(target: str, name: str, uuid: str = "") -> GpuDevice:
    return GpuDevice(index=0, name=name, target=target, family="rocm", uuid=uuid, unread=SIGNS)


def _shown(texts: AgentTexts) -> dict[int, GpuDevice]:
    """The GPUs that rocminfo lists, by the numbers of their nodes; a GPU without a UUID has `GPU-XX`."""
    found: dict[int, GpuDevice] = {}
    for block in re.split(r"^Agent [0-9]+ *$", texts.rocminfo.out if texts.rocminfo else "", flags=re.MULTILINE)[1:]:
        fields = {
            key: plain(text) for key, text in reversed(re.findall(r"^  (\w[\w .]*?): +(.*)$", block, re.MULTILINE))
        }
        isas = (isa for isa in _ISA.findall(block) if isa.partition(":")[0] == fields.get("Name"))
        target = next(isas, fields.get("Name", ""))
        if fields.get("Device Type") == "GPU" and _TARGET.match(target) and fields.get("Node", "").isdecimal():
            uuid = fields.get("Uuid", "")
            own = _device(target, fields.get("Marketing Name", "") or target, "" if uuid.endswith("XX") else uuid)
            found[int(fields["Node"])] = own
    return found


def _enumerated(text: str) -> list[GpuDevice]:
    """The GPUs that rocm_agent_enumerator lists; gfx000 is a CPU."""
    return [_device(line, line) for line in text.split() if _TARGET.fullmatch(line)]


def _names(texts: AgentTexts, buses: Sequence[str], devices: Sequence[GpuDevice]) -> Iterator[str]:
    """The names of the GPUs, with the partition that each one is: several GPUs that share a place on the bus."""
    market = {bus: name for bus, name in _market(texts.smi) if name}
    modes = _modes(texts.partitions)
    seen: Counter[str] = Counter()
    for index, device in enumerate(devices):
        bus = buses[index] if buses else ""
        name, parts = market.get(bus, device.name), buses.count(bus)
        seen[bus] += 1
        mode = modes[min(index, len(modes) - 1)] if modes else ""
        which = f"partition {seen[bus]} of {parts}{f', {mode}' if mode else ''}"
        yield f"{name} ({which})" if bus and parts > 1 else name


def _modes(partitions: str) -> list[str]:
    """The mode of each partition in amd-smi's order. Only the first of each GPU states it."""
    rows = _rows(partitions, "current_partition")
    modes: list[str] = []
    for row in rows:
        stated = " ".join(str(row[key]) for key in _MODE if row.get(key, "N/A") != "N/A")
        modes.append(stated or (modes[-1] if modes else ""))
    return modes


def _bus(row: Mapping[str, int]) -> str:
    """The place of a GPU on the bus, without its function: `0000:c1:00`."""
    place = row.get("location_id", 0)
    return f"{row.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}" if place else ""


def _market(smi: str) -> Iterator[tuple[str, str]]:
    """The places on the bus, and the products there, of amd-smi."""
    for row in _rows(smi, "gpu_data"):
        asic, bus = (part if isinstance(part := row.get(key), dict) else {} for key in ("asic", "bus"))
        name = str(asic.get("market_name", "N/A"))
        yield str(bus.get("bdf", "")).lower().partition(".")[0], "" if name == "N/A" else plain(name)


def _rows(text: str, key: str) -> list[dict[str, Any]]:
    """The rows of amd-smi's JSON: below `key`, or in a bare list before version 26."""
    try:
        found = json_of(text)
    except OSError:
        return []
    rows = found.get(key, ()) if isinstance(found, dict) else found
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _first(pattern: re.Pattern[str], texts: AgentTexts) -> str:
    match = pattern.search(texts.rocminfo.out if texts.rocminfo else "")
    return match[1] if match else ""


def _problems(texts: AgentTexts, gpus: Sequence[GpuDevice]) -> Iterator[str]:
    """What is wrong: rocminfo fails where there are GPUs, or the driver offers none of the accelerators."""
    said = texts.rocminfo
    if said and (gpus or texts.accelerators or _WSL in said.out):
        lines = [plain(line) for line in f"{said.out}\n{said.err}".splitlines()]
        wrong = next((line for line in lines if _FAILED.search(line)), "")
        if wrong or (said.status and not _shown(texts)):
            yield f"rocminfo: {wrong or said.said or f'exited with {said.status}'}"
    if texts.accelerators and not gpus:
        yield f"AMD's accelerators are on the PCI bus ({', '.join(texts.accelerators)}), but the driver offers none"


def device_options(kind: str, gpus: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The options for `gpus` (UUIDs, or `all`): /dev/kfd, their render nodes, and the groups that own these.

    A UUID that no GPU has is given by name: the engine refuses it.
    """
    if not gpus:
        return []
    minors = {f"GPU-{row.get('unique_id', 0):016x}": row["drm_render_minor"] for row in _minors(root)}
    names = [f"renderD{minors[gpu]}" for gpu in gpus if gpu in minors]
    unknown = [f"amd.com/gpu={gpu}" for gpu in gpus if gpu not in {*minors, "all"}]
    if "all" in gpus:
        names = sorted(path.name for path in (root / "dev/dri").glob("renderD*"))
    paths = [root / "dev/kfd", *(root / "dev/dri" / name for name in names)]
    return device_words(kind, paths, unknown, root)


def _minors(root: Path) -> Iterator[dict[str, int]]:
    """The properties of the nodes that have a render node."""
    found = (row for _, row in _gpu_nodes(AgentTexts(nodes=tuple(nodes(root)))))
    return (row for row in found if row.get("drm_render_minor") and row.get("unique_id"))


def device_words(kind: str, paths: Sequence[Path], names: Sequence[str], root: Path) -> list[str]:
    """The options of a container engine for device files below `root`, devices by `names`, and the files' groups.

    Podman without root keeps the groups of its user.
    """
    if kind == "podman" and hasattr(os, "geteuid") and os.geteuid():
        groups = ["keep-groups"]
    else:
        groups = sorted({str(path.stat().st_gid) for path in paths if path.exists()})
    devices = [*(f"/{path.relative_to(root)}" for path in paths), *names]
    return [word for device in devices for word in ("--device", device)] + [
        word for group in groups for word in ("--group-add", group)
    ]


def closed(paths: Iterable[Path], root: Path) -> str:
    """Which device files below `root` this process may not read and write, as a sentence; '' if it may."""
    names = [f"/{path.relative_to(root)}" for path in paths if not os.access(path, os.R_OK | os.W_OK)]
    return f"this user may not read and write {', '.join(names)}" if names else ""
