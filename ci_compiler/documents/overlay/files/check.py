# @heading@
"""Checks an installed build: `check.py EXPECTED`, a JSON object with package, version, toolkit, device and target."""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any


def main() -> int:
    """Imports the package and prints what is wrong with it; returns 1 if anything is."""
    wanted = json.loads(sys.argv[1])
    module = importlib.import_module(wanted["package"].replace("-", "_"))
    found = getattr(module, "__version__", "")
    print(f"{module.__name__} {found} from {module.__file__}")
    problems = []
    if wanted["version"] and found.partition("+")[0] != wanted["version"]:
        problems.append(f"the version is {found}, not {wanted['version']}")
    if "torch" in sys.modules:
        problems += check_torch(sys.modules["torch"], wanted["toolkit"], wanted["device"], wanted["target"])
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print("failed" if problems else "ok")
    return 1 if problems else 0


def check_torch(torch: Any, toolkit: str, device: str, code: str) -> Iterator[str]:
    """The problems of the torch that the package uses, on the CPU and on the GPU."""
    torch.manual_seed(0)
    matrix = torch.randn(256, 256)
    exact = matrix.double() @ matrix.double()
    if not torch.allclose((matrix @ matrix).double(), exact, atol=1e-2):
        yield "the product of two matrices on the CPU is wrong"
    if not (toolkit and device):
        return
    gpus, built = getattr(torch, device), getattr(torch.version, device)
    if built != toolkit:
        yield f"torch is built with {device} {built}, not {toolkit}"
    if not gpus.is_available():  # torch lists no architectures then
        print("PyTorch finds no GPU: only the CPU is checked")
        return
    if code and code not in gpus.get_arch_list():
        yield f"torch is built for {gpus.get_arch_list()}, not for {code}"
    print(f"GPU: {gpus.get_device_name()}, compute capability {gpus.get_device_capability()}")
    getattr(torch.backends, device).matmul.allow_tf32 = False
    on_gpu = matrix.to(device)
    if not torch.allclose((on_gpu @ on_gpu).double().cpu(), exact, atol=1e-2):
        yield "the product of two matrices on the GPU is wrong"


if __name__ == "__main__":
    sys.exit(main())
