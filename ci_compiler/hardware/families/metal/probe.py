"""What the probe of a package asks of Metal. It is loaded by its path, and imports only the standard library.

Sources: PyTorch, torch.backends.mps and torch.mps.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TITLE, DNN = "Metal", "MPS"
COLLECTIVES, COLLECTIVES_FILE = "A library with which GPUs exchange data", ""
_VIRTUAL = json.loads(Path(__file__).with_name("words.json").read_bytes())["virtual"]


def devices(torch: Any) -> SimpleNamespace:
    """The only device, under the names that PyTorch has for those of other kinds. A virtual one does not count."""
    mps = torch.backends.mps
    name = getattr(mps, "get_name", lambda: "Apple GPU")() if mps.is_available() else ""

    def init() -> None:
        raise RuntimeError(f"{name} is the device of a virtual machine" if name else "PyTorch sees no GPU with Metal")

    return SimpleNamespace(
        is_available=lambda: bool(name) and _VIRTUAL not in name,
        init=init,
        device_count=lambda: 1,
        get_device_name=lambda _: name,
        synchronize=lambda _: torch.mps.synchronize(),
    )


def dnn(torch: Any) -> str:
    """Whether PyTorch is built with MPS, which is part of macOS and has no version; '' if not."""
    return "of macOS" if torch.backends.mps.is_built() else ""


def be_exact(torch: Any) -> None:
    """Nothing trades precision for speed unless it is asked to."""
    del torch


def target(devices: Any, index: int) -> str:
    """The family's name: Metal compiles on the machine."""
    del devices, index
    return "metal"


def has_bfloat16(target: str) -> bool:
    """Whether a GPU has the type: those of PyTorch's MPS do, the virtual ones do not."""
    return bool(target)


def has_float64(devices: Any, index: int) -> bool:
    """MPS has no such type."""
    del devices, index
    return False
