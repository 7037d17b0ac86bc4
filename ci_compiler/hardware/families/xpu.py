"""XPU, Intel's GPUs."""

from __future__ import annotations

from ci_compiler.hardware.families import Family

FAMILY = Family(name="xpu", title="XPU", toolkit="oneAPI")
