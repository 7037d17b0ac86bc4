"""The keys of the short form of a matrix: `python`, `isas` and `gpus`. They are for CUDA and for the CPU."""

from collections.abc import Mapping
from typing import Annotated

from ci_compiler.spec.axes import Matrix
from ci_compiler.spec.declare import declared, entries, form, key
from ci_compiler.spec.forms import BranchNames, IsaNames, Python
from ci_compiler.spec.shorthand.lists import ToolkitVersion

_LISTED = form(type=["object", "array"], items={"type": "string"}, minItems=1, uniqueItems=True)
"""A mapping that may be written as a list of names; `spelled_out` makes the mapping of it."""


@declared("gpu", type=["object", "null"])
class GpuAxis:
    """A GPU architecture of the matrix, or `all`; with nothing below it, it is combined with every branch and ISA."""

    name: str
    branches: BranchNames = key(default=(), published=False)
    toolkits: tuple[ToolkitVersion, ...] = key(
        "CUDA toolkits. Left out: every toolkit of the branch that knows the GPU.",
        name="cuda",
        minItems=1,
        default=(),
        published=False,
        examples=[["12.8", "12.9"]],
    )
    isas: IsaNames = key("ISAs in place of the matrix' own.", minItems=1, default=(), published=False)
    also: Mapping[str, IsaNames] = key(
        "Further ISAs, by branch.", examples=[{"cuda-13_0": ["avx"]}], default={}, published=False
    )


@declared("matrix", anyOf=[{"required": ["values"]}, {"required": ["rows"]}, {"required": ["isas", "gpus"]}])
class ShortMatrix(Matrix):
    """The axes, multiplied. In the short form, a variant is a package x branch x Python x toolkit x GPU x ISA."""

    pythons: tuple[Python, ...] = key(
        "Python versions, in quotes. Required unless every branch has its own.",
        name="python",
        minItems=1,
        default=(),
        published=False,
        examples=[["3.12", "3.13"]],
    )
    isas: Annotated[Mapping[str, IsaNames], _LISTED] = key(
        "The ISAs of every GPU that names none of its own, by Nix system. A list stands for each ISA's own system.",
        title="a list of ISAs ([avx2]), or a mapping of systems ({x86_64-linux: [avx2]})",
        minProperties=1,
        default={},
        published=False,
        examples=[{"x86_64-linux": ["avx2", "avx512"], "aarch64-linux": ["armv8_2", "armv9"]}, ["avx2", "armv9"]],
    )
    gpus: tuple[GpuAxis, ...] = key(
        "The GPU architectures, and `cpu` for variants without one. A list stands for names with nothing below them.",
        title="a list of GPUs ([cpu, sm90]), or a mapping of them ({cpu: {}, sm90: {}})",
        written=Annotated[Mapping[str, GpuAxis], _LISTED],
        convert=entries,
        minProperties=1,
        default=(),
        published=False,
        examples=[{"cpu": {}, "sm90": {}, "sm61": {"branches": ["main"], "isas": ["avx", "avx2"]}}, ["cpu", "sm90"]],
    )

    @property
    def is_short(self) -> bool:
        """Whether its variants are those of `isas` and `gpus`."""
        return not (self.values or self.rows)


def without_short_keys(matrix: ShortMatrix) -> Matrix:
    """The matrix that the rows of an expanded spec make."""
    return Matrix(values=matrix.values, rows=matrix.rows, exclude=matrix.exclude)
