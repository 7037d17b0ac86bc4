"""What the scripts and their checks share: what they are asked, how they report, how checks fail, and the package."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import runpy
import site
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TextIO

if sys.platform != "win32":
    import resource


class WrongError(Exception):
    """The check failed; the message says what it found."""


class SkippedError(Exception):
    """The check cannot run; the message says why."""


Wanted = Mapping[str, Any]


class Script:
    """A script that does what is wanted, and writes each result at once as a line of JSON."""

    def __init__(self, wanted: Wanted, output: TextIO) -> None:
        self.wanted, self.output = wanted, output

    @classmethod
    def main(cls) -> None:
        """Runs the script: what is wanted comes from standard input, and other output goes to standard error."""
        faulthandler.enable()
        if sys.platform != "win32":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an emulator would write its whole memory
        wanted = json.load(sys.stdin)
        with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
            os.dup2(2, 1)
            use_family(wanted["probe"])
            for path in wanted["paths"]:
                site.addsitedir(path)
            cls(wanted, output).run()

    def run(self) -> None:
        """Does what is wanted."""
        raise NotImplementedError

    def write(self, **line: object) -> None:
        """Writes a line."""
        self.output.write(f"{json.dumps(line)}\n")
        self.output.flush()


def reported(error: Exception) -> str:
    """What the package raised, on one line; standard error gets all of it."""
    sys.excepthook(type(error), error, error.__traceback__)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def same(found: str, wanted: str, *, shown: str = "") -> str:
    """`found`, or `shown` in its place. Raises WrongError if it is not what is wanted."""
    if found != wanted:
        raise WrongError(f"found {shown or found}, expected {wanted}")
    return shown or found


def torch_module() -> Any:
    """PyTorch, imported when it is first needed."""
    return importlib.import_module("torch")


_FAMILY: dict[str, Any] = {}


def use_family(path: str) -> None:
    """Loads what is known of the variant's family: the functions of the Python file `path` ('': nothing is known)."""
    _FAMILY.update(runpy.run_path(path) if path else {})


def family() -> Any:
    """What is known of the variant's family, see `hardware.families`. Raises SkippedError if there is nothing."""
    if not _FAMILY:
        raise SkippedError("nothing is known of PyTorch on GPUs of this family")
    return SimpleNamespace(**_FAMILY)


def devices_of(kind: str) -> Any:
    """PyTorch's module of devices of a kind."""
    return getattr(torch_module(), kind)


def target_of(device: str) -> str:
    """The target of a GPU of PyTorch's: `KIND:INDEX`."""
    kind, _, index = device.partition(":")
    return str(family().target(devices_of(kind), int(index or 0)))


def has_bfloat16(device: str) -> bool:
    """Whether a GPU has the type."""
    return bool(family().has_bfloat16(target_of(device)))
