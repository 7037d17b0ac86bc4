"""Checks of a package against the expectation. Each returns a message on what it found."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys

from .shared import SkippedError, Wanted, WrongError, same, torch_module


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
    return same(compared, wanted["version"], shown=found)


def cuda(wanted: Wanted) -> str:
    """PyTorch was built with the expected CUDA toolkit."""
    return same(torch_module().version.cuda or "no CUDA", wanted["cuda"] or "no CUDA")


def architectures(wanted: Wanted) -> str:
    """PyTorch was compiled for exactly the expected GPU architectures.

    `torch.cuda.get_arch_list` returns nothing without a GPU, so the underlying function is called directly.
    """
    torch = torch_module()
    flags = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001
    found = torch.cuda.get_arch_list() or ((flags() or "").split() if flags else [])
    return same(" ".join(sorted(found)) or "none", " ".join(sorted(wanted["architectures"])) or "none")


def cudnn(wanted: Wanted) -> str:
    """PyTorch has cuDNN if and only if the variant is built with it."""
    torch = torch_module()
    found = torch.backends.cudnn.is_available()
    shown = f"cuDNN {torch.backends.cudnn.version()}" if found else "no cuDNN"
    return same("cuDNN" if found else "no cuDNN", "cuDNN" if wanted["cudnn"] else "no cuDNN", shown=shown)


def dispatch(wanted: Wanted) -> str:
    """PyTorch chose a level of vector instructions that is expected for the variant's instruction set."""
    if not wanted["dispatch"]:
        raise SkippedError("the table does not say which level PyTorch chooses on this instruction set")
    found = torch_module().backends.cpu.get_cpu_capability()
    if found not in wanted["dispatch"]:
        raise WrongError(f"found {found}, expected {' or '.join(wanted['dispatch'])}")
    return str(found)


def extension(wanted: Wanted) -> str:
    """TorchVision's own operators are available, and built with the same CUDA toolkit."""
    importlib.import_module("torchvision")
    number = int(torch_module().ops.torchvision._cuda_version())  # noqa: SLF001
    found = f"{number // 1000}.{number % 1000 // 10}" if number > 0 else "no CUDA"
    return f"operators built with {same(found, wanted['cuda'] or 'no CUDA')}"


def gpu(wanted: Wanted) -> int:
    """The index of the first GPU that runs a cubin of the wanted capability: same major, no lower minor."""
    torch, (major, minor) = torch_module(), wanted["capability"]
    if not torch.cuda.is_available():
        torch.cuda.init()  # raises an error with the reason
    seen = []
    for index in range(torch.cuda.device_count()):
        capability = tuple(torch.cuda.get_device_capability(index))
        seen.append(f"{torch.cuda.get_device_name(index)} (sm_{capability[0]}{capability[1]})")
        if capability[0] == major and capability[1] >= minor:
            return index
    raise WrongError(f"no GPU runs sm_{major}{minor}; PyTorch sees {', '.join(seen) or 'none'}")


def _distribution_version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [module])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        raise WrongError(f"{module} does not state its version") from None


CHECKS = {check.__name__: check for check in (version, cuda, architectures, cudnn, dispatch, extension)}
