"""Numerical tests on a device. Each returns a message on what it found.

Results are compared with error bounds. For a product of matrices with the inner dimension k, elementwise,

    |computed - exact| <= g(k, v) |A| |B| + u |exact|,    g(k, v) = k v / (1 - k v)

(N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 3.1 and 3.5: for any order of the
additions, fused or not). u is the unit roundoff of the result's type. v is the machine epsilon of the accumulator's
type: the result's type, but float32 for the half types. It is twice the unit roundoff, because tensor cores and ARM's
matrix instructions truncate where a CPU rounds (M. Fasi et al., on the numerical behavior of tensor cores, 2021). The
exact product is computed in float64; g(k, 2^-53) allows for its error.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from .shared import WrongError, has_bfloat16, same, torch_module

SHAPE = (131, 257, 67)
"""Rows, inner dimension and columns of the matrices: odd, so that the edge tiles of tiled kernels are tested too."""

SUMMED_IN = {"float16": "float32", "bfloat16": "float32"}
"""The type in which products of half types are accumulated (by cuBLAS, oneDNN and ATen's own kernels)."""

LARGEST = 1e-3
"""The allowed error of a convolution and of a model, as a share of the largest output.

Fast algorithms (Winograd, FFT) have no elementwise bound, and layers amplify errors. With TF32 off, the error stays far
below this value (4e-7 for the model on a CPU); the error of an incorrect kernel is as large as the output itself.
"""


def matmul(device: str) -> str:
    """Matrix products in each type against float64."""
    types = ["float32", "float16"]
    if device == "cpu" or has_bfloat16(device):
        types.append("bfloat16")
    if device != "cpu":
        types.append("float64")
    return ", ".join(f"{name} {_product(name, device):.1%}" for name in types) + " of the bound"


def _product(name: str, device: str) -> float:
    """The largest error of a product in the type `name`, as a share of the bound. Raises WrongError above 1."""
    torch, (rows, inner, columns) = torch_module(), SHAPE
    kind = getattr(torch, name)
    random = torch.Generator().manual_seed(0)
    left = (torch.rand(rows, inner, generator=random, dtype=torch.float64) * 2 - 1).to(kind)
    right = (torch.rand(inner, columns, generator=random, dtype=torch.float64) * 2 - 1).to(kind)
    computed = (left.to(device) @ right.to(device)).cpu().double()
    left, right = left.double(), right.double()
    exact = left @ right
    summed = torch.finfo(getattr(torch, SUMMED_IN.get(name, name))).eps
    growth = _gamma(inner, summed) + _gamma(inner, 2.0**-53)
    bound = growth * (left.abs() @ right.abs()) + torch.finfo(kind).eps / 2 * exact.abs()
    share = float(((computed - exact).abs() / bound).max())
    if not share <= 1:  # not a number fails as well
        worst = float((computed - exact).abs().max())
        raise WrongError(f"a {name} product of inner dimension {inner} is off by {worst:.3g}, {share:.3g} x the bound")
    return share


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)


def convolution(device: str) -> str:
    """A convolution against float64. On a GPU, the first one makes the vendor's library load others."""
    torch = torch_module()
    random = torch.Generator().manual_seed(0)
    image = torch.rand(2, 8, 33, 35, generator=random) * 2 - 1
    kernel = torch.rand(16, 8, 3, 3, generator=random) * 2 - 1
    computed = torch.nn.functional.conv2d(image.to(device), kernel.to(device))
    return close(computed, torch.nn.functional.conv2d(image.double(), kernel.double()))


def nms(device: str) -> str:
    """Of two boxes that overlap by 68 %, only the better one is kept; a box apart from them is kept too."""
    boxes = [[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 11.0, 11.0], [20.0, 20.0, 30.0, 30.0]]
    torch, ops = torch_module(), importlib.import_module("torchvision.ops")
    kept = ops.nms(torch.tensor(boxes, device=device), torch.tensor([0.8, 0.9, 0.7], device=device), 0.5)
    return f"boxes {same(str(kept.tolist()), '[1, 2]')} were kept"


def roi_align(device: str) -> str:
    """On a linear ramp, where interpolation is exact, the mean of a bin is the value at its centre."""
    torch, ops = torch_module(), importlib.import_module("torchvision.ops")
    ramp = torch.arange(12.0).repeat(12, 1).reshape(1, 1, 12, 12).to(device)
    box = torch.tensor([[0.0, 2.0, 2.0, 6.0, 6.0]], device=device)
    found = ops.roi_align(ramp, box, output_size=2, sampling_ratio=2, aligned=True)
    return close(found, torch.tensor([[[[2.5, 4.5], [2.5, 4.5]]]], dtype=torch.float64))


def resnet(device: str) -> str:
    """A forward pass of a small model with random weights against the same in float64."""
    torch, models = torch_module(), importlib.import_module("torchvision.models")
    torch.manual_seed(0)
    model = models.resnet18(weights=None).eval()
    image = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        exact = model.double()(image.double())
        return close(model.float().to(device)(image.to(device)), exact)


def resample(device: str) -> str:
    """A sine of 440 Hz at 16 kHz remains a sine of 440 Hz at 12 kHz with the same energy."""
    torch, functional = torch_module(), importlib.import_module("torchaudio.functional")
    pitch, before, after = 440, 16000, 12000
    wave = torch.sin(torch.arange(before, dtype=torch.float64) * (2 * math.pi * pitch / before)).float()
    found = functional.resample(wave.to(device), before, after).cpu().double()
    same(f"{found.numel()} samples", f"{after} samples")
    peak = int(torch.fft.rfft(found).abs().argmax())  # one second: a bin is one Hz
    same(f"{peak} Hz", f"{pitch} Hz")
    middle = found[after // 10 : -after // 10]
    loudness = float(middle.square().mean()) * 2  # a sine's mean square is half the square of its amplitude
    if not abs(loudness - 1) <= 0.01:
        raise WrongError(f"its energy is {loudness:.4f} of what it was")
    return f"{peak} Hz with {loudness:.4f} of the energy"


def close(computed: Any, exact: Any) -> str:
    """The largest error as a share of the largest output. Raises WrongError above `LARGEST`."""
    torch = torch_module()
    if computed.shape != exact.shape:
        raise WrongError(f"the result has the shape {tuple(computed.shape)}, expected {tuple(exact.shape)}")
    share = float((computed.cpu().double() - exact).abs().max() / exact.abs().max())
    if not (bool(torch.isfinite(exact).all()) and share <= LARGEST):
        raise WrongError(f"the result is off by {share:.3g} of its largest value; {LARGEST:g} is allowed")
    return f"off by {share:.1g} of the largest value, {LARGEST:g} is allowed"


NUMERICS = {
    check.__name__.replace("_", "-"): check for check in (matmul, convolution, nms, roi_align, resnet, resample)
}
