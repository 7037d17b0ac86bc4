"""The script of the probe: runs the checks that the expectation names, and reports each."""

from __future__ import annotations

import runpy
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .checks import CHECKS, gpu, imported
from .gpu_libraries import LIBRARIES, loaded
from .numerics import NUMERICS
from .shared import Script, SkippedError, WrongError, devices_of, family, reported, target_of, torch_module


def script(path: str) -> str:
    """The declared Python file ends without an error."""
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in {None, 0}:
            raise WrongError(f"{Path(path).name} ended with {end.code}") from None
    except Exception as error:  # whatever the file raises is what the check found
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        if not own:  # it does not compile, which the error says with its place
            raise
        message = reported(error)
        if not str(error):  # an assertion often has no message
            message = f"{type(error).__name__}: {own[-1].line}"
        raise WrongError(f"{Path(path).name}:{own[-1].lineno}: {message}") from None
    return f"{Path(path).name} ended without an error"


class Probe(Script):
    """Runs the checks and reports each, and last which files it has loaded.

    A check is skipped if a check that it depends on failed.
    """

    _device = ""

    def run(self) -> None:
        """Runs all checks, in the order of `probing.planned`."""
        wanted = self.wanted
        if wanted["module"] and not self.check("import", partial(imported, wanted)):
            return
        for name in wanted["checks"]:
            self.check(name, partial(CHECKS[name], wanted))
        for name in wanted["numerics"]:
            self.check(f"{name}-cpu", partial(NUMERICS[name], "cpu"))
        if wanted["targets"]:
            self.check("gpu", self.choose_gpu)
        for name in wanted["gpu_numerics"]:
            self.check(f"{name}-gpu", partial(self.on_gpu, name))
        if wanted["script"]:
            self.check("smoke", partial(script, wanted["script"]))
        self.write(loaded=loaded())

    def choose_gpu(self) -> str:
        """Chooses the GPU to test on."""
        self._device = gpu(self.wanted)
        kind, _, index = self._device.partition(":")
        return f"{devices_of(kind).get_device_name(int(index))}, {target_of(self._device)}"

    def on_gpu(self, name: str) -> str:
        """Runs the numerical test `name` on the chosen GPU."""
        if not self._device:
            raise SkippedError("there is no GPU to run it on")
        if name == "convolution" and not self.wanted["dnn"]:
            raise SkippedError(f"the variant is built without {family().DNN}")
        family().be_exact(torch_module())
        return (NUMERICS | LIBRARIES)[name](self._device)

    def check(self, name: str, look: Callable[[], str]) -> bool:
        """Runs one check; returns whether it passed."""
        self.write(begin=name)
        start = time.monotonic()
        try:
            verdict, message = "ok", look()
        except WrongError as error:
            verdict, message = "failed", str(error)
        except SkippedError as error:
            verdict, message = "skipped", str(error)
        except Exception as error:  # noqa: BLE001  (whatever the package raises is what the check found)
            verdict, message = "failed", reported(error)
        self.write(check=name, verdict=verdict, message=message, seconds=round(time.monotonic() - start, 3))
        return verdict == "ok"


main = Probe.main
