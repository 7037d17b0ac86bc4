"""The script of the benchmark: imports the package, runs the programs on a device, and writes what it measured."""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .checks import gpu
from .measured import PROGRAMS
from .shared import Script, devices_of, reported, torch_module
from .timing import measure


class BenchmarkRun(Script):
    """Measures what is wanted, and writes each result at once."""

    def run(self) -> None:
        """Imports the module, then runs the programs, then the declared file."""
        wanted = self.wanted
        if wanted["module"]:
            self.imported(wanted["module"])
        if wanted["programs"]:
            self.programs(wanted["programs"])
        if wanted["script"]:
            self.output.flush()
            os.dup2(self.output.fileno(), 1)  # what the declared file prints is read
            sys.argv = [wanted["script"]]
            runpy.run_path(wanted["script"], run_name="__main__")

    def imported(self, name: str) -> None:
        """Writes how long the import takes, the size of the module, and how PyTorch dispatches its kernels."""
        start = time.perf_counter()
        module = importlib.import_module(name)
        seconds = time.perf_counter() - start
        dispatch, torch = "", sys.modules.get("torch")
        with contextlib.suppress(AttributeError):
            dispatch = torch.backends.cpu.get_cpu_capability() if torch else ""
        folder = os.path.dirname(getattr(module, "__file__", None) or "")  # noqa: PTH120
        self.write(**{"import": seconds, "size": _size(folder), "dispatch": dispatch})

    def programs(self, names: list[str]) -> None:
        """Runs the programs one after the other; one that fails does not keep the others from running."""
        torch, device = torch_module(), self.wanted["device"]
        torch.manual_seed(0)
        where = gpu(self.wanted) if device == "gpu" else device
        waits = devices_of(self.wanted["device_kind"]).synchronize if device == "gpu" else None
        finish: Callable[[], object] = partial(waits, where) if waits else lambda: None
        awake = self.wanted["awake"]
        for name in names:
            try:
                call, limit = PROGRAMS[name](where), self.wanted["seconds"]
                first, seconds = measure(call, finish, limit, time.perf_counter, awake=awake)
            except Exception as error:  # noqa: BLE001  (whatever the package raises is why there is no result)
                self.write(name=name, device=device, skipped=reported(error))
            else:
                self.write(name=name, device=device, first=first, seconds=seconds)
                awake = 0.0


def _size(folder: str) -> int:
    """The bytes of the files below a folder; 0 for no folder."""
    if not folder:
        return 0
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return size


main = BenchmarkRun.main
