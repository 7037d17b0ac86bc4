"""Uses the GPUs through the libcuda that is the first argument, and prints the result as JSON.

A script that `libcuda` starts in a clean environment, in place of a Python that Nix built. It reports only names and
compute capabilities, and keeps nothing: on each GPU it allocates as many megabytes as the second argument says (less if
fewer are free), writes them, reads them back and frees them.
"""

import ctypes
import json
import sys
from collections.abc import Callable

MAJOR, MINOR = 75, 76  # CUdevice_attribute: compute capability (cuda.h)
PATTERNS = 0x55, 0xAA
"""Bytes that together set and clear every bit."""
MOST_AT_ONCE = 64 << 20
"""The most bytes to read back at once."""


class CudaError(Exception):
    """A call into libcuda failed."""


def use(path: str, megabytes: int) -> list[dict[str, object]]:
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
    return [use_device(call, index, megabytes << 20) for index in range(count.value)]


def use_device(call: Callable[..., None], index: int, size: int) -> dict[str, object]:
    """Uses the GPU at `index`, with `size` bytes of its memory, and returns its name and compute capability."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, context = ctypes.create_string_buffer(256), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDeviceGetName", name, len(name), device)
    call("cuDeviceGetAttribute", ctypes.byref(major), MAJOR, device)
    call("cuDeviceGetAttribute", ctypes.byref(minor), MINOR, device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    use_memory(call, size)
    call("cuDevicePrimaryCtxRelease_v2", device)
    return {"name": name.value.decode(errors="replace"), "capability": f"{major.value}.{minor.value}"}


def use_memory(call: Callable[..., None], size: int) -> None:
    """Writes to `size` bytes of the current GPU's memory, at most half of the free ones, and reads them back."""
    memory, free, total = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = max(1, min(size, free.value // 2))
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    host = ctypes.create_string_buffer(min(size, MOST_AT_ONCE))
    for pattern in PATTERNS:
        expected = bytes((pattern,)) * len(host)
        call("cuMemsetD8_v2", memory, ctypes.c_ubyte(pattern), ctypes.c_size_t(size))
        for start in range(0, size, len(host)):
            length = min(len(host), size - start)
            call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(memory.value + start), ctypes.c_size_t(length))
            if ctypes.string_at(host, length) != expected[:length]:
                raise CudaError("its memory does not keep what is written to it")
    call("cuMemFree_v2", memory)


def main() -> None:
    """The script."""
    try:
        result: dict[str, object] = {"devices": use(sys.argv[1], int(sys.argv[2]))}
    except (OSError, CudaError, AttributeError) as error:
        result = {"problem": str(error)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
