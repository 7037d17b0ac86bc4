"""Tests of libraries that PyTorch uses on a GPU, and which are built for architectures of their own: MAGMA and NCCL."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from .numerics import close
from .shared import SkippedError, WrongError, torch_module

Architectures = Mapping[str, frozenset[int]]
"""The architectures of the `cubin`s and the `ptx` in a library, as 10 * major + minor."""

_KINDS = {1: "ptx", 2: "cubin"}
_MAGIC, _HEADER, _ENTRY = struct.pack("<I", 0xBA55ED50), struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHI")
"""A fat binary: the magic number, version, header's size and length of what follows, which is a list of entries.

An entry starts with its kind, version, header's size, length, compressed length, a reserved word, its version of PTX
and its architecture. Source: fatbinary.h of CUDA 5, and the files that `cuobjdump --list-elf` of CUDA 12 lists.
"""


def linalg(device: str) -> str:
    """A batch of linear systems, solved by MAGMA's kernels, against float64 on the CPU."""
    torch = torch_module()
    if not torch.cuda.has_magma:
        raise SkippedError("PyTorch is built without MAGMA")
    random = torch.Generator().manual_seed(0)
    left = torch.rand(4, 96, 96, generator=random) + 96 * torch.eye(96)  # well-conditioned: the diagonal dominates
    right = torch.rand(4, 96, 8, generator=random)
    before = torch.backends.cuda.preferred_linalg_library()
    torch.backends.cuda.preferred_linalg_library("magma")
    try:
        computed = torch.linalg.solve(left.to(device), right.to(device))
    finally:
        torch.backends.cuda.preferred_linalg_library(before)
    return f"MAGMA's solution is {close(computed, torch.linalg.solve(left.double(), right.double()))}"


def nccl(device: str) -> str:
    """NCCL has machine code that the GPU runs, or PTX for an older one, which the driver compiles."""
    major, minor = torch_module().cuda.get_device_capability(device)
    files = [path for path in loaded() if Path(path).name.startswith("libnccl.so")]
    if not files:
        raise SkippedError("PyTorch has loaded no libnccl.so: it is built without NCCL, or NCCL is linked into it")
    found = fat_architectures(Path(files[0]))
    shown = ", ".join(f"{kind} {' '.join(f'sm_{one}' for one in sorted(found[kind]))}" for kind in found if found[kind])
    if any(one // 10 == major and one % 10 <= minor for one in found["cubin"]):
        return f"NCCL has {shown}"
    if any(one <= 10 * major + minor for one in found["ptx"]):
        return f"NCCL has {shown}; the driver compiles it for sm_{major}{minor}"
    raise WrongError(f"NCCL has {shown or 'no code for GPUs'}, which does not run on sm_{major}{minor}")


def loaded() -> list[str]:
    """The files that this process has mapped, each once."""
    rows = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text("utf-8").splitlines())
    return list(dict.fromkeys(row[5] for row in rows if len(row) == 6 and row[5].startswith("/")))


def fat_architectures(path: Path) -> Architectures:
    """The architectures of the code for GPUs in a library."""
    found: dict[str, set[int]] = {kind: set() for kind in _KINDS.values()}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        for kind, architecture in _entries(content):
            if kind in _KINDS:
                found[_KINDS[kind]].add(architecture)
    return {kind: frozenset(ones) for kind, ones in found.items()}


def _entries(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """The kind and the architecture of each entry of each fat binary in a file."""
    start = content.find(_MAGIC)
    while 0 <= start <= len(content) - _HEADER.size:
        _, _, size, length = _HEADER.unpack_from(content, start)
        entry, end = start + size, start + size + length
        if size != _HEADER.size or end > len(content):  # these bytes are not a header
            start = content.find(_MAGIC, start + len(_MAGIC))
            continue
        while entry + _ENTRY.size <= end:
            kind, _, header, payload, *_, architecture = _ENTRY.unpack_from(content, entry)
            if header < _ENTRY.size:
                break
            yield kind, architecture
            entry += header + payload
        start = content.find(_MAGIC, end)


LIBRARIES = {check.__name__: check for check in (linalg, nccl)}
