"""Tests of libraries that PyTorch uses on a GPU, and which are built for architectures of their own."""

from __future__ import annotations

from pathlib import Path

from .numerics import close
from .shared import SkippedError, WrongError, devices_of, family, target_of, torch_module


def linalg(device: str) -> str:
    """A batch of linear systems, solved by MAGMA's kernels, against float64 on the CPU."""
    torch, kind = torch_module(), device.partition(":")[0]
    if not getattr(devices_of(kind), "has_magma", False):
        raise SkippedError("PyTorch is built without MAGMA")
    random = torch.Generator().manual_seed(0)
    left = torch.rand(4, 96, 96, generator=random) + 96 * torch.eye(96)  # well-conditioned: the diagonal dominates
    right = torch.rand(4, 96, 8, generator=random)
    choose = getattr(torch.backends, kind).preferred_linalg_library
    before = choose()
    choose("magma")
    try:
        computed = torch.linalg.solve(left.to(device), right.to(device))
    finally:
        choose(before)
    return f"MAGMA's solution is {close(computed, torch.linalg.solve(left.double(), right.double()))}"


def collectives(device: str) -> str:
    """The library with which GPUs exchange data has code that the GPU runs, or that the driver compiles for it."""
    title, file = family().COLLECTIVES, family().COLLECTIVES_FILE
    files = [path for path in loaded() if Path(path).name.startswith(file)]
    if not files:
        raise SkippedError(f"PyTorch has loaded no {file}: it is built without {title}, or {title} is linked into it")
    target = target_of(device)
    runs, shown = family().code_of(Path(files[0]), target)
    if runs is None:
        raise SkippedError(f"{title} has {shown}")
    if runs:
        return f"{title} has {shown}"
    raise WrongError(f"{title} has {shown or 'no code for GPUs'}, which does not run on {target}")


def loaded() -> list[str]:
    """The files that this process has mapped, each once; [] where the system does not say."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text("utf-8").splitlines() if maps.exists() else ()
    rows = (line.split(maxsplit=5) for line in lines)
    return list(dict.fromkeys(row[5] for row in rows if len(row) == 6 and row[5].startswith("/")))


LIBRARIES = {check.__name__: check for check in (linalg, collectives)}
