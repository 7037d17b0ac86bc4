"""Machines with Vulkan: what `Machines` asks for. It is another interface of GPUs, and so lists none of its own.

Source: vulkaninfo of KhronosGroup/Vulkan-Tools, and VkPhysicalDeviceType of Vulkan's specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.hardware import Version
from ci_compiler.hardware.families.machines import Attempt, Machines, UsedDevice, device_words
from ci_compiler.hardware.texts import answer, plain
from ci_compiler.judgement import Judgement, failed, ok

_DEVICE = re.compile(r"^\s*deviceType\s*= PHYSICAL_DEVICE_TYPE_(\w{1,20})\n\s*deviceName\s*= (.{1,200})$", re.MULTILINE)
_GPUS = ("DISCRETE_GPU", "INTEGRATED_GPU")
_FIX = "install the driver of the GPU with its Vulkan part, give this user /dev/dri/renderD*, and check `vulkaninfo`"


def attempts(*, deep: bool = False) -> Iterator[Attempt]:
    """The devices that vulkaninfo lists; a software renderer, as llvmpipe, and a virtual device are no GPUs."""
    del deep
    said = answer("vulkaninfo", "--summary")
    for kind, name in _DEVICE.findall(said.out) if said else ():
        gpu = (UsedDevice(plain(name), Version(0, 0)),) if kind in _GPUS else ()
        yield Attempt(plain(name), linked=True, devices=gpu, problem=f"{plain(name)} is no GPU, but a device {kind}")
    if said and not _DEVICE.search(said.out):
        yield Attempt("vulkaninfo", linked=True, problem=f"vulkaninfo lists no device: {said.said or said.status}")


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """Vulkan lists a GPU."""
    del reads_loader_cache
    if found := [one.library for one in tried if one.devices]:
        return ok(f"Vulkan lists {' and '.join(found)}")
    return failed("; ".join(one.problem for one in tried) or "there is no vulkaninfo, which lists the GPUs", _FIX)


def options(kind: str, gpus: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The options for all GPUs of the machine, which `gpus` cannot name: their render nodes, and the files' groups."""
    del gpus
    return device_words(kind, sorted((root / "dev/dri").glob("renderD*")), (), root)


MACHINES = Machines(attempts=attempts, usable=usable, options=options)
