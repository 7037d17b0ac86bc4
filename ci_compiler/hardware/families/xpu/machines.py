"""Machines with Intel's GPUs: what `Machines` asks for. No machine of Intel's has run it: tests have recorded ones.

The kernel names the driver, the PCI id and the address of each GPU; `names.json` has the target of an id. The order of
the GPUs is that of their render nodes, which is not always that of Level Zero. Sources: Linux, drivers/pci/pci-driver.c
(uevent) and drivers/gpu/drm/xe; intel/llvm, sycl-ls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci_compiler.hardware import Version
from ci_compiler.hardware.families import facts
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
from ci_compiler.hardware.texts import answer, plain, text_of
from ci_compiler.judgement import Judgement

_ID = re.compile(r"0x[0-9A-F]{4}")
_FIELD = re.compile(r"^(DRIVER|PCI_ID|PCI_SLOT_NAME)=([0-9A-Za-z:._-]{1,40})$", re.MULTILINE)
_ONLY_NEW = "xe"
"""The driver that by itself takes new GPUs only. One of an unknown id that has i915 may be too old for any target."""

_WORDS = facts("xpu", "words")["machines"]

_CHOOSING = ("ONEAPI_", "ZE_", "SYCL_")
"""The beginnings of variables with which a user hides GPUs."""


class Product(NamedTuple):
    """What the table has for a PCI id."""

    target: str
    name: str


@cache
def products() -> Mapping[str, Product]:
    """The products by their PCI ids: an id follows the name of its product, or has none."""
    found: dict[str, Product] = {}
    for target, entries in facts("xpu", "names")["products"].items():
        name = ""
        for entry in entries:
            if _ID.fullmatch(entry):
                found[entry] = Product(target, f"Intel {name}" if name else f"Intel Graphics [{entry.lower()}]")
            else:
                name = entry
    return found


def nodes(root: Path) -> tuple[tuple[str, str], ...]:
    """The render nodes of a machine, and what the kernel says of the device of each."""
    paths = sorted((root / "sys/class/drm").glob("renderD*"), key=lambda path: (len(path.name), path.name))
    return tuple((path.name, text_of(path / "device/uevent")) for path in paths)


def devices(texts: Sequence[tuple[str, str]]) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs among the devices of render nodes."""
    return tuple(gpu for _, gpu in _gpus(texts)), ()


def _gpus(texts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, GpuDevice]]:
    """The render nodes of Intel's GPUs, each with its GPU. Its identity is its address."""
    count = 0
    for node, text in texts:
        row = dict(_FIELD.findall(text))
        vendor, _, number = row.get("PCI_ID", "").partition(":")
        product = products().get(f"0x{number.upper()}")
        if vendor == "8086" and (product or row.get("DRIVER") == _ONLY_NEW):
            target, name = product or ("xpu", f"Intel GPU 8086:{number.lower()}, whose target is not known")
            address = row.get("PCI_SLOT_NAME", "").replace(":", "-")
            yield (
                node,
                GpuDevice(
                    index=count,
                    name=name,
                    capability=Version(0, 0),
                    driver=row.get("DRIVER", ""),
                    uuid=f"pci-{address}" if address else "",
                    address=row.get("PCI_SLOT_NAME", ""),
                    target=target,
                    family="xpu",
                ),
            )
            count += 1


def attempts(*, deep: bool = False, root: Path = Path("/")) -> Iterator[Attempt]:
    """Whether this process may use the render nodes, and whether sycl-ls, where it is, lists GPUs of Level Zero."""
    del deep
    found = list(_gpus(nodes(root)))
    problem = closed((root / "dev/dri" / node for node, _ in found), root)
    used = tuple(UsedDevice(gpu.target, gpu.capability) for _, gpu in found)
    yield Attempt("/dev/dri", linked=True, devices=() if problem else used, problem=problem)
    said = answer("sycl-ls", env={name: value for name, value in os.environ.items() if not name.startswith(_CHOOSING)})
    if said and found:
        listed = [UsedDevice(plain(line), Version(0, 0)) for line in said.out.splitlines() if "level_zero:gpu" in line]
        why = "" if listed else f"sycl-ls lists no GPU of Level Zero: {said.said or f'it ended with {said.status}'}"
        yield Attempt("sycl-ls", linked=True, devices=tuple(listed), problem=why)


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """A process may use the render node of each GPU; and, where sycl-ls is installed, Level Zero has one."""
    del reads_loader_cache
    return each_has_one(tried, _WORDS)


def options(kind: str, gpus: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The options for `gpus` (their identities, or `all`): their render nodes, and the groups that own these."""
    own = {gpu.uuid: node for node, gpu in _gpus(nodes(root))}
    names = own.values() if "all" in gpus else [own[gpu] for gpu in gpus if gpu in own]
    unknown = [f"intel.com/gpu={gpu}" for gpu in gpus if gpu not in {*own, "all"}]
    return device_words(kind, [root / "dev/dri" / name for name in names], unknown, root) if gpus else []


MACHINES = Machines(
    record=nodes,
    devices=devices,
    **_WORDS,
    attempts=attempts,
    usable=usable,
    driver=unknown_driver,
    visible=("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
    probe=str(Path(__file__).with_name("probe.py")),
    options=options,
)
