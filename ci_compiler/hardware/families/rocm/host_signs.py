"""Faults of AMD's GPUs as the files and the log of the host's kernel show them.

`health.json` has the PCI vendor and classes of the GPUs; files below a GPU's folder in sysfs, with the pattern of a
line that is a fault; a number whose multiples are no count of errors; and the lines of the kernel's log after which a
GPU is sick, and well again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_compiler.hardware.families import facts
from ci_compiler.hardware.texts import text_of


def host_faults(root: Path, log: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each GPU on the PCI bus of the machine below `root`: its address and its faults, one line each.

    `log` is the kernel's.
    """
    table = facts("rocm", "health")
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = text_of(device / "class")
        if text_of(device / "vendor").strip() == table["vendor"] and kind.startswith(tuple(table["classes"])):
            yield device.name, (*_file_faults(table, device), *_log_faults(table["log"], device.name, log))


def _file_faults(table: Mapping[str, Any], device: Path) -> Iterator[str]:
    for row in table["files"]:
        for path in sorted(device.glob(row["path"])):
            matched = re.search(row["pattern"], text_of(path), re.MULTILINE)
            if matched and not _is_false(table, matched[1]):
                yield row["fault"].format(file=path.name, value=matched[1])


def _is_false(table: Mapping[str, Any], value: str) -> bool:
    """Whether `value` is no count of errors: a multiple of the one that some cards report in place of it."""
    return value.isdecimal() and int(value) % table["false-count"] == 0


def _log_faults(row: Mapping[str, str], address: str, log: str) -> Iterator[str]:
    sick = False
    for line in log.splitlines():
        named = re.search(row["address"], line)
        if named and named[1] == address:
            sick = bool(re.search(row["sick"], line)) or (sick and not re.search(row["well"], line))
    if sick:
        yield row["fault"]
