"""The values of a variant, by name: what commands find in their environment, and what fills in the install line."""

from __future__ import annotations

from typing import Protocol

from ci_compiler.hardware import ALL, CPU
from ci_compiler.hardware.families import family_of
from ci_compiler.spec.axes import PARTS, SHORT_FAMILY
from ci_compiler.spec.model import Spec
from ci_compiler.spec.shorthand.lists import TOOLKITS

NAMES = (
    "name",
    "package",
    "version",
    "branch",
    "python",
    TOOLKITS,
    "gpu",
    "capability",
    "isa",
    "flags",
    "system",
    "jobs",
    "accelerator-tag",
)
"""The names of the values that every variant has."""


def names_of(spec: Spec) -> tuple[str, ...]:
    """The names of all values: also those of the axes and the settings.

    A placeholder has a hyphen where the name of an axis has an underscore.
    """
    further = (*PARTS, "platform", *spec.axes)
    return tuple(dict.fromkeys((*NAMES, *(name.replace("_", "-") for name in further), *spec.settings)))


class Axes(Protocol):
    """A cell, or the parts of a variant's name."""

    @property
    def python(self) -> str:
        """The Python version: `3.13`."""

    @property
    def family(self) -> str:
        """The name of the family of the accelerator."""

    @property
    def toolkit(self) -> str:
        """The toolkit's version: `12.8`; '' for a CPU variant."""

    @property
    def target(self) -> str:
        """The GPU architecture, or `cpu`."""

    @property
    def isa(self) -> str:
        """The instruction set: `avx2`."""


def variant_values(spec: Spec, branch: str, package: str, name: str, axes: Axes) -> dict[str, str]:
    """The values of the variant `name` of `package` on `branch`. A value that the variant lacks is ''."""
    isa = spec.hardware.isas.get(axes.isa)  # none for a listed variant of a system without ISAs
    flags, system = (" ".join(isa.flags), isa.system) if isa else ("", "")
    gpu = None if axes.target in {CPU, ALL.name} else spec.hardware.gpu(axes.target)
    capability = str(gpu.capability) if gpu and any(gpu.capability) else ""
    kit = axes.toolkit if axes.family in {CPU, SHORT_FAMILY} else ""
    version, jobs = spec.branches[branch].versions.get(package, ""), str(spec.packages[package].jobs)
    axis_values = (axes.python, kit, axes.target, capability, axes.isa, flags, system)
    tag = family_of(axes.family).index_tag(axes.toolkit)
    return dict(zip(NAMES, (name, package, version, branch, *axis_values, jobs, tag), strict=True))
