"""The values of a variant, by name: what commands find in their environment, and what fills in the install line."""

from __future__ import annotations

from typing import Protocol

from ci_compiler.hardware import ALL, CPU
from ci_compiler.spec.model import Spec

NAMES = (
    "name",
    "package",
    "version",
    "branch",
    "python",
    "cuda",
    "gpu",
    "capability",
    "isa",
    "flags",
    "system",
    "jobs",
)
"""The names of the values."""


class Axes(Protocol):
    """A cell, or the parts of a variant's name."""

    @property
    def python(self) -> str:
        """The Python version: `3.13`."""

    @property
    def toolkit(self) -> str:
        """The toolkit's version: `12.8`; '' for a CPU variant."""

    @property
    def target(self) -> str:
        """The GPU architecture: `sm90`, or `cpu`."""

    @property
    def isa(self) -> str:
        """The instruction set: `avx2`."""


def variant_values(spec: Spec, branch: str, package: str, name: str, axes: Axes) -> dict[str, str]:
    """The values of the variant `name` of `package` on `branch`. A value that the variant lacks is ''."""
    isa = spec.hardware.isas.get(axes.isa)  # none for a listed variant of a system without ISAs
    flags, system = (" ".join(isa.flags), isa.system) if isa else ("", "")
    capability = "" if axes.target in {CPU, ALL.name} else str(spec.hardware.gpu(axes.target).capability)
    version, jobs = spec.branches[branch].versions.get(package, ""), str(spec.packages[package].jobs)
    axis_values = (axes.python, axes.toolkit, axes.target, capability, axes.isa, flags, system)
    return dict(zip(NAMES, (name, package, version, branch, *axis_values, jobs), strict=True))
