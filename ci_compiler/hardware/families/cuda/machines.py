"""Machines with NVIDIA's GPUs: what `Machines` asks for."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

from ci_compiler.hardware.families import facts
from ci_compiler.hardware.families.cuda import devices, libcuda, probe
from ci_compiler.hardware.families.machines import Attempt, DeviceCode, Machines
from ci_compiler.judgement import Judgement, failed, ok

_LINK = f"link libcuda and libnvidia-* (and nothing else from /usr/lib) into {libcuda.DRIVER_LINK}"


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """A process with a clean environment finds libcuda, initializes it and uses a GPU."""
    # nixpkgs' glibc does not read the loader's cache.
    counted = (attempt for attempt in tried if attempt.linked or reads_loader_cache)
    found = next((attempt for attempt in counted if attempt.devices), None)
    if found is not None:
        names = ", ".join(f"{device.name} ({device.capability})" for device in found.devices)
        return ok(f"{names} through {found.library}")
    if not tried:
        message = f"libcuda.so.1 is neither in {libcuda.DRIVER_LINK} nor in the loader's cache"
        return failed(
            message, f"{_LINK}, or give the container the driver (CDI) and refresh the loader's cache (`ldconfig`)"
        )
    working = next((attempt for attempt in tried if attempt.devices), None)
    if working is not None:
        return failed(f"{working.library} works, but programs of nixpkgs look only in {libcuda.DRIVER_LINK}", _LINK)
    problems = "; ".join(f"{attempt.library}: {attempt.problem or 'it reports no GPU'}" for attempt in tried)
    return failed(
        problems, "look for NVRM and Xid in the kernel log, and give this user (or container) access to /dev/nvidia*"
    )


def code_in(content: mmap.mmap) -> DeviceCode:
    """The code for NVIDIA's GPUs in a file. The headers of compressed code say its targets, but not its compiler."""
    found = probe.code_in(content)
    return DeviceCode(
        machine=found["cubin"],
        portable=frozenset(f"{one}+ptx" for one in found["ptx"]),
        compilers=frozenset(f"nvcc {version}" for version in found["nvcc"]),
    )


MACHINES = Machines(
    record=devices.gpu_texts,
    devices=devices.gpus,
    bus=devices.on_bus,
    signs=devices.SIGNS,
    **facts("cuda", "words")["machines"],
    attempts=lambda *, deep=False: libcuda.attempts(libcuda.TRIED if deep else 1),
    usable=usable,
    visible=libcuda.VISIBLE,
    probe=str(Path(__file__).with_name("probe.py")),
    link=libcuda.link_driver,
    options=devices.gpu_options,
    code_in=code_in,
)
