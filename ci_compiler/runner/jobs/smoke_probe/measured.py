"""The measured programs. Each function prepares its data on a device, and returns the call to measure.

Data are random, since some devices are faster on zeros. Sizes are such that a call takes milliseconds: on the CPU on a
few cores, and on the GPU on a large one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial

from .shared import SkippedError, has_bfloat16, target_of, torch_module

Call = Callable[[], object]
Prepare = Callable[[str], Call]


def gemm(kind: str, device: str) -> Call:
    """A product of square matrices in one type; `tf32` is float32 with the precision that tensor cores have."""
    torch = torch_module()
    _refuse_old(kind, device)
    on_cpu = 256 if kind == "float16" else 768  # few CPUs have float16 products, and the others emulate them
    size = on_cpu if device == "cpu" else 2048 if kind in {"float32", "float64"} else 4096
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    if kind == "int8":
        whole = [torch.randint(-8, 8, (size, size), dtype=torch.int8, device=device) for _ in range(2)]
        return partial(torch._int_mm, *whole)  # noqa: SLF001  (the only product of int8 without quantised tensors)
    element = getattr(torch, "float32" if kind == "tf32" else kind)
    left, right = (torch.rand(size, size, device=device).sub_(0.5).to(element) for _ in range(2))
    return partial(torch.mm, left, right, out=torch.empty(size, size, dtype=element, device=device))


def _refuse_old(kind: str, device: str) -> None:
    """Raises SkippedError for types that an old GPU would emulate, or does not have."""
    if device != "cpu" and kind in {"tf32", "bfloat16"} and not has_bfloat16(device):
        raise SkippedError(f"GPUs of the target {target_of(device)} have no {kind}")


def convolution(device: str) -> Call:
    """A 3x3 convolution as in the middle of a residual network, float32 as PyTorch computes it by default."""
    torch = torch_module()
    images, channels = (4, 64) if device == "cpu" else (32, 128)
    image = torch.rand(images, channels, 56, 56, device=device)
    kernel = torch.rand(channels, channels, 3, 3, device=device) - 0.5
    return partial(torch.nn.functional.conv2d, image, kernel, padding=1)


def attention(device: str) -> Call:
    """Scaled dot-product attention: float32 on the CPU, a half type on the GPU."""
    torch = torch_module()
    shape, element = ((4, 8, 256, 64), torch.float32)
    if device != "cpu":
        shape, element = ((8, 16, 2048, 64), torch.bfloat16 if has_bfloat16(device) else torch.float16)
    given = [torch.rand(*shape, device=device).sub_(0.5).to(element) for _ in range(3)]
    return partial(torch.nn.functional.scaled_dot_product_attention, *given)


def elementwise(device: str) -> Call:
    """Functions of single elements and sums over rows: the kernels that ATen dispatches by the CPU's instructions."""
    torch = torch_module()
    rows = torch.rand(256 if device == "cpu" else 8192, 4096, device=device).sub_(0.5)

    def call() -> object:
        return torch.nn.functional.gelu(rows).softmax(dim=1).sum()

    return call


def transformer_step(device: str) -> Call:
    """A training step of a small transformer: forward, backward, and the update of the weights."""
    torch = torch_module()
    width, layers, shape = (128, 2, (8, 32)) if device == "cpu" else (512, 4, (16, 256))
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    given, wanted = (torch.rand(*shape, width, device=device) for _ in range(2))

    def call() -> object:
        optimiser.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        loss.backward()
        return optimiser.step()

    return call


def resnet50(device: str) -> Call:
    """Inference of ResNet-50 with random weights."""
    torch, models = torch_module(), importlib.import_module("torchvision.models")
    model = models.resnet50(weights=None).eval().to(device)
    images = torch.rand(1 if device == "cpu" else 64, 3, 224, 224, device=device)

    def call() -> object:
        with torch.inference_mode():
            return model(images)

    return call


def decode_jpeg(device: str) -> Call:
    """Decoding a JPEG image of 1024x768 pixels: on the GPU by nvJPEG, where TorchVision is built with it."""
    torch, io = torch_module(), importlib.import_module("torchvision.io")
    coarse = torch.rand(1, 3, 96, 128)
    image = torch.nn.functional.interpolate(coarse, size=(768, 1024), mode="bilinear")[0]
    data = io.encode_jpeg((image * 255).to(torch.uint8))
    return partial(io.decode_jpeg, data, device=device)


def nms(device: str) -> Call:
    """Non-maximum suppression of random boxes."""
    torch, ops = torch_module(), importlib.import_module("torchvision.ops")
    count = 2000 if device == "cpu" else 20000
    corners = torch.rand(count, 2, device=device) * 1000
    boxes = torch.cat([corners, corners + 10 + 90 * torch.rand(count, 2, device=device)], dim=1)
    return partial(ops.nms, boxes, torch.rand(count, device=device), 0.5)


def resample(device: str) -> Call:
    """Resampling ten seconds of eight channels from 44.1 to 16 kHz."""
    torch, transforms = torch_module(), importlib.import_module("torchaudio.transforms")
    return partial(transforms.Resample(44100, 16000).to(device), torch.rand(8, 441000, device=device) - 0.5)


def mfcc(device: str) -> Call:
    """The mel-frequency cepstral coefficients of ten seconds of eight channels."""
    torch, transforms = torch_module(), importlib.import_module("torchaudio.transforms")
    return partial(transforms.MFCC(16000).to(device), torch.rand(8, 160000, device=device) - 0.5)


_TYPES = ("float32", "tf32", "float64", "float16", "bfloat16", "int8")
_OTHERS = (convolution, attention, elementwise, transformer_step, resnet50, decode_jpeg, nms, resample, mfcc)

PROGRAMS: Mapping[str, Prepare] = {f"gemm-{kind}": partial(gemm, kind) for kind in _TYPES} | {
    one.__name__.replace("_", "-"): one for one in _OTHERS
}
"""The programs by the names that `checks.json` lists for a package."""
