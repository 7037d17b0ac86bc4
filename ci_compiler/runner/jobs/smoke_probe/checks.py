"""Checks of a package against the expectation. Each returns a message on what it found."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys

from .shared import SkippedError, Wanted, WrongError, devices_of, family, same, torch_module


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


def toolkit(wanted: Wanted) -> str:
    """PyTorch was built with the expected toolkit."""
    absent = f"no {family().TITLE}"
    return same(family().toolkit(torch_module()) or absent, wanted["toolkit"] or absent)


def architectures(wanted: Wanted) -> str:
    """PyTorch was compiled for exactly the expected GPU architectures."""
    found = family().architectures(torch_module())
    return same(" ".join(sorted(found)) or "none", " ".join(sorted(wanted["architectures"])) or "none")


def dnn(wanted: Wanted) -> str:
    """PyTorch has the vendor's library for neural networks if and only if the variant is built with it."""
    title, found = family().DNN, family().dnn(torch_module())
    shown = f"{title} {found}" if found else f"no {title}"
    return same(title if found else shown, title if wanted["dnn"] else f"no {title}", shown=shown)


def dispatch(wanted: Wanted) -> str:
    """PyTorch chose a level of vector instructions that is expected for the variant's instruction set."""
    if not wanted["dispatch"]:
        raise SkippedError("the table does not say which level PyTorch chooses on this instruction set")
    found = torch_module().backends.cpu.get_cpu_capability()
    if found not in wanted["dispatch"]:
        raise WrongError(f"found {found}, expected {' or '.join(wanted['dispatch'])}")
    return str(found)


def extension(wanted: Wanted) -> str:
    """TorchVision's own operators are available, and built with the same toolkit."""
    importlib.import_module("torchvision")
    absent = f"no {family().TITLE}"
    found = family().extension(torch_module()) or absent
    return f"operators built with {same(found, wanted['toolkit'] or absent)}"


def gpu(wanted: Wanted) -> str:
    """The first device of PyTorch that runs machine code for one of the wanted targets."""
    known, kind = family(), wanted["device_kind"]
    devices = devices_of(kind)
    if not devices.is_available():
        devices.init()  # raises an error with the reason
    seen = []
    for index in range(devices.device_count()):
        target = known.target(devices, index)
        seen.append(f"{devices.get_device_name(index)} ({target})")
        if any(not built or known.runs(target, built) for built in wanted["targets"]):
            return f"{kind}:{index}"
    raise WrongError(f"no GPU runs {' or '.join(wanted['targets'])}; PyTorch sees {', '.join(seen) or 'none'}")


def _distribution_version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [module])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        raise WrongError(f"{module} does not state its version") from None


CHECKS = {check.__name__: check for check in (version, toolkit, architectures, dnn, dispatch, extension)}
