"""Uses a GPU through the libcuda given as the only argument, and prints the result as JSON.

A script that `probes` starts in a clean environment, in place of a Python that Nix built. It reports only names and
compute capabilities, and keeps nothing: it allocates, writes and frees one megabyte on each GPU.
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
    """The usable GPUs. Raises OSError if the library cannot be loaded, else CudaError or AttributeError."""
    driver = ctypes.CDLL(path)

    def call(name: str, *arguments: object) -> None:
        code = getattr(driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            driver.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{name} fails with {(text.value or str(code).encode()).decode(errors='replace')}")

    call("cuInit", 0)
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return [use_device(call, index) for index in range(count.value)]


def use_device(call: Callable[..., None], index: int) -> dict[str, object]:
    """Uses the GPU at `index` and returns its name and compute capability."""
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
        result: dict[str, object] = {"devices": use(sys.argv[1])}
    except (OSError, CudaError, AttributeError) as error:
        result = {"problem": str(error)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
