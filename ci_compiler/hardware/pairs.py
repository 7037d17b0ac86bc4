"""Which toolkits build for a GPU, and which hosts have it."""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.codes import Code
from ci_compiler.hardware import Gpu, Toolkit, tables
from ci_compiler.hardware.families import family_of

HARDWARE_CODES = (Code.GPU_NEEDS_NEWER_CUDA, Code.GPU_DROPPED_BY_CUDA, Code.GPU_HOST)
"""The codes of `hardware_problems`."""


def hardware_problems(gpu: Gpu, toolkit: Toolkit, system: str) -> Iterator[tuple[Code, str]]:
    """Why no variant for `gpu` can exist with `toolkit` on `system`."""
    kit, version = family_of(gpu.family).toolkit, toolkit.version
    if version < gpu.first_toolkit:
        reason = f"{gpu.name} needs {kit} {gpu.first_toolkit} or newer, and the branch has {version}"
        yield Code.GPU_NEEDS_NEWER_CUDA, reason
    if gpu.last_toolkit is not None and version > gpu.last_toolkit:
        reason = f"{kit} {gpu.last_toolkit} was the last to know {gpu.name}, and the branch has {version}"
        yield Code.GPU_DROPPED_BY_CUDA, reason
    if system not in gpu.systems and system in tables().systems:
        hosts = " and ".join(gpu.systems)
        yield Code.GPU_HOST, f"{gpu.name} ({gpu.summary}) comes with {hosts} hosts alone, not {system}"
