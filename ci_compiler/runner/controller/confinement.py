"""The engine's options that bound a container: GPUs by identity, memory and cores."""

from __future__ import annotations

from collections.abc import Sequence


def gpu_options(kind: str, gpus: Sequence[str]) -> list[str]:
    """The options for `gpus` (UUIDs, or `all`): CDI for podman (4.1 and later), docker's own option for docker."""
    if not gpus:
        return []
    if kind == "podman":
        return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]
    if gpus == ("all",):
        return ["--gpus", "all"]
    return ["--gpus", f'"device={",".join(gpus)}"']  # docker reads the value as CSV


def bounds(memory: int, cores: int) -> list[str]:
    """The options for `memory` in bytes, without swap, and `cores`; 0 means no bound."""
    words = ["--memory", str(memory), "--memory-swap", str(memory)] if memory else []
    return [*words, "--cpus", str(cores)] if cores else words
