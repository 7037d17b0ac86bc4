"""The versions of drivers: which ones run a toolkit and a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_compiler.hardware.families import family_of

if TYPE_CHECKING:
    from ci_compiler.hardware import Gpu, Toolkit


def driver_number(version: str) -> int:
    """The major version of a driver (`570.86.15` is 570); 0 if `version` is not a version."""
    match = re.match(r"[0-9]{1,6}(?![0-9])", version)
    return int(match[0]) if match else 0


def too_new_driver(gpu: Gpu | None) -> int:
    """The lowest driver (major version) that no longer runs `gpu`; 0 if there is none."""
    return family_of(gpu.family).next_branch(gpu.last_driver) if gpu and gpu.last_driver else 0


def lowest_driver(toolkit: Toolkit, gpu: Gpu | None = None) -> int:
    """The lowest driver (major version) for `toolkit`, and for `gpu` if given."""
    return max(toolkit.lowest_driver, gpu.driver if gpu else 0)
