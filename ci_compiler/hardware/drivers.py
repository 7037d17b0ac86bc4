"""The versions of NVIDIA drivers: which ones run a toolkit and a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_compiler.hardware import Gpu, Toolkit


def driver_number(version: str) -> int:
    """The major version of a driver (`570.86.15` is 570); 0 if `version` is not a version."""
    found = re.match(r"[0-9]{1,6}(?![0-9])", version)
    return int(found[0]) if found else 0


def driver_branch(version: int) -> int:
    """The branch of the major version of a driver: 581 (Windows and WSL) belongs to branch 580."""
    return version - version % 5


def too_new_driver(gpu: Gpu | None) -> int:
    """The lowest driver (major version) that no longer runs `gpu`; 0 if there is none."""
    return driver_branch(gpu.last_driver) + 5 if gpu and gpu.last_driver else 0


def lowest_driver(toolkit: Toolkit, gpu: Gpu | None = None) -> int:
    """The lowest driver (major version) for `toolkit`, and for `gpu` if given."""
    return max(toolkit.lowest_driver, gpu.driver if gpu else 0)
