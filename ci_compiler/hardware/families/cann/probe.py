"""What the probe of a package asks of CANN. It is loaded by its path, and imports only the standard library.

PyTorch has NPUs by a package of their own, torch_npu, which PyTorch loads by itself since 2.5. It does not state for
which chips it has kernels: these are in CANN. Sources: Ascend/pytorch (torch.npu, torch.version.cann, allow_hf32).
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

TITLE, DNN = "CANN", "aclnn"
COLLECTIVES, COLLECTIVES_FILE = "HCCL", "libhccl.so"
"""The library with which NPUs exchange data, and how its file is called."""

_SERIES = run_path(str(Path(__file__).with_name("series.py")))
_BFLOAT16 = _SERIES["WORDS"]["bfloat16"]


def devices(torch: Any) -> Any:
    """PyTorch's module of NPUs."""
    import_module("torch_npu")
    return torch.npu


def toolkit(torch: Any) -> str:
    """The series of the toolkit that PyTorch finds, `8.3` of `8.3.RC2`; '' without torch_npu."""
    with suppress(ImportError):
        import_module("torch_npu")
    return ".".join(str(getattr(torch.version, "cann", None) or "").split(".")[:2])


def dnn(torch: Any) -> str:
    """Whether PyTorch has the operators of CANN, which have its version; '' if not."""
    return f"of CANN {toolkit(torch)}" if toolkit(torch) else ""


def be_exact(torch: Any) -> None:
    """Turns off what trades precision for speed."""
    torch.npu.matmul.allow_hf32 = torch.npu.conv.allow_hf32 = False


def target(devices: Any, index: int) -> str:
    """The series of an NPU."""
    return str(_SERIES["series_of_chip"](devices.get_device_name(index)))


def has_bfloat16(target: str) -> bool:
    """Whether an NPU has the type."""
    return target in _BFLOAT16


def has_float64(devices: Any, index: int) -> bool:
    """That products of float64 exist is not known, so they are not tested."""
    del devices, index
    return False


def runs(target: str, built: str) -> bool:
    """Whether an NPU runs code: for a chip of its series."""
    return bool(_SERIES["series_of"](built) == target)


def code_of(library: Path, target: str) -> tuple[bool | None, str]:
    """The code in a library is not read: None."""
    return None, f"code in {library.name}, whose targets are not read; the NPU is of {target}"
