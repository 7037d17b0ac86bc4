"""What the probe of a package asks of ROCm. It is loaded by its path, and imports only the standard library.

PyTorch calls AMD's GPUs `cuda` and MIOpen `cudnn`; only `torch.version.hip` and `gcnArchName` tell them apart. Sources:
PyTorch, "HIP (ROCm) semantics", and its device properties; LLVM, "Clang Offload Bundler" (the format) and "User Guide
for AMDGPU Backend" (target ids; the data formats of matrix instructions); ROCm/llvm-project issue 448 (`CCOB`).
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

_SHARED = run_path(str(Path(__file__).parents[1] / "cuda/probe.py"))
"""What PyTorch has under the names that it has for CUDA."""

TITLE, DNN = "ROCm", "MIOpen"
COLLECTIVES, COLLECTIVES_FILE = "RCCL", "librccl.so"
"""The library with which GPUs exchange data, and how its file is called."""

_KERNELS = "lib/libtorch_hip.so"
"""The library with PyTorch's own kernels, in its package."""

_BFLOAT16 = re.compile("gfx(908|90a|94.|95.|11..|12..)(:.*)?")
"""The targets with matrix instructions for bfloat16: MFMA and WMMA."""

_BUNDLE, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
"""How a bundle of code for several targets begins: the number of its entries follows, then each as in `_ENTRY`."""

_COUNT, _ENTRY = struct.Struct("<Q"), struct.Struct("<QQQ")
"""An entry: where its code is, the size of the code, and the length of the identifier, which follows."""

_IDENTIFIER = re.compile(
    rb"hip(v[0-9]+)?-(amdgcn|spirv64)-amd-amdhsa-[^-]*-"
    rb"(?P<target>amdgcnspirv|gfx[0-9a-f]+((-[0-9]+)?-generic)?(:[a-z]+[+-])*)"
)

_OBJECT = re.compile(rb"\x7fELF.{14}\xe0\0", re.DOTALL)
"""The beginning of a code object (EM_AMDGPU)."""

_GENERIC = json.loads(Path(__file__).with_name("generic.json").read_bytes())["generic"]

_MOST = 256
"""More entries or longer identifiers than these are no bundle: the bytes of its beginning are in other data."""

dnn, be_exact = _SHARED["dnn"], _SHARED["be_exact"]


def toolkit(torch: Any) -> str:
    """The series of the toolkit that PyTorch is built with, `7.1` of `7.1.25424`; '' for none."""
    return ".".join((torch.version.hip or "").split(".")[:2])


def architectures(torch: Any) -> list[str]:
    """The targets of the code in PyTorch's own kernels; those of its list where the code is compressed or elsewhere."""
    library = Path(torch.__file__).parent / _KERNELS
    found = targets_in(library) if library.is_file() else set()
    return sorted(found) or _SHARED["architectures"](torch)


def extension(torch: Any) -> str:
    """The toolkit of PyTorch if TorchVision's operators have kernels for GPUs: they do not state it; else ''."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CUDA")  # noqa: SLF001
    return toolkit(torch) if has else ""


def target(devices: Any, index: int) -> str:
    """The target of a GPU with its features: `gfx942:sramecc+:xnack-`."""
    return str(devices.get_device_properties(index).gcnArchName)


def has_bfloat16(target: str) -> bool:
    """Whether a GPU has the type."""
    return bool(_BFLOAT16.fullmatch(target))


def runs(target: str, built: str) -> bool:
    """Whether a GPU runs code: for its own target or a generic one, with no feature that it has in another setting."""
    (own, *has), (code, *wants) = target.split(":"), built.split(":")
    return (code in {own, "amdgcnspirv"} or own in _GENERIC.get(code, {"runs_on": ()})["runs_on"]) and {*wants} <= {
        *has
    }


def code_of(library: Path, target: str) -> tuple[bool | None, str]:
    """Whether a GPU runs the code in a library (None: it is compressed, and not read); and that code in words."""
    found = sorted(targets_in(library))
    if not found and is_compressed(library):
        return None, "compressed code, whose targets are not read"
    return any(runs(target, one) for one in found), f"code for {' '.join(found)}" if found else ""


def targets_in(path: Path) -> set[str]:
    """The targets of the bundled code in a library; those of compressed bundles are not among them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return targets_of(content)


def targets_of(content: mmap.mmap) -> set[str]:
    """The targets of the bundled code in a file; `amdgcnspirv` for code that the driver compiles."""
    matches = (_IDENTIFIER.fullmatch(one) for one in _identifiers(content))
    return {match["target"].decode() for match in matches if match}


def is_compressed(path: Path) -> bool:
    """Whether a library has a section of code for GPUs, and a bundle in it may be compressed."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return has_unread(content)


def has_unread(content: mmap.mmap) -> bool:
    """Whether a file may have code whose targets are not read: in a compressed bundle, or a code object by itself."""
    return _OBJECT.match(content) is not None or (content.find(b".hip_fatbin") >= 0 and content.find(_COMPRESSED) >= 0)


def _identifiers(content: mmap.mmap) -> Iterator[bytes]:
    """The identifier of each entry of each bundle in a file."""
    start = content.find(_BUNDLE)
    while start >= 0:
        place = start + len(_BUNDLE)
        (count,) = _COUNT.unpack_from(content, place) if place + _COUNT.size <= len(content) else (0,)
        place += _COUNT.size
        for _ in range(count if count <= _MOST else 0):
            if place + _ENTRY.size > len(content):
                break
            *_, length = _ENTRY.unpack_from(content, place)
            if length > _MOST:
                break
            place += _ENTRY.size + length
            yield content[place - length : place]
        start = content.find(_BUNDLE, start + len(_BUNDLE))
