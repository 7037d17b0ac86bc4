"""The script of the benchmark: imports the package, runs the programs on a device, and writes what it measured."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import runpy
import site
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from .checks import gpu
from .found import torch_module
from .measured import PROGRAMS
from .timing import measure


class Benchmark:
    """Measures what is wanted, and writes each result at once."""

    def __init__(self, wanted: Mapping[str, Any], output: TextIO) -> None:
        self.wanted, self._output = wanted, output

    def run(self) -> None:
        """Imports the module, then runs the programs, then the declared file."""
        wanted = self.wanted
        if wanted["module"]:
            self.imported(wanted["module"])
        if wanted["programs"]:
            self.programs(wanted["programs"])
        if wanted["script"]:
            self._output.flush()
            os.dup2(self._output.fileno(), 1)  # what the declared file prints is read
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
        self._write(**{"import": seconds, "size": _size(folder), "dispatch": dispatch})

    def programs(self, names: list[str]) -> None:
        """Runs the programs one after the other; one that fails does not keep the others from running."""
        torch, device, finish = torch_module(), self.wanted["device"], _nothing
        torch.manual_seed(0)
        where = device
        if device == "gpu":
            where = f"cuda:{gpu(self.wanted)}"
            finish = _synchronising(torch, where)
        awake = self.wanted["awake"]
        for name in names:
            try:
                first, seconds = measure(
                    PROGRAMS[name](where), finish, self.wanted["seconds"], time.perf_counter, awake=awake
                )
            except Exception as error:  # noqa: BLE001  (whatever the package raises is why there is no result)
                sys.excepthook(type(error), error, error.__traceback__)
                lines = str(error).strip().splitlines()
                reason = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
                self._write(name=name, device=device, skipped=reason)
            else:
                self._write(name=name, device=device, first=first, seconds=seconds)
                awake = 0.0

    def _write(self, **line: object) -> None:
        self._output.write(f"{json.dumps(line)}\n")
        self._output.flush()


def _nothing() -> None:
    """Waits for the CPU, which has finished."""


def _synchronising(torch: Any, device: str) -> Callable[[], None]:
    def finish() -> None:
        torch.cuda.synchronize(device)

    return finish


def _size(folder: str) -> int:
    """The bytes of the files below a folder; 0 for no folder."""
    if not folder:
        return 0
    found = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                found += Path(parent, name).lstat().st_size
    return found


def main() -> None:
    """The script."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        for path in wanted["paths"]:
            site.addsitedir(path)
        Benchmark(wanted, output).run()
