"""Macs: what `Machines` asks for. No Mac has run it: tests have recorded ones.

A GPU is what macOS lists with Metal. The device of a virtual machine is none: it has an old family of Metal, and jobs
of GitHub's machines saw wrong results on it. Sources: the rows of `names.json`; JuliaGPU/Metal.jl issue 309,
ggml-org/llama.cpp pull request 6628, GitHub's limits of arm64 macOS runners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.hardware import Version
from ci_compiler.hardware.families import facts
from ci_compiler.hardware.families.machines import Attempt, Machines, UsedDevice
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.hardware.texts import heard, plain
from ci_compiler.judgement import Judgement, failed, ok, skipped
from ci_compiler.outside import object_of

_VIRTUAL = facts("metal", "words")["virtual"]
"""What the name of a virtual machine's device has in it."""


def record(root: Path) -> str:
    """What macOS says of the displays and their GPUs, as JSON; '' elsewhere."""
    del root
    return heard("system_profiler", "SPDisplaysDataType", "-json")


def devices(text: str) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs with Metal that are no virtual ones."""
    names = [name for name in _named(text) if _VIRTUAL not in name]
    return tuple(
        GpuDevice(index=index, name=name, capability=Version(0, 0), target="metal", family="metal")
        for index, name in enumerate(names)
    ), ()


def _named(text: str) -> Iterator[str]:
    """The names of the GPUs that macOS lists, each with what it has of Metal and the number of its cores."""
    try:
        rows = object_of(text).get("SPDisplaysDataType")
    except OSError:
        return
    for row in rows if isinstance(rows, list) else ():
        said = {key: plain(str(value)) for key, value in row.items()} if isinstance(row, dict) else {}
        has = said.get("spdisplays_mtlgpufamilysupport") or said.get("spdisplays_metal", "")
        if name := (said.get("sppci_model") if has or _VIRTUAL in said.get("sppci_model", "") else ""):
            yield f"{name}, {said['sppci_cores']} cores" if "sppci_cores" in said else name


def attempts(*, deep: bool = False) -> Iterator[Attempt]:
    """What macOS lists; nothing is computed, which the smoke test does."""
    del deep
    for name in _named(record(Path("/"))):
        virtual = f"{name} is the device of a virtual machine, which proves nothing about Metal"
        used = (UsedDevice(name, Version(0, 0)),)
        yield Attempt(name, linked=True, devices=() if _VIRTUAL in name else used, problem=virtual)


def usable(tried: Sequence[Attempt], *, reads_loader_cache: bool) -> Judgement:
    """MacOS lists a GPU with Metal."""
    del reads_loader_cache
    if found := [one.library for one in tried if one.devices]:
        return ok(f"macOS lists {' and '.join(found)}; only a smoke test computes on it")
    return failed(next((one.problem for one in tried), MACHINES.missing), MACHINES.install)


def driver(gpus: Sequence[GpuDevice], toolkits: Sequence[str]) -> Judgement:
    """The driver is part of macOS."""
    del gpus, toolkits
    return skipped("the driver of Metal is part of macOS")


MACHINES = Machines(
    record=record,
    devices=devices,
    **facts("metal", "words")["machines"],
    attempts=attempts,
    usable=usable,
    driver=driver,
    probe=str(Path(__file__).with_name("probe.py")),
)
