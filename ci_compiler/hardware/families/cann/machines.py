"""Machines with Huawei's NPUs: what `Machines` asks for. No such machine has run it: tests have recorded ones.

The PCI bus has the series of a chip without any driver; npu-smi, which comes with the driver, has the chips, by names
that are ambiguous. The device files are taken to be in the order of npu-smi's table. Sources: those of the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.hardware import Version
from ci_compiler.hardware.families import facts
from ci_compiler.hardware.families.cann.series import WORDS, series_of_chip
from ci_compiler.hardware.families.machines import (
    Attempt,
    Machines,
    UsedDevice,
    closed,
    device_words,
    each_has_one,
    unknown_driver,
)
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.hardware.texts import Answer, answer, text_of
from ci_compiler.judgement import Judgement

SIGNS = ("the health that npu-smi states",)
"""Where faults show."""

_IDS = {one: series for series, some in facts("cann", "names")["products"].items() for one in some}
_NODE = re.compile(r"davinci[0-9]{1,3}")
_SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""The device files that each process needs beside those of its NPUs; not all series have all of them."""

_FOLDERS = ("usr/local/Ascend/driver", "usr/local/dcmi", "usr/local/bin/npu-smi", "etc/ascend_install.info")
"""What a container gets of its host beside device files: images have no driver."""

_VERSION = re.compile(r"^\| npu-smi \S+ +Version: (\S{1,30})", re.MULTILINE)
_CHIP = re.compile(
    r"^\| *[0-9]{1,4} +(?:Ascend)?(?P<name>[\w-]{1,30}) *\| *(?P<health>\w{1,20}) *\|.*\n"
    r"\| *[0-9]{1,4} +(?:[0-9]{1,4} +)?\| *(?P<bus>[0-9A-Fa-f:.]{7,16}|NA) *\|(?P<memory>.*)\|",
    re.MULTILINE,
)
"""The two lines of a chip in npu-smi's table."""


class NpuTexts(NamedTuple):
    """What a machine says of its NPUs: PCI addresses and ids, the answer of `npu-smi info`, and device files."""

    bus: tuple[tuple[str, str], ...] = ()
    smi: Answer | None = None
    nodes: tuple[str, ...] = ()


def texts(root: Path) -> NpuTexts:
    """What this machine says of its NPUs; npu-smi is asked only where there is a sign of one."""
    bus = (
        (path.name, ":".join(text_of(path / key).strip()[2:] for key in ("vendor", "device")))
        for path in sorted((root / "sys/bus/pci/devices").glob("*"))
    )
    found = tuple(row for row in bus if row[1] in _IDS)
    files = (path.name for path in (root / "dev").glob("davinci*") if _NODE.fullmatch(path.name))
    nodes = tuple(sorted(files, key=lambda name: (len(name), name)))
    return NpuTexts(bus=found, nodes=nodes, smi=answer("npu-smi", "info") if found or nodes else None)


def devices(said: NpuTexts) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The chips that npu-smi lists, or else the NPUs on the PCI bus; and that the driver offers none of these."""
    found = list(_chips(said)) or [_device(f"Huawei NPU {number}", _IDS[number]) for _, number in said.bus]
    nodes = said.nodes if len(said.nodes) == len(found) else ("",) * len(found)
    gpus = (replace(gpu, index=index, uuid=nodes[index]) for index, gpu in enumerate(found))
    none = said.bus and not said.nodes and not any(_chips(said))
    problem = f"Huawei's NPUs are on the PCI bus ({', '.join(row[0] for row in said.bus)}), but the driver offers none"
    return ((), (problem,)) if none else (tuple(gpus), ())


def _chips(said: NpuTexts) -> Iterator[GpuDevice]:
    """The chips of npu-smi's table: of the series that the bus tells, where it tells one."""
    ids, text = dict(said.bus), said.smi.out if said.smi else ""
    version = _VERSION.search(text)
    for chip in _CHIP.finditer(text):
        series = _IDS.get(ids.get(chip["bus"].lower(), "")) or series_of_chip(chip["name"])
        sizes, health = re.findall(r"/ *([0-9]{1,7})", chip["memory"]), chip["health"]
        yield replace(
            _device(f"Ascend {chip['name']}", series),
            memory=int(sizes[-1]) << 20 if sizes else 0,
            driver=version[1] if version else "",
            address=chip["bus"].lower(),
            faults=() if health == "OK" else (f"npu-smi states the health {health}",),
            unread=(),
        )


def _device(name: str, series: str) -> GpuDevice:
    return GpuDevice(index=0, name=name, capability=Version(0, 0), target=series, family="cann", unread=SIGNS)


def attempts(*, deep: bool = False, root: Path = Path("/")) -> Iterator[Attempt]:
    """Whether this process may use the device files, and whether npu-smi, where it is, lists NPUs."""
    del deep
    said = texts(root)
    used = tuple(UsedDevice(gpu.name, gpu.capability) for gpu in devices(said)[0] if said.nodes)
    problem = closed(_files(root, said.nodes), root)
    yield Attempt("/dev/davinci*", linked=True, devices=() if problem else used, problem=problem)
    if said.smi:
        listed = tuple(UsedDevice(gpu.name, gpu.capability) for gpu in _chips(said))
        why = "" if listed else f"npu-smi lists no NPU: {said.smi.said or f'it ended with {said.smi.status}'}"
        yield Attempt("npu-smi", linked=True, devices=listed, problem=why)


def _files(root: Path, nodes: Sequence[str]) -> list[Path]:
    """The device files that a process with the NPUs `nodes` needs, as far as they exist."""
    return [path for name in (*nodes, *_SHARED) if (path := root / "dev" / name).exists()]


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """A process may use the device files of the NPUs; and, where npu-smi is installed, it lists them."""
    del reads_loader_cache
    return each_has_one(tried, WORDS["machines"])


def options(kind: str, gpus: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The options for `gpus` (device files, or `all`): these files, those that NPUs share, and the host's driver."""
    if not gpus:
        return []
    known = texts(root).nodes
    unknown = [f"huawei.com/npu={gpu}" for gpu in gpus if gpu not in {*known, "all"}]
    files = _files(root, known if "all" in gpus else [gpu for gpu in gpus if gpu in known])
    mounts = [f"--volume=/{folder}:/{folder}:ro" for folder in _FOLDERS if (root / folder).exists()]
    return [*device_words(kind, files, unknown, root), *mounts]


MACHINES = Machines(
    record=texts,
    devices=devices,
    bus=lambda said: ((address, ()) for address, _ in said.bus),
    signs=SIGNS,
    **WORDS["machines"],
    attempts=attempts,
    usable=usable,
    driver=unknown_driver,
    visible=("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", *WORDS["variables"]),
    probe=str(Path(__file__).with_name("probe.py")),
    options=options,
)
