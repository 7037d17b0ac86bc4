"""A stand-in for PyTorch with what the probe uses; `behaviour.json` next to it says what it is and does wrong.

Its tensors have the same value everywhere, so that a product is one multiplication, and waves are known by their pitch.
`error` is the error of every result that was not computed in float64 on the CPU, as a share of the result.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BEHAVIOUR: dict[str, Any] = json.loads((Path(__file__).parents[1] / "behaviour.json").read_text("utf-8"))


def meet(event: str) -> None:
    """Does what the test requests for `event`: ends the process by a signal, raises, exits or prints."""
    what = BEHAVIOUR.get("events", {}).get(event, {})
    if "print" in what:
        print(what["print"])
    if "signal" in what:
        os.kill(os.getpid(), signal.Signals[what["signal"]])
    if "exit" in what:
        os._exit(what["exit"])
    if "raise" in what:
        raise RuntimeError(what["raise"])


meet("import")

__version__ = BEHAVIOUR.get("version", "2.8.0")
_TOOLKITS = BEHAVIOUR.get("cuda"), BEHAVIOUR.get("hip")
version = SimpleNamespace(cuda=_TOOLKITS[0], hip=_TOOLKITS[1])
float64, float32, float16, bfloat16 = "float64", "float32", "float16", "bfloat16"
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def finfo(kind: str) -> Any:
    return SimpleNamespace(eps=_EPS[kind])


class Tensor:
    def __init__(self, shape: tuple[int, ...], value: float, kind: str = "float32", device: str = "cpu") -> None:
        self.shape, self.value, self.kind, self.device = shape, value, kind, device

    def having(self, value: float) -> Tensor:
        return Tensor(self.shape, value, self.kind, self.device)

    def to(self, where: str) -> Tensor:
        if where in _EPS:
            return Tensor(self.shape, self.value, where, self.device)
        meet(where.partition(":")[0])
        return Tensor(self.shape, self.value, self.kind, where)

    def cpu(self) -> Tensor:
        return Tensor(self.shape, self.value, self.kind)

    def double(self) -> Tensor:
        return self.to("float64")

    def wrong(self) -> Tensor:
        """This result with the error that the test requests."""
        exact = self.kind == "float64" and self.device == "cpu"
        return self if exact else self.having(self.value * (1 + BEHAVIOUR.get("error", 0)))

    def __matmul__(self, other: Tensor) -> Tensor:
        if self.kind != "float64":
            meet("matmul")
        product = self.having(self.value * other.value * self.shape[1])
        product.shape = (self.shape[0], other.shape[1])
        return product.wrong()

    def __mul__(self, other: float) -> Tensor:
        return self.having(self.value * other)

    __rmul__ = __mul__

    def __add__(self, other: Tensor) -> Tensor:
        return self.having(self.value + other.value)

    def __sub__(self, other: Any) -> Tensor:
        return self.having(self.value - (other.value if isinstance(other, Tensor) else other))

    def __truediv__(self, other: Tensor) -> Tensor:
        return self.having(self.value / other.value if other.value else math.nan)

    def abs(self) -> Tensor:
        return self.having(abs(self.value))

    def max(self) -> Tensor:
        return self

    def all(self) -> Tensor:
        return self

    def __float__(self) -> float:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def repeat(self, *_: int) -> Tensor:
        return self

    sub_ = repeat

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(shape, self.value, self.kind, self.device)


class Generator:
    def manual_seed(self, _: int) -> Generator:
        return self


def manual_seed(_: int) -> None:
    pass


def rand(*shape: int, dtype: str = "float32", **_: Any) -> Tensor:
    return Tensor(shape, 0.75, dtype)


def empty(*shape: int, dtype: str = "float32", **_: Any) -> Tensor:
    return Tensor(shape, 0.0, dtype)


def set_float32_matmul_precision(_: str) -> None:
    pass


def mm(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """A product of float32 that takes as long as the test requests, by the level of the kernels."""
    if left.kind != "float32":
        raise RuntimeError(f"not implemented for {left.kind}")
    meet("mm")
    if "mm" in BEHAVIOUR:
        _time_of_products.append(BEHAVIOUR["mm"][_level()])
    return out.having(left.value * right.value * left.shape[1])


_time_of_products = [time.perf_counter()]
if "mm" in BEHAVIOUR:  # only products take time, so that a busy machine changes nothing
    time.perf_counter = lambda: sum(_time_of_products)


def _level() -> str:
    """The level of ATen's kernels."""
    return os.environ.get("ATEN_CPU_CAPABILITY", "").upper() or str(BEHAVIOUR.get("dispatch", "AVX2"))


def tensor(rows: Any, dtype: str = "float32", device: str = "cpu") -> Tensor:
    shape: list[int] = []
    while isinstance(rows, list):
        shape.append(len(rows))
        rows = rows[0]
    return Tensor(tuple(shape), float(rows), dtype, device)


def isfinite(one: Tensor) -> Tensor:
    return one.having(float(math.isfinite(one.value)))


def inference_mode() -> Any:
    import contextlib

    return contextlib.nullcontext()


class Wave:
    """`step` is the phase between two samples."""

    def __init__(self, step: float, samples: int, height: float = 1.0) -> None:
        self.step, self.samples, self.height = step, samples, height

    def __mul__(self, other: float) -> Wave:
        return Wave(self.step * other, self.samples)

    def same(self, *_: Any) -> Wave:
        return self

    float = to = cpu = double = same
    __getitem__ = repeat = reshape = same

    def numel(self) -> int:
        return self.samples

    def square(self) -> Any:
        return SimpleNamespace(mean=lambda: self.height**2 / 2)


def arange(count: float, **_: Any) -> Any:
    return Wave(1.0, int(count)) if count > 100 else Tensor((int(count),), 2.5)


def sin(wave: Wave) -> Wave:
    return wave


def _rfft(wave: Wave) -> Any:
    pitch = round(wave.step * wave.samples / (2 * math.pi))
    return SimpleNamespace(abs=lambda: SimpleNamespace(argmax=lambda: pitch))


def _conv2d(image: Tensor, kernel: Tensor) -> Tensor:
    meet("convolution")
    return Tensor((1,), image.value * kernel.value, image.kind, image.device).wrong()


def eye(count: int) -> Tensor:
    return Tensor((count, count), 1.0)


def _solve(left: Tensor, right: Tensor) -> Tensor:
    meet("linalg")
    return (right / left).wrong()


def _cuda_init() -> None:
    raise RuntimeError("No CUDA GPUs are available")


_GPUS = BEHAVIOUR.get("gpus", [])
fft = SimpleNamespace(rfft=_rfft)
nn = SimpleNamespace(functional=SimpleNamespace(conv2d=_conv2d))
linalg = SimpleNamespace(solve=_solve)
cuda = SimpleNamespace(
    has_magma=BEHAVIOUR.get("magma", True),
    is_available=lambda: bool(_GPUS),
    init=_cuda_init,
    device_count=lambda: len(_GPUS),
    get_device_name=lambda index: _GPUS[index][0],
    get_device_capability=lambda where: tuple(_GPUS[int(str(where).rpartition(":")[2])][1]),
    synchronize=lambda _: meet("synchronize"),
    get_device_properties=lambda index: SimpleNamespace(gcnArchName=_GPUS[index][1]),
    get_arch_list=lambda: BEHAVIOUR.get("architectures", []) if _GPUS else [],
)
backends = SimpleNamespace(
    cudnn=SimpleNamespace(is_available=lambda: "cudnn" in BEHAVIOUR, version=lambda: BEHAVIOUR["cudnn"]),
    cpu=SimpleNamespace(get_cpu_capability=_level),
    cuda=SimpleNamespace(matmul=SimpleNamespace(), preferred_linalg_library=lambda _="": "default"),
)
ops = SimpleNamespace(torchvision=SimpleNamespace(_cuda_version=lambda: BEHAVIOUR.get("operators", -1)))
_C = SimpleNamespace(
    **({"_cuda_getArchFlags": lambda: " ".join(BEHAVIOUR.get("architectures", []))} if any(_TOOLKITS) else {}),
    _dispatch_has_kernel_for_dispatch_key=lambda *_: BEHAVIOUR.get("kernels", True),
)
