"""Machines with AMD's GPUs: what `Machines` asks for. No machine of AMD's has run it: tests have recorded ones."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.hardware.families import facts
from ci_compiler.hardware.families.machines import Attempt, DeviceCode, Machines, UsedDevice
from ci_compiler.hardware.families.rocm import EVERY, devices, left_out_of, listed, probe
from ci_compiler.hardware.families.rocm.host_signs import host_faults
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.judgement import Judgement, failed, ok, skipped

KFD = "dev/kfd"
"""The device through which all programs of ROCm reach the GPUs."""


def attempts(*, deep: bool = False, root: Path = Path("/")) -> Iterator[Attempt]:
    """Whether this process may read and write /dev/kfd and a render node, or WSL's device; no kernel is run.

    `deep` adds nothing.
    """
    del deep
    device = next((one for one in (KFD, devices.DXG) if (root / one).exists()), "")
    if not device:
        return
    kernel = devices.AgentTexts(nodes=tuple(devices.nodes(root)))
    gpus = devices.agents(kernel if device == KFD else devices.agent_texts(root))[0]
    problem = devices.closed([root / device, *sorted((root / "dev/dri").glob("renderD*"))], root)
    usable = () if problem else tuple(UsedDevice(gpu.target) for gpu in gpus)
    yield Attempt(f"/{device}", linked=True, devices=usable, problem=problem)


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """A process may use the devices of a GPU; the loader's cache plays no part."""
    del reads_loader_cache
    fix = "give this user the groups of /dev/kfd and /dev/dri/renderD*, or give the container these devices and groups"
    if not tried:
        return failed(f"there is no /{KFD}", fix)
    attempt = tried[0]
    if not attempt.devices:
        return failed(attempt.problem or f"{attempt.library} offers no GPU", fix)
    return ok(f"{', '.join(device.name for device in attempt.devices)} through {attempt.library}")


def driver(gpus: Sequence[GpuDevice], toolkits: Sequence[str]) -> Judgement:
    """Whether AMD's matrix lists the driver of `gpus` for each of `toolkits`; not judged where its release is unknown.

    AMD's package of the driver has a release (6.4; since ROCm 7.0 its own, 30.10), its module has another version.
    """
    table = facts("rocm", "toolkits")
    module = gpus[0].driver
    if not module:
        return skipped("the kernel's own driver, of which AMD has no list")
    release = table["modules"].get(module, "")
    if not release:
        return skipped(f"driver {module}: nothing is known of its release")
    known = {toolkit: table["toolkits"].get(_series(toolkit), {}).get("drivers", ()) for toolkit in toolkits}
    for toolkit, releases in known.items():
        if releases and release not in releases:
            message = f"driver {module} is that of {release}, and ROCm {toolkit} is listed with {', '.join(releases)}"
            return failed(message, f"install driver {releases[0]}")
    if unlisted := [toolkit for toolkit, releases in known.items() if not releases]:
        return skipped(f"driver {module} ({release}): nothing is known of ROCm {', '.join(unlisted)}")
    outside = [f"{gpu.sm} for ROCm {one}" for gpu in gpus for one in toolkits if not listed(gpu.target, one)]
    remark = f"; AMD's matrix does not list {', '.join(dict.fromkeys(outside))}" if outside else ""
    for target in dict.fromkeys(gpu.sm for gpu in gpus):
        if libraries := left_out_of(target):
            remark += f"; AMD builds {', '.join(libraries)} without code for {target}"
    return ok(f"driver {module} ({release}) is listed for ROCm {', '.join(toolkits)}{remark}")


def code_in(content: mmap.mmap) -> DeviceCode:
    """The code for AMD's GPUs in a file."""
    found = frozenset(probe.targets_of(content))
    return DeviceCode(found - {EVERY}, found & {EVERY}, unread=probe.has_unread(content))


def _series(toolkit: str) -> str:
    """The series of a release of the toolkit, by which AMD lists drivers: 7.2 of 7.2.4."""
    return ".".join(toolkit.split(".")[:2])


MACHINES = Machines(
    record=devices.agent_texts,
    devices=devices.agents,
    bus=lambda texts: ((address, ()) for address in texts.accelerators),
    signs=devices.SIGNS,
    host=host_faults,
    **facts("rocm", "words")["machines"],
    attempts=attempts,
    usable=usable,
    driver=driver,
    visible=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    probe=str(Path(__file__).with_name("probe.py")),
    options=devices.device_options,
    code_in=code_in,
)
