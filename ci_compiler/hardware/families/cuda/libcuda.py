"""libcuda, the library of NVIDIA's driver: where it is, whether a process can use it, and what programs need of it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.hardware import Version
from ci_compiler.hardware.families.machines import Attempt, UsedDevice
from ci_compiler.hardware.texts import MISSING, Answer, answer
from ci_compiler.outside import WRONG_FORM, object_of

DRIVER_LINK = "/run/opengl-driver/lib"
"""Where programs of nixpkgs look for the driver (nixpkgs, addDriverRunpath)."""

LIBRARY = "libcuda.so.1"
PROBE = Path(__file__).with_name("libcuda_probe.py")

TRIED = 512
"""The megabytes of each GPU's memory that a deep proof writes and reads back."""

VISIBLE = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
"""Variables that say which GPUs a job may use. They are kept in an otherwise clean environment."""

_DRIVER = ("libcuda.so*", "libnvidia-*.so*")
"""The libraries of the driver that a program needs; their folder may have others, which must not be used."""


def attempts(megabytes: int = 1) -> Iterator[Attempt]:
    """Tries each libcuda: the one where programs of nixpkgs look, then those in the loader's cache."""
    link = Path(DRIVER_LINK, LIBRARY)
    if link.exists():
        yield try_cuda(str(link), linked=True, megabytes=megabytes)
    for path in cached_libraries(_loader_cache(), LIBRARY, platform.machine()):
        yield try_cuda(path, linked=False, megabytes=megabytes)


def try_cuda(library: str, *, linked: bool, megabytes: int = 1) -> Attempt:
    """Tries `library` in a process with a clean environment, with `megabytes` of the memory of each GPU."""
    env = {name: os.environ[name] for name in VISIBLE if name in os.environ}
    found = answer(sys.executable, "-I", "-S", str(PROBE), library, str(megabytes), seconds=60, env=env)
    return attempt_of(library, found or Answer(status=126, err="there is no Python to try it with"), linked=linked)


def attempt_of(library: str, found: Answer, *, linked: bool) -> Attempt:
    """The answer of the probe as evidence; a crash of the probe is a problem."""
    try:
        data = object_of(found.out)
        rows = data.get("devices", ())
        devices = tuple(UsedDevice(name=str(row["name"]), capability=Version.parse(row["capability"])) for row in rows)
    except WRONG_FORM:
        data = None
    if found.status != 0 or data is None:
        problem = found.said or f"the process ended with {found.status}"
        return Attempt(library=library, linked=linked, problem=problem)
    return Attempt(library=library, linked=linked, devices=devices, problem=str(data.get("problem", "")))


def cached_libraries(text: str, name: str, machine: str) -> tuple[str, ...]:
    """The paths of the library `name` that `ldconfig -p` lists for `machine` (as uname names it)."""
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(machine, machine)
    rows = re.finditer(r"^\s*(\S+) \((.*)\) => (\S.*?)\s*$", text, re.MULTILINE)
    return tuple(dict.fromkeys(row[3] for row in rows if row[1] == name and kind in re.split(r"[, ]+", row[2])))


def _loader_cache() -> str:
    """The loader's cache as text. The folder of ldconfig is often missing from a user's PATH."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    program = shutil.which("ldconfig", path=path)
    return (answer(program, "-p") or MISSING).out if program else ""


def link_driver(attempts: Sequence[Attempt], folder: Path) -> bool:
    """Links the driver's libraries into `folder` if only the loader's cache has them.

    Programs of nixpkgs do not read the machine's loader cache. No link is needed if the libraries are where programs
    of nixpkgs look.
    """
    working = [attempt for attempt in attempts if attempt.devices]
    if not working or any(attempt.linked for attempt in working):
        return False
    folder.mkdir()
    for pattern in _DRIVER:
        for library in Path(working[0].library).parent.glob(pattern):
            (folder / library.name).symlink_to(library)
    return True
