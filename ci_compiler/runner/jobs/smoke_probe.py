"""Imports and checks the package under test, in the interpreter that it was built for.

A script that `smoke` starts with `-I` in a clean environment. It imports only the standard library, the package and
what the package imports. It reads the expectation from standard input as JSON, and writes a line of JSON when a check
begins and ends, so that the reader knows what was running at a crash. The package's output goes to standard error.

Numerical results are compared with error bounds. For a product of matrices with the inner dimension k, elementwise,

    |computed - exact| <= g(k, v) |A| |B| + u |exact|,    g(k, v) = k v / (1 - k v)

(N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 3.1 and 3.5: for any order of the
additions, fused or not). u is the unit roundoff of the result's type. v is the machine epsilon of the accumulator's
type: the result's type, but float32 for the half types. It is twice the unit roundoff, because tensor cores and ARM's
matrix instructions truncate where a CPU rounds (M. Fasi et al., Numerical behavior of NVIDIA tensor cores, 2021). The
exact product is computed in float64; g(k, 2^-53) allows for its error.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.metadata
import json
import math
import os
import runpy
import site
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

SHAPE = (131, 257, 67)
"""Rows, inner dimension and columns of the matrices: odd, so that the edge tiles of tiled kernels are tested too."""

SUMMED_IN = {"float16": "float32", "bfloat16": "float32"}
"""The type in which products of half types are accumulated (by cuBLAS, oneDNN and ATen's own kernels)."""

BFLOAT16_FROM = (8, 0)
"""The compute capability from which a GPU has bfloat16 (CUDA C++ Programming Guide, feature support)."""

LARGEST = 1e-3
"""The allowed error of a convolution and of a model, as a share of the largest output.

Fast algorithms (Winograd, FFT) have no elementwise bound, and layers amplify errors. With TF32 off, the error stays far
below this value (4e-7 for the model on a CPU); the error of an incorrect kernel is as large as the output itself.
"""


class WrongError(Exception):
    """The check failed; the message says what it found."""


class SkippedError(Exception):
    """The check cannot run; the message says why."""


Wanted = Mapping[str, Any]


def imported(wanted: Wanted) -> str:
    """The module can be imported, and comes from the expected store path."""
    module = importlib.import_module(wanted["module"])
    file = os.path.realpath(getattr(module, "__file__", None) or "")
    store_path = wanted["store_path"]
    if store_path and not file.startswith(os.path.realpath(store_path) + os.sep):
        raise WrongError(f"{wanted['module']} was imported from {file}, not from {store_path}")
    return f"from {os.path.dirname(file)}, by Python {sys.version.split()[0]}"  # noqa: PTH120  (its own folder)


def version(wanted: Wanted) -> str:
    """The version is the expected one; the part after a `+` counts only if the expected version has one."""
    module = importlib.import_module(wanted["module"])
    found = str(getattr(module, "__version__", "") or _distribution_version(wanted["module"]))
    compared = found if "+" in wanted["version"] else found.partition("+")[0]
    return _same(compared, wanted["version"], shown=found)


def cuda(wanted: Wanted) -> str:
    """PyTorch was built with the expected CUDA toolkit."""
    return _same(_torch().version.cuda or "no CUDA", wanted["cuda"] or "no CUDA")


def architectures(wanted: Wanted) -> str:
    """PyTorch was compiled for exactly the expected GPU architectures.

    `torch.cuda.get_arch_list` returns nothing without a GPU, so the underlying function is called directly.
    """
    torch = _torch()
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001
    found = torch.cuda.get_arch_list() or ((flags() or "").split() if flags else [])
    return _same(" ".join(sorted(found)) or "none", " ".join(sorted(wanted["architectures"])) or "none")


def cudnn(wanted: Wanted) -> str:
    """PyTorch has cuDNN if and only if the variant is built with it."""
    torch = _torch()
    found = torch.backends.cudnn.is_available()
    shown = f"cuDNN {torch.backends.cudnn.version()}" if found else "no cuDNN"
    return _same("cuDNN" if found else "no cuDNN", "cuDNN" if wanted["cudnn"] else "no cuDNN", shown=shown)


def dispatch(wanted: Wanted) -> str:
    """PyTorch chose a level of vector instructions that is expected for the variant's instruction set."""
    if not wanted["dispatch"]:
        raise SkippedError("the table does not say which level PyTorch chooses on this instruction set")
    found = _torch().backends.cpu.get_cpu_capability()
    if found not in wanted["dispatch"]:
        raise WrongError(f"found {found}, expected {' or '.join(wanted['dispatch'])}")
    return str(found)


def extension(wanted: Wanted) -> str:
    """TorchVision's own operators are available, and built with the same CUDA toolkit."""
    importlib.import_module("torchvision")
    number = int(_torch().ops.torchvision._cuda_version())  # noqa: SLF001
    found = f"{number // 1000}.{number % 1000 // 10}" if number > 0 else "no CUDA"
    return f"operators built with {_same(found, wanted['cuda'] or 'no CUDA')}"


def script(path: str) -> str:
    """The declared Python file ends without an error."""
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in {None, 0}:
            raise WrongError(f"{Path(path).name} ended with {end.code}") from None
    return f"{Path(path).name} ended without an error"


def gpu(wanted: Wanted) -> int:
    """The index of the first GPU that runs a cubin of the wanted capability: same major, no lower minor."""
    torch, (major, minor) = _torch(), wanted["capability"]
    if not torch.cuda.is_available():
        torch.cuda.init()  # raises an error with the reason
    seen = []
    for index in range(torch.cuda.device_count()):
        capability = tuple(torch.cuda.get_device_capability(index))
        seen.append(f"{torch.cuda.get_device_name(index)} (sm_{capability[0]}{capability[1]})")
        if capability[0] == major and capability[1] >= minor:
            return index
    raise WrongError(f"no GPU runs sm_{major}{minor}; PyTorch sees {', '.join(seen) or 'none'}")


# Numerical tests on a device. Each returns a message on what it found.


def matmul(device: str) -> str:
    """Matrix products in each type against float64."""
    types = ["float32", "float16"]
    if device == "cpu" or _torch().cuda.get_device_capability(device) >= BFLOAT16_FROM:
        types.append("bfloat16")
    if device != "cpu":
        types.append("float64")
    return ", ".join(f"{name} {_product(name, device):.1%}" for name in types) + " of the bound"


def _product(name: str, device: str) -> float:
    """The largest error of a product in the type `name`, as a share of the bound. Raises WrongError above 1."""
    torch, (rows, inner, columns) = _torch(), SHAPE
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
    """A convolution against float64. On a GPU, the first one makes cuDNN load its libraries."""
    torch = _torch()
    random = torch.Generator().manual_seed(0)
    image = torch.rand(2, 8, 33, 35, generator=random) * 2 - 1
    kernel = torch.rand(16, 8, 3, 3, generator=random) * 2 - 1
    computed = torch.nn.functional.conv2d(image.to(device), kernel.to(device))
    return _close(computed, torch.nn.functional.conv2d(image.double(), kernel.double()))


def nms(device: str) -> str:
    """Of two boxes that overlap by 68 %, only the better one is kept; a box apart from them is kept too."""
    boxes = [[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 11.0, 11.0], [20.0, 20.0, 30.0, 30.0]]
    torch, ops = _torch(), importlib.import_module("torchvision.ops")
    kept = ops.nms(torch.tensor(boxes, device=device), torch.tensor([0.8, 0.9, 0.7], device=device), 0.5)
    return f"boxes {_same(str(kept.tolist()), '[1, 2]')} were kept"


def roi_align(device: str) -> str:
    """On a linear ramp, where interpolation is exact, the mean of a bin is the value at its centre."""
    torch, ops = _torch(), importlib.import_module("torchvision.ops")
    ramp = torch.arange(12.0).repeat(12, 1).reshape(1, 1, 12, 12).to(device)
    box = torch.tensor([[0.0, 2.0, 2.0, 6.0, 6.0]], device=device)
    found = ops.roi_align(ramp, box, output_size=2, sampling_ratio=2, aligned=True)
    return _close(found, torch.tensor([[[[2.5, 4.5], [2.5, 4.5]]]], dtype=torch.float64))


def resnet(device: str) -> str:
    """A forward pass of a small model with random weights against the same in float64."""
    torch, models = _torch(), importlib.import_module("torchvision.models")
    torch.manual_seed(0)
    model = models.resnet18(weights=None).eval()
    image = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        exact = model.double()(image.double())
        return _close(model.float().to(device)(image.to(device)), exact)


def resample(device: str) -> str:
    """A sine of 440 Hz at 16 kHz remains a sine of 440 Hz at 12 kHz with the same energy."""
    torch, functional = _torch(), importlib.import_module("torchaudio.functional")
    pitch, before, after = 440, 16000, 12000
    wave = torch.sin(torch.arange(before, dtype=torch.float64) * (2 * math.pi * pitch / before)).float()
    found = functional.resample(wave.to(device), before, after).cpu().double()
    _same(f"{found.numel()} samples", f"{after} samples")
    peak = int(torch.fft.rfft(found).abs().argmax())  # one second: a bin is one Hz
    _same(f"{peak} Hz", f"{pitch} Hz")
    middle = found[after // 10 : -after // 10]
    loudness = float(middle.square().mean()) * 2  # a sine's mean square is half the square of its amplitude
    if not abs(loudness - 1) <= 0.01:
        raise WrongError(f"its energy is {loudness:.4f} of what it was")
    return f"{peak} Hz with {loudness:.4f} of the energy"


def _close(computed: Any, exact: Any) -> str:
    """The largest error as a share of the largest output."""
    torch = _torch()
    if computed.shape != exact.shape:
        raise WrongError(f"the result has the shape {tuple(computed.shape)}, expected {tuple(exact.shape)}")
    share = float((computed.cpu().double() - exact).abs().max() / exact.abs().max())
    if not (bool(torch.isfinite(exact).all()) and share <= LARGEST):
        raise WrongError(f"the result is off by {share:.3g} of its largest value; {LARGEST:g} is allowed")
    return f"off by {share:.1g} of the largest value, {LARGEST:g} is allowed"


def _same(found: str, wanted: str, *, shown: str = "") -> str:
    if found != wanted:
        raise WrongError(f"found {shown or found}, expected {wanted}")
    return shown or found


def _torch() -> Any:
    return importlib.import_module("torch")


def _distribution_version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [module])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        raise WrongError(f"{module} does not state its version") from None


CHECKS = {check.__name__: check for check in (version, cuda, architectures, cudnn, dispatch, extension)}
NUMERICS = {
    check.__name__.replace("_", "-"): check for check in (matmul, convolution, nms, roi_align, resnet, resample)
}


class Probe:
    """Runs the checks and reports each. A check is skipped if a check that it depends on failed."""

    def __init__(self, wanted: Wanted, output: TextIO) -> None:
        self.wanted, self._output = wanted, output
        self._device = ""

    def run(self) -> None:
        """Runs all checks, in the order of `smoke.planned`."""
        wanted = self.wanted
        if wanted["module"] and not self.check("import", partial(imported, wanted)):
            return
        for name in wanted["checks"]:
            self.check(name, partial(CHECKS[name], wanted))
        for name in wanted["numerics"]:
            self.check(f"{name}-cpu", partial(NUMERICS[name], "cpu"))
        if wanted["capability"]:
            self.check("gpu", self.choose_gpu)
        for name in wanted["gpu_numerics"]:
            self.check(f"{name}-gpu", partial(self.on_gpu, name))
        if wanted["script"]:
            self.check("smoke", partial(script, wanted["script"]))

    def choose_gpu(self) -> str:
        """Chooses the GPU to test on."""
        index = gpu(self.wanted)
        self._device = f"cuda:{index}"
        capability = ".".join(map(str, _torch().cuda.get_device_capability(index)))
        return f"{_torch().cuda.get_device_name(index)}, compute capability {capability}"

    def on_gpu(self, name: str) -> str:
        """Runs the numerical test `name` on the chosen GPU."""
        if not self._device:
            raise SkippedError("there is no GPU to run it on")
        if name == "convolution" and not self.wanted["cudnn"]:
            raise SkippedError("the variant is built without cuDNN")
        _torch().backends.cudnn.allow_tf32 = False
        _torch().backends.cuda.matmul.allow_tf32 = False
        _torch().backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        _torch().backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        return NUMERICS[name](self._device)

    def check(self, name: str, look: Callable[[], str]) -> bool:
        """Runs one check; returns whether it passed."""
        self._write(begin=name)
        start = time.monotonic()
        try:
            verdict, message = "ok", look()
        except WrongError as error:
            verdict, message = "failed", str(error)
        except SkippedError as error:
            verdict, message = "skipped", str(error)
        except Exception as error:  # noqa: BLE001  (whatever the package raises is what the check found)
            sys.excepthook(type(error), error, error.__traceback__)
            lines = str(error).strip().splitlines()
            verdict, message = "failed", f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        self._write(check=name, verdict=verdict, message=message, seconds=round(time.monotonic() - start, 3))
        return verdict == "ok"

    def _write(self, **line: object) -> None:
        self._output.write(f"{json.dumps(line)}\n")
        self._output.flush()


def main() -> None:
    """The script."""
    faulthandler.enable()
    wanted = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        for path in wanted["paths"]:
            site.addsitedir(path)
        Probe(wanted, output).run()


if __name__ == "__main__":
    main()
