"""What the probe of a package asks of XPU. It is loaded by its path, and imports only the standard library.

Sources: PyTorch, torch.xpu (get_arch_list, get_device_properties), torch.version.xpu, torch.backends.mkldnn;
intel/torch-xpu-ops (torchvision::nms).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TITLE, DNN = "XPU", "oneDNN"
COLLECTIVES, COLLECTIVES_FILE = "oneCCL", "libccl.so"
"""The library with which GPUs exchange data, and how its file is called."""

_SPIRV = "spir64"
_TARGETS = {
    name: target
    for target, names in json.loads(Path(__file__).with_name("names.json").read_bytes())["products"].items()
    for name in names
}


def toolkit(torch: Any) -> str:
    """The series of the toolkit that PyTorch is built with, `2026.1` of `20260100`; '' for none."""
    number = str(getattr(torch.version, "xpu", None) or "")
    return f"{number[:4]}.{int(number[4:6])}" if number[:6].isdecimal() else ""


def architectures(torch: Any) -> list[str]:
    """The targets of PyTorch's own kernels; SPIR-V where it names none."""
    return torch.xpu.get_arch_list() or ([_SPIRV] if torch._C._has_xpu else [])  # noqa: SLF001


def dnn(torch: Any) -> str:
    """Whether PyTorch is built for XPU with oneDNN, which has no version there; '' if not."""
    return "in PyTorch" if torch._C._has_xpu and torch.backends.mkldnn.is_available() else ""  # noqa: SLF001


def extension(torch: Any) -> str:
    """The toolkit of PyTorch if it has kernels of TorchVision's operators for XPU; else ''."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "XPU")  # noqa: SLF001
    return toolkit(torch) if has else ""


def be_exact(torch: Any) -> None:
    """Turns off what trades precision for speed."""
    torch.backends.mkldnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


def target(devices: Any, index: int) -> str:
    """The target of a GPU by its PCI id; the family's name if that is not known."""
    number = getattr(devices.get_device_properties(index), "device_id", 0)
    found: str = _TARGETS.get(f"0x{number:04X}", "xpu")
    return found


def has_bfloat16(target: str) -> bool:
    """Whether a GPU has the type, which PyTorch emulates where the hardware has none."""
    return bool(target)


def has_float64(devices: Any, index: int) -> bool:
    """Whether a GPU has the type."""
    return bool(devices.get_device_properties(index).has_fp64)


def runs(target: str, built: str) -> bool:
    """Whether a GPU runs code: for its own target, or SPIR-V."""
    return built in {target, _SPIRV}


def code_of(library: Path, target: str) -> tuple[bool | None, str]:
    """The code in a library is not read: None."""
    return None, f"code in {library.name}, whose targets are not read; the GPU is of {target}"
