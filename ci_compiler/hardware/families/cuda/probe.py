"""What the probe of a package asks of CUDA. It is loaded by its path, and imports only the standard library.

Sources: PyTorch, torch.version, torch.cuda.get_arch_list, torch.backends.cudnn and torch.backends.cuda.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TITLE, DNN = "CUDA", "cuDNN"
COLLECTIVES, COLLECTIVES_FILE = "NCCL", "libnccl.so"
"""The library with which GPUs exchange data, and how its file is called."""

_BFLOAT16_FROM = (8, 0)
"""The compute capability from which a GPU has bfloat16 (CUDA C++ Programming Guide, feature support)."""

_TARGET = re.compile(r"sm_(?P<major>[0-9]+)(?P<minor>[0-9])[af]?(\+ptx)?")

Read = Mapping[str, frozenset[str]]
"""What is read in a file: the architectures of its `cubin`s and its `ptx`, as `sm_90a`, and the versions of `nvcc`."""

_KINDS = {1: "ptx", 2: "cubin"}
_MAGIC, _HEADER, _ENTRY = struct.pack("<I", 0xBA55ED50), struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHI8xQ")
"""A fat binary: the magic number, version, header's size and length of what follows, which is a list of entries.

An entry starts with its kind, version, header's size, length, compressed length, a reserved word, its version of PTX,
its architecture and its flags. Its code may be compressed, its header is not. Sources: fatbinary.h of CUDA 5; the files
that `cuobjdump --list-elf` of CUDA 12 lists; what nvcc 12.8 and 13.0 write for sm_90a, sm_100a and sm_100f (flags).
"""

_FEATURES = {0: "", 1 << 20: "a", 1 << 21: "f"}

_CUBIN = re.compile(rb"\x7fELF\x02\x01\x01(?P<abi>[\x33\x41]).{10}\xbe\0.{28}(?P<flags>.{4})", re.DOTALL)
"""The beginning of a cubin. Its flags have the architecture in the first byte, or since ABI 8 in the second one."""

_NVCC = re.compile(
    rb"Cuda compilation tools, release [0-9.]+, V(?P<text>[0-9.]+)|"
    rb"\x7fELF\x02\x01\x01\x33\x07.{9}\xbe\0(?P<number>.)\0{3}",
    re.DOTALL,
)
"""The compiler of a cubin or of PTX: a note or a comment, and before ABI 8 the version in the header, 128 for 12.8."""

_TEXT = re.compile(rb"^\.version [0-9.]+\s+\.target (sm_[0-9]+[af]?)", re.MULTILINE)
_HEAD = 4096
"""The beginning of a file of PTX, and how many bytes of a file it is in."""


def toolkit(torch: Any) -> str:
    """The toolkit that PyTorch is built with; '' for none."""
    return torch.version.cuda or ""


def architectures(torch: Any) -> list[str]:
    """The architectures that PyTorch is compiled for.

    `torch.cuda.get_arch_list` returns nothing without a GPU, so the underlying function is called directly.
    """
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001
    return torch.cuda.get_arch_list() or ((flags() or "").split() if flags else [])


def dnn(torch: Any) -> str:
    """The version of PyTorch's cuDNN; '' if it has none."""
    return str(torch.backends.cudnn.version()) if torch.backends.cudnn.is_available() else ""


def extension(torch: Any) -> str:
    """The toolkit that TorchVision's operators are built with; '' for none."""
    number = int(torch.ops.torchvision._cuda_version())  # noqa: SLF001
    return f"{number // 1000}.{number % 1000 // 10}" if number > 0 else ""


def be_exact(torch: Any) -> None:
    """Turns off what trades precision for speed."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def target(devices: Any, index: int) -> str:
    """The target of a GPU, which PyTorch knows as a compute capability, as it writes it in its lists."""
    return "sm_{}{}".format(*devices.get_device_capability(index))


def _capability(name: str) -> tuple[int, int]:
    """The compute capability of a target; 0.0 for the name of none."""
    match = _TARGET.fullmatch(name)
    return (int(match["major"]), int(match["minor"])) if match else (0, 0)


def has_bfloat16(target: str) -> bool:
    """Whether a GPU has the type."""
    return _capability(target) >= _BFLOAT16_FROM


def runs(target: str, built: str) -> bool:
    """Whether a GPU runs a cubin that is built for another target: same major capability, no lower minor."""
    (major, minor), (built_major, built_minor) = _capability(target), _capability(built)
    return major == built_major and minor >= built_minor


def code_of(library: Path, target: str) -> tuple[bool, str]:
    """Whether a GPU runs the code in a library, as machine code or as PTX for an older GPU; and that code in words."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = code_in(content)
    kinds = {kind: " ".join(sorted(found[kind], key=_capability)) for kind in _KINDS.values()}
    shown = ", ".join(f"{kind} {names}" for kind, names in kinds.items() if names)
    if any(runs(target, one) for one in found["cubin"]):
        return True, shown
    if any(_capability(one) <= _capability(target) for one in found["ptx"]):
        return True, f"{shown}; the driver compiles it for {target}"
    return False, shown


def code_in(content: mmap.mmap) -> Read:
    """The code for GPUs in a file: in fat binaries, or a cubin or PTX that is the whole file."""
    found: dict[str, set[str]] = {kind: set() for kind in (*_KINDS.values(), "nvcc")}
    for kind, architecture, flags in _entries(content):
        if kind in _KINDS:
            found[_KINDS[kind]].add(f"sm_{architecture}{_FEATURES.get(flags & 3 << 20, '')}")
    if alone := _CUBIN.match(content):
        found["cubin"].add(f"sm_{alone['flags'][alone['abi'] == b'A']}")
    if text := _TEXT.search(content[:_HEAD]):
        found["ptx"].add(text[1].decode())
    for one in _NVCC.finditer(content) if found["cubin"] or found["ptx"] else ():
        number = one["number"] and one["number"][0]
        found["nvcc"].add(f"{number // 10}.{number % 10}" if number else one["text"].decode())
    return {kind: frozenset(ones) for kind, ones in found.items()}


def _entries(content: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """The kind, the architecture and the flags of each entry of each fat binary in a file."""
    start = content.find(_MAGIC)
    while 0 <= start <= len(content) - _HEADER.size:
        _, _, size, length = _HEADER.unpack_from(content, start)
        entry, end = start + size, start + size + length
        if size != _HEADER.size or end > len(content):  # these bytes are not a header
            start = content.find(_MAGIC, start + len(_MAGIC))
            continue
        while entry + _ENTRY.size <= end:
            kind, _, header, payload, *_, architecture, flags = _ENTRY.unpack_from(content, entry)
            if header < _ENTRY.size:
                break
            yield kind, architecture, flags
            entry += header + payload
        start = content.find(_MAGIC, end)
