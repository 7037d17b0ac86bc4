"""Uses a GPU through the libcuda given as the only argument, and prints as JSON what came of it.

A script, started with a clean environment by `probes`: it stands for a process that a Nix-built Python would be. It
gives no more away than names, and keeps nothing: a megabyte on each GPU is taken, written and given back.
"""

import ctypes
import json
import sys
from collections.abc import Callable

MAJOR, MINOR = 75, 76  # CUdevice_attribute: compute capability (cuda.h)
MEGABYTE = 1 << 20


class CudaError(Exception):
    """A call into libcuda failed."""


def use(path: str) -> list[dict[str, object]]:
    """The GPUs that could be used. Raises OSError where the library cannot be loaded, CudaError, AttributeError."""
    driver = ctypes.CDLL(path)

    def call(name: str, *arguments: object) -> None:
        code = getattr(driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            driver.cuGetErrorName(code, ctypes.byref(text))
            message = f"{name} fails with {(text.value or str(code).encode()).decode(errors='replace')}"
            raise CudaError(message)

    call("cuInit", 0)
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return [one(call, index) for index in range(count.value)]


def one(call: Callable[..., None], index: int) -> dict[str, object]:
    """The GPU at `index`, used."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, context, memory = ctypes.create_string_buffer(256), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDeviceGetName", name, len(name), device)
    call("cuDeviceGetAttribute", ctypes.byref(major), MAJOR, device)
    call("cuDeviceGetAttribute", ctypes.byref(minor), MINOR, device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MEGABYTE))
    call("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(MEGABYTE))
    call("cuCtxSynchronize")
    call("cuMemFree_v2", memory)
    call("cuDevicePrimaryCtxRelease_v2", device)
    return {"name": name.value.decode(errors="replace"), "capability": f"{major.value}.{minor.value}"}


def main() -> None:
    """The script."""
    try:
        told: dict[str, object] = {"devices": use(sys.argv[1])}
    except (OSError, CudaError, AttributeError) as error:
        told = {"problem": str(error)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
