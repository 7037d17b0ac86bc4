"""Recorded machines, one folder each: the output of uname, /proc, lscpu and nvidia-smi, cut down to two processors.

`uname` is the machine's name, `nvidia-smi.csv` its answer to the query (with `nvidia-smi.status` where that is not 0),
`pci` the addresses of NVIDIA's display controllers. A file that is missing was not there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_compiler.hardware import tables
from ci_compiler.hardware.families.cuda.devices import GpuTexts
from ci_compiler.hardware.machine import Machine, StorageFolder
from ci_compiler.hardware.texts import Answer
from ci_compiler.runner.detect.recorded import Recorded, machine
from ci_compiler.units import GB

HERE = Path(__file__).parent
NAMES = sorted(folder.name for folder in HERE.iterdir() if (folder / "uname").is_file())

DISK = StorageFolder(
    role="store", path="/nix/store", device="/dev/nvme0n1p2", kind="ext4", size=1000 * GB, free=800 * GB
)
FOLDERS = (
    DISK,
    replace(DISK, role="build", path="/nix/var/nix/builds"),
    replace(DISK, role="work", path="/home/runner/_work"),
)

MEMORY = "MemTotal:       131072000 kB\n"
"""The meminfo of a machine with 128 GiB."""


def recorded(name: str, **changes: Any) -> Recorded:
    """The recording of the machine `name`, with 64 processors and the usual folders and memory."""
    answer = Answer(status=int(_text(name, "nvidia-smi.status") or 0), out=_text(name, "nvidia-smi.csv"))
    found = Recorded(
        machine=_text(name, "uname").strip(),
        cpuinfo=_text(name, "cpuinfo"),
        lscpu=_text(name, "lscpu"),
        meminfo=_text(name, "meminfo") or MEMORY,
        affinity=64,
        folders=FOLDERS,
        gpus={"cuda": GpuTexts(smi=answer if answer.out else None, controllers=tuple(_text(name, "pci").split()))},
    )
    return replace(found, **changes)


def known(name: str, **changes: Any) -> Machine:
    """The machine `name`, with `changes` to what was recorded of it."""
    return machine(recorded(name, **changes), tables())


def _text(name: str, file: str) -> str:
    path = HERE / name / file
    return path.read_text("utf-8") if path.is_file() else ""
